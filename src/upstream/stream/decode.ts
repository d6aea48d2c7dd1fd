/** Where a stream's bodies come from: an upstream's bytes, or what is all there. */
import { type SseEvent, SseParser } from "../../lib/sse.ts";
import type { ChunkBody } from "../../protocols/chat/schema.ts";
import { readingError } from "../../protocols/errors.ts";
import type { StreamDecoder } from "../../providers/provider.ts";
import type { UpstreamAnswer } from "../client.ts";
import type { Bodies, BodyReader } from "./shaped-stream.ts";

const nothing: Buffer = Buffer.alloc(0);

/** Decoded as they arrive. */
export class StreamBodies implements Bodies {
  readonly #answer: UpstreamAnswer;
  readonly #decoder: StreamDecoder;
  readonly #parser = new SseParser();
  #reader!: BodyReader;
  #isPaused = false;
  /** Whether the form of the stream's fragments is still to be learnt. */
  #isLearning: boolean;
  /** Of the first piece, what is left for when its form is known. */
  #later: Buffer | undefined;
  /** The beginning of an event that the next bytes go on with. */
  #cut = nothing;

  constructor(answer: UpstreamAnswer, decoder: StreamDecoder) {
    this.#answer = answer;
    this.#decoder = decoder;
    this.#isLearning = decoder.sameBut !== undefined;
  }

  get upstreamResponseId(): string | undefined {
    return this.#decoder.upstreamResponseId;
  }

  flow(reader: BodyReader): void {
    this.#reader = reader;
    this.#answer.flow({
      push: (bytes) => this.#take(bytes),
      end: () => this.#decode(undefined),
      fail: (error) => reader.broken(error),
    });
  }

  pause(): void {
    this.#isPaused = true;
    this.#answer.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#goOn();
    if (!this.#isPaused) this.#answer.resume();
  }

  #take(bytes: Buffer): void {
    const end = this.#isLearning ? endOfThirdEvent(bytes) : bytes.length;
    this.#isLearning = false;
    if (end < bytes.length) this.#later = bytes.subarray(end);
    this.#decode(end === bytes.length ? bytes : bytes.subarray(0, end));
    this.#goOn();
  }

  #goOn(): void {
    const later = this.#later;
    if (this.#isPaused || later === undefined) return;
    this.#later = undefined;
    this.#decode(later);
  }

  /** @param bytes undefined at the stream's end */
  #decode(bytes: Buffer | undefined): void {
    const decoder = this.#decoder;
    const reader = this.#reader;
    let more = bytes !== undefined;
    try {
      for (const event of bytes === undefined ? this.#lastEvents() : this.#events(bytes)) {
        const text = decoder.sameBut?.(event);
        if (text !== undefined && reader.sameBut(text)) continue;
        for (const body of decoder.push(event)) reader.body(body);
        if (decoder.finished) break;
      }
      if (decoder.finished) more = false;
      if (!more) for (const body of decoder.end()) reader.body(body);
      else if (decoder.closing === true) this.#answer.endSoon();
    } catch (error) {
      reader.broken(readingError(error, this.#answer.name));
      return;
    }
    reader.taken(more);
  }

  /** Those that can't be copied as they stand. */
  #events(bytes: Buffer): SseEvent[] {
    const piece = this.#cut.length === 0 ? bytes : Buffer.concat([this.#cut, bytes]);
    this.#cut = nothing;
    const { template } = this.#decoder;
    if (template === undefined || !this.#parser.isBetweenEvents) return this.#parser.push(piece);
    const taken = this.#reader.copied(piece, template);
    const rest = taken === 0 ? piece : piece.subarray(taken);
    if (taken === 0 || !isCut(rest)) return this.#parser.push(rest);
    this.#cut = rest;
    return [];
  }

  #lastEvents(): SseEvent[] {
    return [...this.#parser.push(this.#cut), ...this.#parser.end()];
  }

  cancel(): void {
    this.#answer.cancel();
  }

  settle(): void {
    this.#answer.drain();
  }
}

/** The first event gives the role, the second one opens the answer, the third one is a fragment as they all are. */
function endOfThirdEvent(bytes: Buffer): number {
  let end = 0;
  for (let events = 0; events < 3; events += 1) {
    const blank = bytes.indexOf("\n\n", end);
    if (blank < 0) return bytes.length;
    end = blank + 2;
  }
  return end;
}

/** Whether it may be the beginning of an event alone: whole ones end with a line. */
function isCut(rest: Buffer): boolean {
  const last = rest.at(-1);
  return last !== 10 && last !== 13 && !rest.includes("\n\n");
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
