import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ListenerConfig } from "../../src/config/config.ts";
import type { Logger } from "../../src/lib/process/log.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const hello = [{ role: "user" as const, content: "hi" }];
const tcp = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
const tls = { cert: "test/fixtures/tls/cert.pem", key: "test/fixtures/tls/key.pem" };

function temporaryFolder(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), "troupe-server-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** A log that says when a message was written. */
function listeningLog(): Logger & { next(message: string): Promise<Record<string, unknown>> } {
  const waiting = new Map<string, (fields: Record<string, unknown>) => void>();
  const hear = (message: string, fields: Record<string, unknown> = {}) => {
    waiting.get(message)?.(fields);
    waiting.delete(message);
  };
  return {
    ...silentLogger,
    info: hear,
    error: hear,
    next: (message) => new Promise((resolve) => waiting.set(message, resolve)),
  };
}

describe("listeners", () => {
  test("a surface with a port of its own has its base at /v1", async () => {
    const listen: ListenerConfig[] = [
      { address: tcp, surfaces: ["orchestrator"] },
      { address: tcp, surfaces: ["gateway"] },
    ];
    await using troupe = await Troupe.start({ config: { listen } });
    const headers = { authorization: `Bearer ${troupe.key}` };
    const [orchestrator, gateway] = troupe.server.urls;
    const ids = async (url: string) =>
      ((await (await fetch(url, { headers })).json()) as { data: { id: string }[] }).data.map(({ id }) => id);
    expect(await ids(`${orchestrator}/v1/models`)).toContain("troupe/tutor");
    expect(await ids(`${gateway}/v1/models`)).toContain("builtin/echo");
    expect((await fetch(`${orchestrator}/gateway/v1/models`, { headers })).status).toBe(404);
    expect((await fetch(`${gateway}/healthz`)).status).toBe(200);
  });

  test("a unix socket", async () => {
    using folder = temporaryFolder();
    const path = join(folder.path, "troupe.sock");
    const listen: ListenerConfig[] = [
      { address: tcp, surfaces: ["orchestrator", "gateway"] },
      { address: { kind: "unix", path }, surfaces: ["orchestrator", "gateway"] },
    ];
    {
      await using troupe = await Troupe.start({ config: { listen } });
      expect(troupe.server.urls[1]).toBe(`unix:${path}`);
      const response = await fetch("http://localhost/gateway/v1/models", {
        unix: path,
        headers: { authorization: `Bearer ${troupe.key}` },
      });
      expect(response.status).toBe(200);
      expect(statSync(path).mode & 0o777).toBe(0o660);
    }
    expect(existsSync(path)).toBe(false);
  });

  test("TLS by certificate files", async () => {
    const listen: ListenerConfig[] = [{ address: tcp, surfaces: ["orchestrator", "gateway"], tls }];
    await using troupe = await Troupe.start({ config: { listen } });
    expect(troupe.url).toStartWith("https://");
    const response = await fetch(`${troupe.url}/healthz`, { tls: { ca: readFileSync(tls.cert, "utf8") } });
    expect(await response.text()).toBe("ok");
  });

  test("an address that is taken is an error, and nothing stays open", async () => {
    await using troupe = await Troupe.start();
    using folder = temporaryFolder();
    const port = Number(new URL(troupe.url).port);
    const second = Troupe.start({
      data: folder.path,
      config: { listen: [{ address: { ...tcp, port }, surfaces: ["orchestrator", "gateway"] }] },
    });
    await expect(second).rejects.toThrow(/EADDRINUSE|in use/);
  });
});

describe("the first start", () => {
  test("makes one pro key, in a file for its owner alone, and only once", async () => {
    using folder = temporaryFolder();
    const data = join(folder.path, "data");
    let secret: string;
    {
      await using troupe = await Troupe.start({ data });
      const file = join(data, "first-key");
      secret = readFileSync(file, "utf8").trim();
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(statSync(data).mode & 0o777).toBe(0o700);
      const response = await troupe.fetch("/v1/models", { key: secret });
      expect(response.headers.get("x-ratelimit-limit")).toBe("100");
      expect(readFileSync(join(data, "troupe.db")).includes(secret)).toBe(false);
    }
    await using again = await Troupe.start({ data });
    expect(again.server.services.firstKey).toBeUndefined();
    expect((await again.fetch("/v1/models", { key: secret })).status).toBe(200);
  });
});

