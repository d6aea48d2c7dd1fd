import { describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import type { Config } from "../../src/config/config.ts";
import type { LogFields } from "../../src/lib/process/log.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const hello = [{ role: "user" as const, content: "hi" }];
const limits: Config["limits"] = {
  bodyBytes: 100_000,
  jsonDepth: 16,
  jsonValues: 10_000,
  jsonKeys: 10_000,
  jsonStringBytes: 1_000_000,
  bodySeconds: 10,
  idleConnectionSeconds: 75,
  concurrentRequests: 2,
  backgroundResponses: 100,
  anonymousPerMinute: 600,
};

/** A connection that sends what it is told, byte for byte. */
class RawClient {
  readonly #socket: Socket;
  #received = "";
  readonly closed: Promise<string>;

  constructor(url: string) {
    this.#socket = connect(Number(new URL(url).port), "127.0.0.1");
    this.#socket.on("data", (data) => {
      this.#received += data.toString("latin1");
    });
    this.#socket.on("error", () => {});
    this.closed = new Promise((resolve) => this.#socket.on("close", () => resolve(this.#received)));
  }

  send(text: string): Promise<void> {
    return new Promise((resolve) => this.#socket.write(text, () => resolve()));
  }
}

describe("more requests than may be under way", () => {
  test("are refused with 503 overloaded and all their headers, until one of the others ends", async () => {
    const held = [new HeldStream(), new HeldStream(), new HeldStream()];
    let calls = 0;
    using upstream = new UpstreamServer(() => held[calls++]!.response());
    await using troupe = await Troupe.start({ providers: { openai: { baseUrl: upstream.url } }, config: { limits } });
    const ask = () => troupe.post("/gateway/v1/chat/completions", { model: "openai/x", messages: hello, stream: true });
    const running = [ask(), ask()];
    await upstream.received(2);
    for (const one of held.slice(0, 2)) one.fragment("one");
    const streams = await Promise.all(running);

    const refused = await troupe.post("/v1/chat/completions", { model: "troupe/tutor", messages: hello });
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(refused.headers.get("x-ratelimit-limit")).toBe("1000000");
    expect(((await refused.json()) as { error: { code: string } }).error.code).toBe("overloaded");
    expect(upstream.requests).toHaveLength(2);
    // Those who watch over it still see it.
    expect((await troupe.fetch("/healthz")).status).toBe(200);
    expect(await (await troupe.fetch("/metrics")).text()).toMatch(/^troupe_requests_running 3$/m);

    held[0]!.finish();
    expect(await streams[0]!.text()).toEndWith("data: [DONE]\n\n");
    const next = ask();
    await upstream.received(3);
    held[2]!.fragment("x");
    expect((await next).status).toBe(200);
    for (const one of held.slice(1)) one.finish();
    await Promise.all([streams[1]!.text(), (await next).text()]);
  });
});

describe("a body that dribbles in", () => {
  test.each(["content-length: 1000", "transfer-encoding: chunked"])(
    "is given up with 408 when its time is over (%s)",
    async (framing) => {
      const clock = new ManualClock();
      await using troupe = await Troupe.start({ clock, config: { limits } });
      const client = new RawClient(troupe.url);
      const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${troupe.key}\r\n`;
      await client.send(`${head}content-type: application/json\r\n${framing}\r\n\r\n`);
      await client.send(framing.includes("chunked") ? "1\r\n{\r\n" : "{");
      while (troupe.server.services.running === 0) await new Promise((resolve) => setImmediate(resolve));
      clock.advance(10_000);
      const answer = await client.closed;
      expect(answer).toStartWith("HTTP/1.1 408 ");
      expect(answer).toContain('"code":"request_timeout"');
      expect(troupe.server.services.running).toBe(0);
    },
  );
});

describe("the request log", () => {
  function recordingLog() {
    const lines: LogFields[] = [];
    const record = (message: string, fields: LogFields = {}) => void (message === "request" && lines.push(fields));
    return { lines, log: { ...silentLogger, info: record, error: record } };
  }
  const logOf = (log: Partial<Config["log"]>): Config["log"] => ({
    level: "info",
    format: "json",
    content: false,
    sample: 1,
    omit: [],
    redact: [],
    ...log,
  });

  test("has a share of what went well, and all that did not", async () => {
    const { lines, log } = recordingLog();
    await using troupe = await Troupe.start({ log, config: { log: logOf({ sample: 0.25 }) } });
    for (let at = 0; at < 8; at += 1) await (await troupe.fetch("/v1/models")).text();
    for (let at = 0; at < 3; at += 1) await (await troupe.fetch("/v1/models/none/such")).text();
    expect(lines.filter(({ status }) => status === 200)).toHaveLength(2);
    expect(lines.filter(({ status }) => status === 404)).toHaveLength(3);
  });

  test("leaves out what it is told to", async () => {
    const { lines, log } = recordingLog();
    await using troupe = await Troupe.start({ log, config: { log: logOf({ omit: ["key", "model"] }) } });
    const body = { model: "builtin/echo", messages: hello };
    await (await troupe.post("/gateway/v1/chat/completions", body)).text();
    expect(lines).toHaveLength(1);
    expect(Object.keys(lines[0]!)).not.toContain("key");
    expect(Object.keys(lines[0]!)).not.toContain("model");
    expect(lines[0]!["provider"]).toBe("builtin");
  });

  test("has not a word of what was said, unless it is told to", async () => {
    const body = { model: "builtin/echo", messages: [{ role: "user", content: "my secret plan" }] };
    for (const stream of [false, true]) {
      for (const content of [false, true]) {
        const { lines, log } = recordingLog();
        await using troupe = await Troupe.start({ log, config: { log: logOf({ content }) } });
        await (await troupe.post("/gateway/v1/chat/completions", { ...body, stream })).text();
        expect(lines).toHaveLength(1);
        expect(JSON.stringify(lines).includes("secret plan")).toBe(content);
        if (!content) continue;
        expect(JSON.parse(lines[0]!["messages"] as string)).toEqual(body.messages);
        expect(JSON.parse(lines[0]!["choices"] as string)).toMatchObject([{ message: { content: "my secret plan" } }]);
      }
    }
  });
});
