import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { testExecutable } from "./helpers/executable.ts";
import { HeldStream } from "./helpers/held-stream.ts";
import { TempFolder } from "./helpers/temp-folder.ts";
import { UpstreamServer } from "./helpers/upstream-server.ts";

const executable = await testExecutable();

function start(folder: TempFolder, args: readonly string[], env: Record<string, string> = {}) {
  return Bun.spawn([executable, ...args], {
    cwd: folder.path,
    env: { PATH: process.env["PATH"]!, ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
}

async function runToEnd(folder: TempFolder, args: readonly string[], env?: Record<string, string>) {
  const child = start(folder, args, env);
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { out, err, code };
}

/** What a process writes, followed while it writes it. */
class Following {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #text = "";

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** The first match, once it is there. */
  async sees(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.#text);
      if (match !== null) return match;
      const { value, done } = await this.#chunks.next();
      if (done === true) throw new Error(`never seen: ${pattern}\n${this.#text}`);
      this.#text += this.#decoder.decode(value, { stream: true });
    }
  }
}

const seen = (stream: ReadableStream<Uint8Array>, pattern: RegExp) => new Following(stream).sees(pattern);

const addresses = /"addresses":"(http:[^"]+)"/;

describe("the process", () => {
  test("serves, behind a forward proxy with the number of outgoing requests raised, and ends on SIGTERM", async () => {
    using folder = new TempFolder();
    const child = start(folder, ["--port", "0"], { https_proxy: "http://127.0.0.1:9" });
    const url = (await seen(child.stderr, addresses))[1]!;
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    const environment = `/proc/${child.pid}/environ`;
    if (existsSync(environment)) {
      expect(readFileSync(environment, "utf8").split("\0")).toContain("BUN_CONFIG_MAX_HTTP_REQUESTS=65535");
    }
    child.kill("SIGTERM");
    expect(await child.exited).toBe(0);
  });

  test("leaves a number alone that the operator chose", async () => {
    using folder = new TempFolder();
    const child = start(folder, ["serve", "--port", "0"], {
      https_proxy: "http://127.0.0.1:9",
      BUN_CONFIG_MAX_HTTP_REQUESTS: "7",
    });
    await seen(child.stderr, addresses);
    const environment = `/proc/${child.pid}/environ`;
    if (existsSync(environment)) {
      expect(readFileSync(environment, "utf8").split("\0")).toContain("BUN_CONFIG_MAX_HTTP_REQUESTS=7");
    }
    child.kill("SIGINT");
    expect(await child.exited).toBe(0);
  });

  test("starts but once where calls go over its own connections", async () => {
    using folder = new TempFolder();
    const child = start(folder, ["serve", "--port", "0"]);
    await seen(child.stderr, addresses);
    const environment = `/proc/${child.pid}/environ`;
    if (existsSync(environment))
      expect(readFileSync(environment, "utf8")).not.toContain("BUN_CONFIG_MAX_HTTP_REQUESTS");
    child.kill("SIGTERM");
    expect(await child.exited).toBe(0);
  });

  test("says by its exit code whether it was used wrongly or failed", async () => {
    using folder = new TempFolder();
    const commands = [["version"], ["chek"], ["--prot", "1"], ["keys", "list"]];
    const [version, misspelt, unknown, failed] = await Promise.all(commands.map((args) => runToEnd(folder, args)));
    expect(version).toMatchObject({ code: 0, err: "" });
    expect(misspelt).toMatchObject({ code: 2, out: "" });
    expect(unknown).toMatchObject({ code: 2, out: "" });
    expect(failed).toMatchObject({ code: 1, out: "" });
  });

  test("has written everything when it ends, however slowly it is read", async () => {
    using folder = new TempFolder();
    const command = `"${executable}" openapi | { read -r -N 1 first; sleep 0.3; printf %s "$first"; cat; }`;
    const out = await Bun.spawn(["bash", "-c", command], { cwd: folder.path, stdout: "pipe" }).stdout.text();
    expect(out.length).toBeGreaterThan(100_000);
    expect(JSON.parse(out).openapi).toBe("3.1.0");
  });

  test("ends quietly when nobody reads on", async () => {
    using folder = new TempFolder();
    const command = `set -o pipefail; "${executable}" openapi | head -c 1`;
    const child = Bun.spawn(["bash", "-c", command], { cwd: folder.path, stdout: "pipe", stderr: "pipe" });
    expect(await child.stdout.text()).toBe("{");
    expect(await child.stderr.text()).toBe("");
  });
});

