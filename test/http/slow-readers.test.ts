/** Clients that stop reading for a while: the upstream waits for them, and they get every word. */
import { describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { AnswerParser } from "../../src/lib/http/parser.ts";
import { SseParser } from "../../src/lib/streams/sse.ts";
import { served } from "../helpers/served.ts";

const MiB = 1024 * 1024;
const pieceSize = 16 * 1024;
const piece = (number: number) => `${number};`.padEnd(pieceSize, "abcdefghij");
const said = (count: number) => Array.from({ length: count }, (_, at) => piece(at)).join("");

/** An upstream's stream of that many pieces, as fast as it is taken. */
class Torrent {
  /** Pieces that were taken. */
  sent = 0;
  readonly #left = Promise.withResolvers<void>();
  readonly body: ReadableStream<Uint8Array>;

  constructor(count: number, ending: "finish" | "break" | "early end") {
    const encoder = new TextEncoder();
    const event = (data: string) => encoder.encode(`data: ${data}\n\n`);
    const choice = (delta: object, finish: string | null) =>
      event(JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] }));
    this.body = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        if (this.sent < count) {
          controller.enqueue(choice({ content: piece(this.sent) }, null));
          this.sent += 1;
          return;
        }
        if (ending === "break") controller.error(new Error("broken"));
        else {
          if (ending === "finish") {
            controller.enqueue(choice({}, "stop"));
            controller.enqueue(event("[DONE]"));
          }
          controller.close();
        }
      },
      cancel: () => this.#left.resolve(),
    });
  }

  get left(): Promise<void> {
    return this.#left.promise;
  }

  /** Resolves when nothing was taken for many turns of the loop: what is between is full. */
  async stands(): Promise<void> {
    let before = -1;
    for (let still = 0; still < 200; ) {
      await new Promise(setImmediate);
      still = this.sent === before ? still + 1 : 0;
      before = this.sent;
    }
  }
}

let torrent: Torrent;
const { troupe, upstream } = await served(
  () => new Response(torrent.body, { headers: { "content-type": "text/event-stream" } }),
  (url) => ({ providers: { openai: { baseUrl: url } } }),
);
troupe.setTargets("troupe/tutor", ["openai/x"]);

/** Reads a stream's answer by hand, and stops when told. */
class Reader {
  readonly #socket: Socket;
  readonly #events = new SseParser();
  readonly #begun = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  #text = "";
  /** The connection ended within the body. */
  isCut = false;
  /** All but the fragments. */
  readonly others: string[] = [];

  constructor(path: string, model: string, id?: string) {
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "hi" }], stream: true });
    const named = id === undefined ? "" : `service-request-id: ${id}\r\n`;
    const head = `POST ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${troupe.key}\r\n${named}`;
    this.#socket = connect(Number(new URL(troupe.url).port), "127.0.0.1");
    this.#socket.write(`${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    const parser = new AnswerParser({
      head: (status) => expect(status).toBe(200),
      push: (bytes) => {
        this.#take(bytes);
        this.#begun.resolve();
      },
      end: () => this.#ended.resolve(),
    });
    this.#socket.on("data", (bytes: Buffer) => parser.push(bytes));
    this.#socket.on("end", () => {
      this.isCut = true;
      this.#ended.resolve();
    });
    this.#socket.on("error", this.#ended.reject);
  }

  #take(bytes: Uint8Array): void {
    for (const { data } of this.#events.push(bytes)) {
      const chunk = data === "[DONE]" ? undefined : JSON.parse(data);
      const { content } = chunk?.choices?.[0]?.delta ?? {};
      if (typeof content === "string") this.#text += content;
      else this.others.push(chunk?.error?.code ?? chunk?.choices?.[0]?.finish_reason ?? data);
    }
  }

  /** Reads no more as soon as anything came. */
  async stops(): Promise<void> {
    await this.#begun.promise;
    this.#socket.pause();
  }

  /** @returns the whole text */
  async readsOn(): Promise<string> {
    this.#socket.resume();
    await this.#ended.promise;
    this.#socket.destroy();
    return this.#text;
  }

  hangsUp(): void {
    this.#socket.resetAndDestroy();
  }
}

const large = (40 * MiB) / pieceSize;

describe.each([
  ["gateway", "/gateway/v1/chat/completions", "openai/x", ["upstream_unreachable", "upstream_invalid_response"]],
  ["orchestrator", "/v1/chat/completions", "troupe/tutor", ["upstream_unavailable", "upstream_unavailable"]],
])("%s: a reader who stops", (surface, path, model, codes) => {
  test.each([
    ["", undefined],
    [", of a call that others may read too", `${surface}-slow`],
  ])("holds the upstream back, and then gets all of it%s", async (_, id) => {
    torrent = new Torrent(large, "finish");
    const reader = new Reader(path, model, id);
    await reader.stops();
    await torrent.stands();
    expect(torrent.sent * pieceSize).toBeLessThan(30 * MiB);
    expect((await reader.readsOn()) === said(large)).toBe(true);
    expect(reader.others).toEqual(["stop", "[DONE]"]);
  });

  test.each([
    ["breaks", codes[0]!],
    ["ends too early", codes[1]!],
  ])("is told behind it all that the upstream %s", async (how, code) => {
    torrent = new Torrent(large, how === "breaks" ? "break" : "early end");
    const reader = new Reader(path, model);
    await reader.stops();
    await torrent.stands();
    const text = await reader.readsOn();
    expect(said(large).startsWith(text)).toBe(true);
    // What was on its way when a connection is reset may be lost; what came before a proper end is not.
    if (how !== "breaks") expect(text.length).toBe(large * pieceSize);
    expect(reader.others).toEqual([code, code, "[DONE]"]);
    expect(reader.isCut).toBe(true);
  });

  test("and leaves ends the upstream call", async () => {
    torrent = new Torrent(large, "finish");
    const reader = new Reader(path, model);
    await reader.stops();
    await torrent.stands();
    reader.hangsUp();
    await torrent.left;
    while (troupe.server.services.running > 0) await new Promise(setImmediate);
    expect(torrent.sent).toBeLessThan(large);
  });

  test("does not hold back another one of the same call, and gets the same", async () => {
    const count = (12 * MiB) / pieceSize;
    torrent = new Torrent(count, "finish");
    const before = upstream.requests.length;
    const slow = new Reader(path, model, `${surface}-both`);
    await slow.stops();
    const fast = new Reader(path, model, `${surface}-both`);
    const text = await fast.readsOn();
    expect(text === said(count)).toBe(true);
    expect((await slow.readsOn()) === text).toBe(true);
    expect(slow.others).toEqual(["stop", "[DONE]"]);
    expect(fast.others).toEqual(["stop", "[DONE]"]);
    expect(upstream.requests.length).toBe(before + 1);
  });
});
