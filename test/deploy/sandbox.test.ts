import { describe, expect, test } from "bun:test";
import { chmodSync, chownSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { $ } from "bun";
import { testExecutable } from "../helpers/executable.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const unit = readFileSync("deploy/troupe.service", "utf8");
const tools = ["unshare", "setpriv", "prlimit", "chroot", "strace", "systemd-analyze"];
const isRoot = process.platform === "linux" && process.getuid?.() === 0;
const isPossible =
  isRoot && tools.every((tool) => Bun.which(tool) !== null) && Bun.spawnSync(["unshare", "--mount", "true"]).success;

/** Neither root nor anyone who owns a file. */
const stranger = 61_234;

/** The system calls of one of systemd's sets, the sets within it included. */
async function callsIn(set: string): Promise<string[]> {
  const text = await $`systemd-analyze syscall-filter ${set}`.quiet().text();
  const names = text
    .split("\n")
    .slice(1)
    .map((line) => line.trim());
  const inner = await Promise.all(names.filter((name) => name.startsWith("@")).map(callsIn));
  return [...names.filter((name) => /^[a-z]/.test(name)), ...inner.flat()];
}

async function allowedCalls(): Promise<Set<string>> {
  const allowed = new Set<string>();
  for (const [, denied, sets] of unit.matchAll(/^SystemCallFilter=(~?)(.+)$/gm)) {
    const calls = (await Promise.all(sets!.split(" ").map(callsIn))).flat();
    for (const call of calls) {
      if (denied === "~") allowed.delete(call);
      else allowed.add(call);
    }
  }
  return allowed;
}

async function until<T>(look: () => T | undefined): Promise<T> {
  for (;;) {
    const found = look();
    if (found !== undefined) return found;
    await Bun.sleep(20);
  }
}

describe.skipIf(!isPossible)("with what the unit takes from it, the executable", () => {
  test("answers, streams, reloads, keeps its data and stops, by allowed system calls alone", async () => {
    using folder = new TempFolder();
    chmodSync(folder.path, 0o755);
    const program = folder.file("program/troupe");
    mkdirSync(folder.file("program"), { mode: 0o755 });
    copyFileSync(await testExecutable(), program);
    const state = folder.file("state");
    mkdirSync(state, { mode: 0o700 });
    chownSync(state, stranger, stranger);
    mkdirSync(folder.file("root"));
    writeFileSync(folder.file("state/troupe.yaml"), "limits: {json_depth: 32}\n");
    chownSync(folder.file("state/troupe.yaml"), stranger, stranger);

    const environment = [...unit.matchAll(/^Environment=(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]);
    const running = Bun.spawn(
      [
        ...[
          "unshare",
          "--mount",
          "--ipc",
          "--uts",
          "sh",
          "test/deploy/sandbox.sh",
          String(stranger),
          folder.file("root"),
        ],
        ...[state, program, "serve", "--port", "0", "--config", `${state}/troupe.yaml`],
      ],
      {
        env: { PATH: process.env["PATH"]!, STATE_DIRECTORY: state, ...Object.fromEntries(environment) },
        stdio: ["ignore", "ignore", "pipe"],
      },
    );
    let log = "";
    const reading = (async () => {
      for await (const part of running.stderr) log += new TextDecoder().decode(part);
    })();
    const seen = (pattern: RegExp) =>
      until(() => {
        if (running.exitCode !== null) throw new Error(`it ended: ${log}`);
        return pattern.exec(log) ?? undefined;
      });

    const url = (await seen(/"addresses":"(http:[^"]+)"/))[1]!;
    const key = readFileSync(`${state}/first-key`, "utf8").trim();
    const ask = async (stream: boolean) => {
      const answer = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${key}`,
          "content-type": "application/json",
          "service-request-id": `r${stream}`,
        },
        body: JSON.stringify({
          model: "troupe/tutor",
          messages: [{ role: "user", content: "hi" }],
          stream,
          store: true,
        }),
      });
      return `${answer.status} ${await answer.text()}`;
    };
    expect(await ask(false)).toStartWith('200 {"id":"chatcmpl-');
    expect(await ask(true)).toEndWith("data: [DONE]\n\n");
    expect(await (await fetch(`${url}/health`)).json()).toMatchObject({ status: "ok" });
    writeFileSync(folder.file("state/troupe.yaml"), "limits: {json_depth: 33}\n");
    process.kill(running.pid, "SIGHUP");
    await seen(/"configuration reloaded","changed":"limits.json_depth"/);
    process.kill(running.pid, "SIGTERM");
    expect(await running.exited).toBe(0);
    await reading;
    expect(existsSync(`${state}/troupe.db`)).toBe(true);

    const trace = readFileSync(`${state}/trace`, "utf8");
    const used = new Set([...trace.matchAll(/^\d+ +([a-z]\w+)\(/gm)].map(([, call]) => call!));
    expect(used.size).toBeGreaterThan(40);
    const allowed = await allowedCalls();
    expect([...used].filter((call) => !allowed.has(call))).toEqual([]);
  });
});
