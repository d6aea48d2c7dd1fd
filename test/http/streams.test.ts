import { heapStats } from "bun:jsc";
import { beforeEach, describe, expect, test } from "bun:test";
import type OpenAI from "openai";
import { SseParser } from "../../src/lib/streams/sse.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const hello = [{ role: "user" as const, content: "hi" }];
let answer: () => Response | Promise<Response>;
let held: HeldStream;

/** A persona that only the compiled-in model answers for. */
const offline = "troupe/tutor";

const upstream = untilEnd(new UpstreamServer(() => answer()));
const timeouts = { connectSeconds: 5, firstByteSeconds: 20, idleSeconds: 20 };
const troupe = untilEnd(
  await Troupe.start({
    providers: {
      openai: { baseUrl: `${upstream.url}/v1`, timeouts },
      hasty: { dialect: "openai", baseUrl: `${upstream.url}/v1`, timeouts: { ...timeouts, idleSeconds: 1 } },
    },
    config: { streams: { keepAliveSeconds: 0.05 } },
  }),
);
troupe.setTargets(offline, ["builtin/eliza"]);
beforeEach(() => {
  held = new HeldStream();
  answer = () => held.response();
});

type Chunk = OpenAI.ChatCompletionChunk & { error?: { message: string; type: string; code: string } };

const ask = (changes: object = {}, init: { signal?: AbortSignal } = {}) =>
  troupe.fetch("/gateway/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "openai/x", messages: hello, stream: true, ...changes }),
    ...init,
  });

/** Reads a stream piece by piece, so that a test can act between. */
class Reading {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #parser = new SseParser();
  readonly data: string[] = [];
  text = "";

