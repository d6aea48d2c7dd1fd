/** Decodes an upstream's bytes to the chunks of a stream. */
import { IterableSource, type Sink, type Source } from "../../lib/streams/flow.ts";
import type { EventParser, SseEvent } from "../../lib/streams/sse.ts";
import type { ChunkBody, Usage } from "../../protocols/chat/schema.ts";
import { readingError } from "../../protocols/errors.ts";
import type { StreamDecoder } from "../../providers/provider.ts";
import type { UpstreamAnswer } from "../client.ts";

type ChunkSink = Sink<readonly ChunkBody[], readonly ChunkBody[]>;

/** A stream's chunks; those that come with its end come as its end. Fails with UpstreamFault, ApiError or ClientDisconnected. */
export interface ChunkSource extends Source<readonly ChunkBody[], readonly ChunkBody[]> {
  /** The upstream's own id of the answer, where it can be continued by it. */
  readonly upstreamResponseId: string | undefined;
  /** The upstream's counts so far, where it gives them before the end. */
  readonly counted?: Usage | undefined;
}

/** Chunks from an iterable. */
export class ChunkList extends IterableSource<readonly ChunkBody[], readonly ChunkBody[]> implements ChunkSource {
  readonly upstreamResponseId: string | undefined;

  constructor(chunks: Iterable<ChunkBody>, upstreamResponseId?: string) {
    super(
      Iterator.from(chunks).map((chunk) => [chunk]),
      [],
    );
    this.upstreamResponseId = upstreamResponseId;
  }
}

/** Decodes bytes in the turn of the event loop in which they arrive. */
export class DecodedStream implements ChunkSource, Sink<Buffer> {
  readonly #answer: UpstreamAnswer;
  readonly #decoder: StreamDecoder;
  readonly #parser: EventParser;
  #sink: ChunkSink | undefined;

  constructor(answer: UpstreamAnswer, decoder: StreamDecoder) {
    this.#answer = answer;
    this.#decoder = decoder;
    this.#parser = decoder.framing.parser();
  }

  get upstreamResponseId(): string | undefined {
    return this.#decoder.upstreamResponseId;
  }

  get counted(): Usage | undefined {
    return this.#decoder.counted;
  }

  flow(sink: ChunkSink): void {
    this.#sink = sink;
    this.#answer.flow(this);
  }

  pause(): void {
    this.#answer.pause();
  }

  resume(): void {
    this.#answer.resume();
  }

  cancel(): void {
    this.#sink = undefined;
    this.#answer.cancel();
  }

  push(bytes: Buffer): void {
    if (this.#sink !== undefined) this.#decode(bytes);
  }

  end(): void {
    this.#decode(undefined);
  }

  fail(error: unknown): void {
    const sink = this.#sink;
    this.#sink = undefined;
    sink?.fail(error);
  }

  /** @param bytes undefined at the stream's end */
  #decode(bytes: Buffer | undefined): void {
    const chunks: ChunkBody[] = [];
    let isOver: boolean;
    try {
      isOver = bytes === undefined ? this.#readLast(chunks) : this.#read(bytes, chunks);
    } catch (error) {
      if (chunks.length > 0) this.#sink?.push(chunks);
      this.fail(readingError(error, this.#answer.name));
      return;
    }
    const sink = this.#sink;
    if (!isOver) {
      if (chunks.length > 0) sink?.push(chunks);
      return;
    }
    this.#sink = undefined;
    // All that matters was read.
    this.#answer.drain();
    sink?.end(chunks);
  }

  /** @param chunks takes what comes of the bytes @returns whether nothing that follows matters */
  #read(bytes: Buffer, chunks: ChunkBody[]): boolean {
    if (this.#push(this.#parser.push(bytes), chunks)) return true;
    if (this.#decoder.closing === true) this.#answer.endSoon();
    return false;
  }

  #readLast(chunks: ChunkBody[]): boolean {
    if (!this.#push(this.#parser.end(), chunks)) for (const chunk of this.#decoder.end()) chunks.push(chunk);
    return true;
  }

  /** @returns whether the terminal event was among them: then what was still held back is added too */
  #push(events: readonly SseEvent[], chunks: ChunkBody[]): boolean {
    const decoder = this.#decoder;
    for (const event of events) {
      for (const chunk of decoder.push(event)) chunks.push(chunk);
      if (!decoder.finished) continue;
      for (const chunk of decoder.end()) chunks.push(chunk);
      return true;
    }
    return false;
  }
}