describe("stopping", () => {
  test("lets a stream end, takes nothing new, and cuts nothing", async () => {
    const held = new HeldStream();
    using upstream = new UpstreamServer(() => held.response());
    const troupe = await Troupe.start({ providers: { openai: { baseUrl: upstream.url } } });
    const streaming = troupe.post("/gateway/v1/chat/completions", { model: "openai/x", messages: hello, stream: true });
    await upstream.received(1);
    held.fragment("one");
    const response = await streaming;
    const reader = response.body!.getReader();
    await reader.read();

    const stopping = troupe.server.stop(30);
    await expect(troupe.fetch("/healthz")).rejects.toThrow();
    held.fragment("two");
    held.finish();
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read())
      text += new TextDecoder().decode(part.value);
    expect(text).toContain('"content":"two"');
    expect(text).toEndWith("data: [DONE]\n\n");
    expect(await stopping).toBe(0);
    rmSync(troupe.data, { recursive: true });
  });

  test("waits for a call whose client has left, so that its retry finds the answer after the restart", async () => {
    using folder = temporaryFolder();
    const data = join(folder.path, "data");
    const held = new HeldStream();
    using upstream = new UpstreamServer(() => held.response());
    const options = { data, providers: { openai: { baseUrl: upstream.url } } };
    const troupe = await Troupe.start(options);
    const key = await troupe.createKey({ name: "caller", tier: "pro" });
    const ask = (server: Troupe, signal?: AbortSignal) =>
      server.fetch("/gateway/v1/chat/completions", {
        method: "POST",
        key,
        headers: { "content-type": "application/json", "service-request-id": "left" },
        body: JSON.stringify({ model: "openai/x", messages: hello, stream: true }),
        ...(signal === undefined ? {} : { signal }),
      });
    const leaving = new AbortController();
    const asking = ask(troupe, leaving.signal);
    await upstream.received(1);
    held.fragment("one");
    await (await asking).body!.getReader().read();
    leaving.abort();
    const stopping = troupe.server.stop(30);
    // Long enough for all that waits for connections alone to be over.
    const turn = () => new Promise((next) => setImmediate(next));
    while (troupe.server.pending > 0) await turn();
    for (let turns = 0; turns < 500; turns += 1) await turn();
    held.fragment("two");
    held.finish();
    expect(await stopping).toBe(0);

    await using again = await Troupe.start(options);
    const text = await (await ask(again)).text();
    expect(text).toContain('"content":"two"');
    expect(text).toEndWith("data: [DONE]\n\n");
    expect(upstream.requests).toHaveLength(1);
  });

  test("cuts what is still running when the time is over, upstream too, and says how much", async () => {
    const held = new HeldStream();
    using upstream = new UpstreamServer(() => held.response());
    const troupe = await Troupe.start({ providers: { openai: { baseUrl: upstream.url } } });
    const streaming = troupe.post("/gateway/v1/chat/completions", { model: "openai/x", messages: hello, stream: true });
    await upstream.received(1);
    held.fragment("one");
    await streaming;
    expect(await troupe.server.stop(0.05)).toBe(1);
    await held.cancelled;
    rmSync(troupe.data, { recursive: true });
  });
});

test("a reload takes over new providers for the next call", async () => {
  using upstream = new UpstreamServer(() =>
    jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content: "new" }, finish_reason: "stop" }] }),
  );
  await using troupe = await Troupe.start();
  await using other = await Troupe.start({ providers: { fresh: { dialect: "openai", baseUrl: upstream.url } } });
  const call = () => troupe.post("/gateway/v1/chat/completions", { model: "fresh/x", messages: hello });
  expect((await call()).status).toBe(400);
  troupe.server.reload(other.server.services.live.config);
  expect((await call()).status).toBe(200);
});

describe("personas while running", () => {
  const file = (system: string) => `description: Changes its mind.\nmodel: openai/x\nsystem: ${system}\n`;

  test("an edit changes the next answer and not the stream that runs; a broken one changes nothing and says where", async () => {
    using folder = temporaryFolder();
    mkdirSync(join(folder.path, "team"));
    const path = join(folder.path, "team", "fickle.yaml");
    const save = (text: string) => {
      writeFileSync(`${path}.tmp`, text);
      renameSync(`${path}.tmp`, path);
    };
    save(file("First."));
    let held = new HeldStream();
    using upstream = new UpstreamServer(() => held.response());
    const log = listeningLog();
    await using troupe = await Troupe.start({
      personas: folder.path,
      providers: { openai: { baseUrl: upstream.url } },
      log,
    });
    const ask = () => troupe.post("/v1/chat/completions", { model: "team/fickle", messages: hello, stream: true });
    const systemOf = () => (upstream.last.json as { messages: { content: string }[] }).messages[0]!.content;

    const running = ask();
    await upstream.received(1);
    expect(systemOf()).toBe("First.");
    held.fragment("still ");
    const stream = await running;

    const taken = log.next("personas");
    save(file("Second."));
    expect(await taken).toMatchObject({ changed: ["team/fickle"] });
    held.fragment("first");
    held.finish();
    const text = await stream.text();
    expect(text).toContain("still ");
    expect(text).toEndWith("data: [DONE]\n\n");

    const broken = log.next("a persona is invalid; its last good version stays");
    save(`${file("Third.")}systm: typo\n`);
    expect((await broken)["at"]).toContain("fickle.yaml:4:1");
    held = new HeldStream();
    const next = ask();
    await upstream.received(2);
    expect(systemOf()).toBe("Second.");
    held.fragment("x");
    held.finish();
    await (await next).text();
    expect(await (await troupe.fetch("/health")).json()).toMatchObject({ status: "degraded" });
  });
});
