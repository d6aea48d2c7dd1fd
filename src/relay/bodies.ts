/** Where a stream's bodies come from: an upstream's bytes, or what is all there. */
import { type SseEvent, SseParser } from "../lib/sse.ts";
import type { StreamDecoder } from "../providers/provider.ts";
import type { ChunkBody } from "../wire/chat.ts";
import type { Bodies, BodyReader } from "./shaped-stream.ts";
import type { UpstreamAnswer } from "./upstream.ts";

const nothing: Buffer = Buffer.alloc(0);

/** Whether it may be the beginning of an event alone: whole ones end with a line. */
function isCut(rest: Buffer): boolean {
  const last = rest.at(-1);
  return last !== 10 && last !== 13 && !rest.includes("\n\n");
}

/** Decoded as they arrive. */
export class StreamBodies implements Bodies {
  readonly #answer: UpstreamAnswer;
  readonly #decoder: StreamDecoder;
  readonly #parser = new SseParser();
  /** The beginning of an event that the next bytes go on with. */
  #cut: Buffer = nothing;

  constructor(answer: UpstreamAnswer, decoder: StreamDecoder) {
    this.#answer = answer;
    this.#decoder = decoder;
  }

  get upstreamResponseId(): string | undefined {
    return this.#decoder.upstreamResponseId;
  }

  flow(reader: BodyReader): void {
    this.#answer.flow({
      data: (bytes) => this.#decode(bytes, reader),
      end: () => this.#decode(undefined, reader),
      fail: (error) => reader.broken(error),
    });
  }

  /** @param bytes undefined at the stream's end */
  #decode(bytes: Buffer | undefined, reader: BodyReader): void {
    const decoder = this.#decoder;
    let more = bytes !== undefined;
    try {
      for (const event of bytes === undefined ? this.#lastEvents() : this.#events(bytes, reader)) {
        const text = decoder.sameBut?.(event);
        if (text !== undefined && reader.sameBut(text)) continue;
        for (const body of decoder.push(event)) reader.body(body);
        if (decoder.finished) break;
      }
      if (decoder.finished) more = false;
      if (!more) for (const body of decoder.end()) reader.body(body);
    } catch (error) {
      reader.broken(error);
      return;
    }
    reader.taken(more);
  }

  /** Of what can't be copied as it stands. */
  #events(bytes: Buffer, reader: BodyReader): SseEvent[] {
    const { template } = this.#decoder;
    if (template === undefined || !this.#parser.isBetweenEvents) return this.#parser.push(bytes);
    const piece = this.#cut.length === 0 ? bytes : Buffer.concat([this.#cut, bytes]);
    this.#cut = nothing;
    const taken = reader.copied(piece, template);
    if (taken === 0) return this.#parser.push(piece);
    const rest = piece.subarray(taken);
    if (!isCut(rest)) return this.#parser.push(rest);
    this.#cut = rest;
    return [];
  }

  #lastEvents(): SseEvent[] {
    return [...this.#parser.push(this.#cut), ...this.#parser.end()];
  }

  pause(): void {
    this.#answer.pause();
  }

  resume(): void {
    this.#answer.resume();
  }

  cancel(): void {
    this.#answer.cancel();
  }

  settle(): void {
    this.#answer.settle();
  }
}

/** Bodies that are all there. */
export class LocalBodies implements Bodies {
  readonly #bodies: Iterator<ChunkBody>;
  readonly upstreamResponseId: string | undefined;
  #reader: BodyReader | undefined;
  #isPaused = false;

  constructor(bodies: Iterable<ChunkBody>, upstreamResponseId?: string) {
    this.#bodies = bodies[Symbol.iterator]();
    this.upstreamResponseId = upstreamResponseId;
  }

  flow(reader: BodyReader): void {
    this.#reader = reader;
    this.#give();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#give();
  }

  cancel(): void {
    this.#reader = undefined;
  }

  settle(): void {
    this.#reader = undefined;
  }

  #give(): void {
    while (this.#reader !== undefined && !this.#isPaused) {
      const reader = this.#reader;
      const { value, done } = this.#bodies.next();
      if (done !== true) reader.body(value);
      reader.taken(done !== true);
    }
  }
}
