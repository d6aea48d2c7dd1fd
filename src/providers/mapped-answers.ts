/** Rewrites what a decoder read, before anybody else sees it. */
import type { Framing, SseEvent } from "../lib/streams/sse.ts";
import type { ChunkBody, Usage } from "../protocols/chat/schema.ts";
import type { StreamDecoder } from "./provider.ts";

/** @returns the bodies themselves where nothing changes */
type Rewrite = (bodies: ChunkBody[]) => ChunkBody[];

export class MappedDecoder implements StreamDecoder {
  readonly #decoder: StreamDecoder;
  readonly #rewrite: Rewrite;

  constructor(decoder: StreamDecoder, rewrite: Rewrite) {
    this.#decoder = decoder;
    this.#rewrite = rewrite;
  }

  push(event: SseEvent): ChunkBody[] {
    return this.#rewrite(this.#decoder.push(event));
  }

  end(): ChunkBody[] {
    return this.#rewrite(this.#decoder.end());
  }

  get framing(): Framing {
    return this.#decoder.framing;
  }

  get finished(): boolean {
    return this.#decoder.finished;
  }

  get isRepetition(): boolean {
    return this.#decoder.isRepetition === true;
  }

  get closing(): boolean {
    return this.#decoder.closing === true;
  }

  get upstreamResponseId(): string | undefined {
    return this.#decoder.upstreamResponseId;
  }

  get counted(): Usage | undefined {
    return this.#decoder.counted;
  }
}