  constructor(response: Response) {
    this.#reader = response.body!.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  }
  /** Reads on until this many events are there. */
  async until(events: number): Promise<Chunk[]> {
    while (this.data.length < events && (await this.#step()));
    return this.chunks;
  }
  async untilText(part: string): Promise<void> {
    while (!this.text.includes(part) && (await this.#step()));
    expect(this.text).toContain(part);
  }
  async rest(): Promise<Chunk[]> {
    while (await this.#step());
    return this.chunks;
  }
  get chunks(): Chunk[] {
    return this.data.filter((one) => one !== "[DONE]").map((one) => JSON.parse(one) as Chunk);
  }
  leave(): Promise<void> {
    return this.#reader.cancel();
  }
  async #step(): Promise<boolean> {
    const { value, done } = await this.#reader.read();
    if (done) return false;
    this.text += new TextDecoder().decode(value);
    for (const event of this.#parser.push(value)) this.data.push(event.data);
    return true;
  }
}

describe("the form of a stream", () => {
  test.each([
    ["/v1/chat/completions", offline],
    ["/gateway/v1/chat/completions", "builtin/eliza"],
  ])("%s: headers, role with the first fragment, one id, finish, usage, [DONE]", async (path, model) => {
    const body = { model, messages: hello, stream: true, stream_options: { include_usage: true } };
    const response = await troupe.post(path, body);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(response.headers.get("x-accel-buffering")).toBe("no");
    const reading = new Reading(response);
    const chunks = await reading.rest();
    for (const line of reading.text.split("\n")) expect(line === "" || line.startsWith("data: ")).toBe(true);
    expect(reading.data.at(-1)).toBe("[DONE]");
    expect(
      new Set(chunks.map(({ id, object, created, model: named }) => `${id} ${object} ${created} ${named}`)).size,
    ).toBe(1);
    expect(chunks[0]).toMatchObject({ object: "chat.completion.chunk", model });
    expect(chunks[0]!.id).toMatch(/^chatcmpl-[0-9a-f]{32}$/);
    const [first, ...later] = chunks.slice(0, -2);
    expect(first!.choices[0]!.delta.role).toBe("assistant");
    expect(first!.choices[0]!.delta.content!.length).toBeGreaterThan(0);
    expect(first!.choices[0]!.finish_reason).toBeNull();
    for (const chunk of later) {
      expect(Object.keys(chunk.choices[0]!.delta)).toEqual(["content"]);
      expect(chunk.choices[0]!.finish_reason).toBeNull();
    }
    expect(chunks.at(-2)!.choices).toEqual([{ index: 0, delta: {}, finish_reason: "stop" }]);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } });
  });

  test("a fragment is passed on when it comes, not later", async () => {
    const response = ask();
    await upstream.received(upstream.requests.length + 1);
    held.fragment("one");
    const reading = new Reading(await response);
    expect((await reading.until(1))[0]!.choices[0]!.delta.content).toBe("one");
    held.fragment("two");
    expect((await reading.until(2))[1]!.choices[0]!.delta.content).toBe("two");
    held.finish();
    await reading.rest();
    expect(reading.data.at(-1)).toBe("[DONE]");
  });

  test("UTF-8 is never broken, whatever the chunking", async () => {
    const text = "Grüße, 世界 \u{1F3AD}\u{1F469}\u200D\u{1F680}\u0301";
    const event = { choices: [{ index: 0, delta: { content: text }, finish_reason: null }] };
    const done = { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
    const whole = `data: ${JSON.stringify(event)}\r\n\r\n: ping\r\n\r\ndata:${JSON.stringify(done)}\n\ndata: [DONE]\n\n`;
    const bytes = new TextEncoder().encode(whole);
    for (const size of [1, 2, 3, 5, 64]) {
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
        bytes.slice(at * size, (at + 1) * size),
      );
      answer = () => sseResponse(pieces);
      const chunks = await new Reading(await ask()).rest();
      expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("")).toBe(text);
    }
  });

  test("an upstream that ignores the wish for a stream still gives one", async () => {
    const message = {
      role: "assistant",
      content: "whole",
      tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
    };
    answer = () => jsonResponse({ choices: [{ index: 0, message, finish_reason: "tool_calls" }] });
    const chunks = await new Reading(await ask()).rest();
    expect(chunks[0]!.choices[0]!.delta).toMatchObject({
      role: "assistant",
      content: "whole",
      tool_calls: [{ index: 0, id: "c" }],
    });
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe("tool_calls");
  });

  test("the official client reads it, also through its accumulating helper", async () => {
    answer = () => {
      queueMicrotask(() => {
        held.fragment("Hel");
        held.fragment("lo");
        held.finish();
      });
      return held.response();
    };
    const runner = troupe.client("gateway").chat.completions.stream({ model: "openai/x", messages: hello });
    expect(await runner.finalContent()).toBe("Hello");
  });
});

describe("keep-alive", () => {
  test("comments come before the first token and between tokens", async () => {
    const reading = new Reading(await ask());
    await reading.untilText(": keep-alive\n\n: keep-alive\n\n");
    expect(reading.data).toEqual([]);
    held.fragment("a");
    await reading.until(1);
    await reading.untilText(": keep-alive\n\n: keep-alive\n\n: keep-alive\n\n");
    held.finish();
    const chunks = await reading.rest();
    expect(chunks.map((chunk) => chunk.choices[0]!.delta.content)).toEqual(["a", undefined]);
  });

  test("in Gemini's format they are two empty lines, as its clients for Python and Go know no comments", async () => {
    const body = { contents: [{ role: "user", parts: [{ text: "hi" }] }] };
    const path = "/gateway/v1beta/models/openai/x:streamGenerateContent?alt=sse";
    const reading = new Reading(await troupe.post(path, body, { headers: { "service-request-id": "gemini-life" } }));
    await reading.untilText("\n\n\n\n");
    held.fragment("a");
    await reading.until(1);
    held.finish();
    await reading.rest();
    expect(reading.text).toMatch(/^(\n\n){2,}data: [^\n]+\n\n(\n\n)*data: [^\n]+\n\n$/);
  });

  test("0 turns them off, and an error always has its status", async () => {
    const clock = new ManualClock();
    const timeouts = { connectSeconds: 86_400, firstByteSeconds: 86_400, idleSeconds: 0 };
    await using quiet = await Troupe.start({
      clock,
      providers: { openai: { baseUrl: upstream.url, timeouts } },
      config: { streams: { keepAliveSeconds: 0 } },
    });
    const late = Promise.withResolvers<Response>();
    answer = () => late.promise;
    const before = upstream.requests.length;
    const asking = quiet.post("/gateway/v1/chat/completions", { model: "openai/x", messages: hello, stream: true });
    await upstream.received(before + 1);
    clock.advance(3_600_000);
    late.resolve(jsonResponse({ error: { message: "late no" } }, 429));
    const response = await asking;
    expect([response.status, await response.text()]).toEqual([429, '{"error":{"message":"late no"}}']);
  });

  test("an error that comes after the 200 went out is told in the stream", async () => {
    const late = Promise.withResolvers<Response>();
    answer = () => late.promise;
    const response = await ask();
    expect(response.status).toBe(200);
    const reading = new Reading(response);
    await reading.untilText(": keep-alive");
    late.resolve(jsonResponse({ error: { message: "late no", type: "t", param: null, code: "c" } }, 429));
    const chunks = await reading.rest();
    expect(chunks).toHaveLength(2);
    expect(chunks[1]).toEqual(chunks[0]!);
    expect(Object.keys(chunks[0]!)).toEqual(["error", "id", "object", "created", "model"]);
    expect(chunks[0]!.error as unknown).toEqual({ message: "late no", type: "t", param: null, code: "c" });
    expect(reading.data.at(-1)).toBe("[DONE]");
  });
});

describe("faults after the first chunk", () => {
  async function broken(act: () => void, model = "openai/x"): Promise<{ chunks: Chunk[]; data: string[] }> {
    const response = ask({ model });
    await upstream.received(upstream.requests.length + 1);
    held.fragment("one");
    const reading = new Reading(await response);
    await reading.until(1);
    act();
    const chunks = await reading.rest();
    return { chunks, data: reading.data };
  }

  test.each<[string, () => void, string, object]>([
    [
      "an error event",
      () => held.event({ error: { message: "boom", type: "server_error", code: "x" } }),
      "openai/x",
      { message: "boom", code: "x" },
    ],
    ["an end without a finish", () => held.close(), "openai/x", { code: "upstream_invalid_response" }],
    [
      "an event that can't be read",
      () => held.event("{"),
      "openai/x",
      { code: "upstream_invalid_response", message: "openai sent an event that can't be read." },
    ],
    [
      "text behind a [DONE] without a finish",
      () => {
        held.event("[DONE]");
        held.fragment("two");
      },
      "openai/x",
      { code: "upstream_invalid_response" },
    ],
    ["a reset connection", () => held.break(), "openai/x", { code: "upstream_unreachable" }],
    ["silence", () => {}, "hasty/x", { code: "upstream_timeout" }],
  ])("%s is a chunk with the error, the same with its name, then [DONE]", async (_name, act, model, error) => {
    const { chunks, data } = await broken(act, model);
    expect(chunks).toHaveLength(3);
    expect(chunks[2]).toEqual(chunks[1]!);
    expect(chunks[1]).toMatchObject({
      id: chunks[0]!.id,
      model,
      error,
    });
    expect(Object.keys(chunks[1]!)).toEqual(["error", "id", "object", "created", "model"]);
    for (const name of ["message", "type", "param", "code"]) expect(chunks[1]!.error).toHaveProperty(name);
    expect(data.at(-1)).toBe("[DONE]");
  });

  test("what came in the same bytes as an error goes out before it", async () => {
    const word = (content: string) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
    answer = () => sseResponse([`${word("a")}${word("b")}data: {"error":{"message":"boom"}}\n\n`]);
    const chunks = await new Reading(await ask()).rest();
    expect(chunks.map(({ choices }) => choices?.[0]?.delta.content)).toEqual(["a", "b", undefined, undefined]);
    expect(chunks.at(-1)!.error!.message).toBe("boom");
  });

  test.each<[string, () => void]>([
    ["that stays open: the end is waited for a moment only", () => {}],
    ["that closes", () => held.close()],
  ])("a [DONE] without a finish is one, on a connection %s", async (_name, act) => {
    const { chunks, data } = await broken(() => {
      held.event("[DONE]");
      act();
    });
    expect(chunks.map(({ choices }) => choices[0]!.finish_reason)).toEqual([null, "stop"]);
    expect(data.at(-1)).toBe("[DONE]");
  });

  test("what can't be read after the finish does matter", async () => {
    const { chunks } = await broken(() => {
      held.event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
      held.event('{"usage":');
    });
    expect(chunks.at(-1)!.error).toMatchObject({ code: "upstream_invalid_response" });
  });

  test("what breaks after the finish no longer matters", async () => {
    const { chunks, data } = await broken(() => {
      held.event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
      held.close();
    });
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe("stop");
    expect(data.at(-1)).toBe("[DONE]");
  });

  test("the official client raises it", async () => {
    const stream = troupe
      .client("gateway")
      .chat.completions.create({ model: "openai/x", messages: hello, stream: true });
    await upstream.received(upstream.requests.length + 1);
    held.fragment("one");
    const chunks = await stream;
    held.event({ error: { message: "boom" } });
    const reading = (async () => {
      for await (const _ of chunks);
    })();
    await expect(reading).rejects.toThrow("boom");
  });

  test("an error as the first event is an error, not a stream", async () => {
    answer = () => sseResponse(['data: {"error":{"message":"no","type":"server_error","code":null}}\n\n']);
    const response = await ask();
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(response.headers.get("x-troupe-error-source")).toBe("upstream");
    expect(await response.text()).toBe('{"error":{"message":"no","type":"server_error","code":null}}');
  });
});

describe("a client that leaves ends its upstream call", () => {
  test("while nothing has been answered, streamed or not", async () => {
    for (const stream of [true, false]) {
      const gone = Promise.withResolvers<void>();
      answer = () => {
        upstream.last.signal.addEventListener("abort", () => gone.resolve());
        return new Promise<Response>(() => {});
      };
      const leaving = new AbortController();
      const call = ask({ stream }, { signal: leaving.signal }).catch(() => {});
      await upstream.received(upstream.requests.length + 1);
      leaving.abort();
      await gone.promise;
      await call;
    }
  });

  test("before the first token, between keep-alives", async () => {
    const reading = new Reading(await ask());
    await reading.untilText(": keep-alive");
    await reading.leave();
    await held.cancelled;
  });

  test("in the middle of a stream, while it flows and while it is silent", async () => {
    for (const flowing of [true, false]) {
      held = new HeldStream();
      const response = ask();
      await upstream.received(upstream.requests.length + 1);
      held.fragment("one");
      const reading = new Reading(await response);
      await reading.until(1);
      if (flowing) held.fragment("two");
      await reading.leave();
      await held.cancelled;
    }
  });

  test("with the official client's abort", async () => {
    const stream = troupe
      .client("gateway")
      .chat.completions.create({ model: "openai/x", messages: hello, stream: true });
    await upstream.received(upstream.requests.length + 1);
    held.fragment("one");
    const chunks = await stream;
    for await (const _ of chunks) chunks.controller.abort();
    await held.cancelled;
  });

  test("and no stream stays counted as open", async () => {
    const metrics = await (await troupe.fetch("/metrics")).text();
    const open = [...metrics.matchAll(/^troupe_active_streams\{[^}]*\} (\d+)$/gm)].map((match) => Number(match[1]));
    expect(open.reduce((sum, one) => sum + one, 0)).toBe(0);
  });
});

describe("back-pressure", () => {
  test("a reader who stops slows the upstream: little is pulled ahead of it", async () => {
    const piece = new TextEncoder().encode(
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "x".repeat(16_384) }, finish_reason: null }] })}\n\n`,
    );
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += piece.length;
        controller.enqueue(piece);
      },
    });
    answer = () => new Response(body, { headers: { "content-type": "text/event-stream" } });
    const response = await ask();
    const reader = response.body!.getReader();
    await reader.read();
    // The pipeline is full once the upstream's count stands still over many turns of the loop.
    let before = -1;
    for (let still = 0; still < 50; ) {
      await new Promise((next) => setImmediate(next));
      still = sent === before ? still + 1 : 0;
      before = sent;
      expect(sent).toBeLessThan(64 * 1024 * 1024);
    }
    await reader.cancel();
  });

  test("an open stream keeps nothing of what has gone through it", async () => {
    const streams = 50;
    const upstreams: HeldStream[] = [];
    answer = () => {
      const one = new HeldStream();
      upstreams.push(one);
      one.fragment("first");
      return one.response();
    };
    const readings = await Promise.all(Array.from({ length: streams }, async () => (await ask()).body!.getReader()));
    const filler = "x".repeat(8192);
    const round = async () => {
      for (const one of upstreams) one.fragment(filler);
      for (const reading of readings) {
        for (let size = 0; size < filler.length; size += (await reading.read()).value!.length);
      }
    };
    const held = () => {
      Bun.gc(true);
      const { heapSize, extraMemorySize } = heapStats();
      return heapSize + extraMemorySize;
    };
    for (let at = 0; at < 5; at += 1) await round();
    const before = held();
    for (let at = 0; at < 40; at += 1) await round();
    // 16 MB went through; a stream that kept its fragments would hold them.
    expect(held() - before).toBeLessThan(4 * 1024 * 1024);
    for (const reading of readings) await reading.cancel();
  });
});