describe("told to stop while a stream runs", () => {
  async function streaming(
    folder: TempFolder,
    upstream: UpstreamServer,
    held: HeldStream,
    env: Record<string, string> = {},
  ) {
    const child = start(folder, ["--port", "0"], { OPENAI_API_KEY: "k", OPENAI_BASE_URL: upstream.url, ...env });
    const log = new Following(child.stderr);
    const url = (await log.sees(addresses))[1]!;
    const authorization = `Bearer ${readFileSync(folder.file("data/first-key"), "utf8").trim()}`;
    const answering = fetch(`${url}/gateway/v1/chat/completions`, {
      method: "POST",
      headers: { authorization, "content-type": "application/json" },
      body: '{"model":"openai/x","messages":[{"role":"user","content":"hi"}],"stream":true}',
    });
    await upstream.received(1);
    held.fragment("one");
    return { child, log, url, authorization, response: await answering };
  }

  test.each(["1", "2"])("with a delay and %s workers: says so first, and goes on taking requests", async (workers) => {
    using folder = new TempFolder();
    const held = new HeldStream();
    using upstream = new UpstreamServer(() => held.response());
    const env = { TROUPE_SHUTDOWN_DELAY_SECONDS: "1", TROUPE_WORKERS: workers };
    const { child, log, url, authorization, response } = await streaming(folder, upstream, held, env);
    child.kill("SIGTERM");
    await log.sees(/draining/);
    const ask = (path: string) => fetch(`${url}${path}`, { headers: { authorization }, keepalive: false });
    let health = await ask("/healthz");
    while (health.status === 200) health = await ask("/healthz");
    expect([health.status, await health.text()]).toEqual([503, "draining"]);
    const models = await ask("/v1/models");
    expect([models.status, models.headers.get("connection")]).toEqual([200, "close"]);
    held.finish();
    expect(await response.text()).toEndWith("data: [DONE]\n\n");
    expect(await child.exited).toBe(0);
    expect(await ask("/healthz").catch(() => "refused")).toBe("refused");
  });

  test("the stream ends whole, nothing new is taken, and the exit code is 0", async () => {
    using folder = new TempFolder();
    const held = new HeldStream();
    using upstream = new UpstreamServer(() => held.response());
    const { child, log, url, response } = await streaming(folder, upstream, held);
    child.kill("SIGTERM");
    await log.sees(/draining/);
    const late = await fetch(`${url}/healthz`, { keepalive: false }).catch(() => undefined);
    expect([undefined, 503]).toContain(late?.status);
    held.fragment("two");
    held.finish();
    const text = await response.text();
    expect(text).toContain('"content":"two"');
    expect(text).toEndWith("data: [DONE]\n\n");
    expect(await child.exited).toBe(0);
  });

  test("a second signal ends it at once, its upstream calls too", async () => {
    using folder = new TempFolder();
    const held = new HeldStream();
    using upstream = new UpstreamServer(() => held.response());
    const { child, log, response } = await streaming(folder, upstream, held);
    child.kill("SIGTERM");
    await log.sees(/draining/);
    child.kill("SIGTERM");
    expect(await child.exited).toBe(128 + 15);
    await held.cancelled;
    await response.text().catch(() => {});
  });
});

describe("a file that can't be read", () => {
  test("because it is a folder, or too large, is told as it is", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("huge.yaml"), "#".repeat(4 * 1024 * 1024 + 1));
    const [folderIs, huge] = await Promise.all([
      runToEnd(folder, ["check", "--config", "."]),
      runToEnd(folder, ["check", "--config", "huge.yaml"]),
    ]);
    expect(folderIs.err).toMatch(/^\.: can't be read: EISDIR/);
    expect(huge.err).toBe("huge.yaml: can't be read: it is larger than 4194304 bytes\n");
    expect([folderIs.code, huge.code]).toEqual([1, 1]);
  });

  test.skipIf(process.getuid?.() === 0)("because of its permissions", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("troupe.yaml"), "");
    chmodSync(folder.file("troupe.yaml"), 0);
    expect((await runToEnd(folder, ["check"])).err).toBe("troupe.yaml: can't be read: EACCES: permission denied\n");
  });
});
