import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { withLocalServer } from "../../src/cli/local-server.ts";
import type { Config } from "../../src/config/config.ts";
import type { Signal } from "../../src/lib/process/io.ts";
import { completionOf } from "../helpers/chat-upstream.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { testConfig } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

/** The temporary folder of the process, which each test replaces by its own. */
const before = process.env["TMPDIR"];
let temporary: TempFolder;
beforeEach(() => {
  temporary = new TempFolder();
  process.env["TMPDIR"] = temporary.path;
});
afterEach(() => {
  if (before === undefined) delete process.env["TMPDIR"];
  else process.env["TMPDIR"] = before;
  temporary[Symbol.dispose]();
});

const foldersLeft = () => readdirSync(temporary.path).filter((name) => name.startsWith("troupe-local-"));

function context(env: Record<string, string> = {}) {
  const signals = new Map<Signal, () => void>();
  const written: string[] = [];
  const io = {
    stderr: { write: (text: string) => written.push(text), flush: () => {}, isTerminal: false },
    env,
    onSignal: (name: Signal, run: () => void) => {
      signals.set(name, run);
      return () => signals.delete(name);
    },
  };
  return { io, signals, written };
}

const post = (url: string, key: string, body: object) =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });

describe("a local server", () => {
  test("serves the configuration's providers and personas, and leaves nothing behind", async () => {
    using folder = new TempFolder();
    using upstream = new UpstreamServer(() => jsonResponse(completionOf({ content: "hello" })));
    mkdirSync(folder.file("personas/my"), { recursive: true });
    writeFileSync(
      folder.file("personas/my/one.yaml"),
      "description: One.\nmodel: openai/gpt-5.4\nsystem: Say hello.\n",
    );
    const config: Config = testConfig(folder.file("data"), {
      personas: folder.file("personas"),
      providers: { openai: { baseUrl: upstream.url } },
      config: {
        budgets: { ...testConfig("", {}).budgets, all: { day: 0 } },
        limits: { ...testConfig("", {}).limits, gatewayPerMinute: 1 },
      },
    });
    const { io, written, signals } = context();
    const code = await withLocalServer({ io }, config, async ({ url, key }) => {
      expect(foldersLeft()).toHaveLength(1);
      for (const path of ["/v1", "/gateway/v1", "/gateway/v1"]) {
        const model = path === "/v1" ? "my/one" : "openai/gpt-5.4";
        const answer = await post(`${url}${path}/chat/completions`, key, {
          model,
          messages: [{ role: "user", content: "Hi" }],
        });
        expect(answer.status).toBe(200);
        expect(await answer.json()).toMatchObject({ choices: [{ message: { content: "hello" } }] });
      }
      expect((await fetch(`${url}/admin/v1/keys`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(200);
      return 7;
    });
    expect(code).toBe(7);
    expect(upstream.requests[0]!.json).toMatchObject({ messages: [{ content: "Say hello." }, { content: "Hi" }] });
    expect(written).toEqual([]);
    expect(foldersLeft()).toEqual([]);
    expect(readdirSync(folder.path)).toEqual(["personas"]);
    expect(signals.size).toBe(0);
  });

  test("is called through a unix socket behind a forward proxy", async () => {
    using folder = new TempFolder();
    const { io } = context({ HTTP_PROXY: "http://127.0.0.1:9" });
    const code = await withLocalServer({ io }, testConfig(folder.file("data"), {}), async ({ url, fetchOptions }) => {
      expect(fetchOptions.unix).toStartWith(temporary.path);
      return (await fetch(`${url}/healthz`, fetchOptions)).status;
    });
    expect(code).toBe(200);
  });

  test("writes what is wrong with a persona, and the price list that does not count", async () => {
    using folder = new TempFolder();
    mkdirSync(folder.file("personas/my"), { recursive: true });
    mkdirSync(folder.file("data"));
    writeFileSync(folder.file("data/prices.json"), "{}\n");
    writeFileSync(folder.file("personas/my/bad.yaml"), "model: nowhere\n");
    const { io, written } = context();
    const config = testConfig(folder.file("data"), { personas: folder.file("personas") });
    expect(await withLocalServer({ io }, config, async () => 0)).toBe(0);
    const text = written.join("");
    expect(text).toContain("warning: the stored price list does not count: ");
    expect(text).toContain(`error: a persona is invalid; its last good version stays: ${folder.file("personas")}`);
  });

  test("is ended by a signal, with that signal's exit code", async () => {
    using folder = new TempFolder();
    const config = testConfig(folder.file("data"), {});
    const { io, signals } = context();
    const code = await withLocalServer({ io }, config, async () => {
      signals.get("SIGINT")!();
      return new Promise<number>(() => {});
    });
    expect(code).toBe(130);
    expect(foldersLeft()).toEqual([]);
  });

  test("leaves SIGINT to a command that handles it", async () => {
    using folder = new TempFolder();
    const config = testConfig(folder.file("data"), {});
    const { io, signals } = context();
    const use = async () => {
      expect([...signals.keys()].toSorted()).toEqual(["SIGHUP", "SIGTERM"]);
      return 0;
    };
    expect(await withLocalServer({ io }, config, use, { keepsInterrupt: true })).toBe(0);
  });

  test("stops when the command throws", async () => {
    using folder = new TempFolder();
    const { io } = context();
    const failing = withLocalServer({ io }, testConfig(folder.file("data"), {}), () => Promise.reject(new Error("no")));
    await expect(failing).rejects.toThrow("no");
    expect(foldersLeft()).toEqual([]);
  });
});
