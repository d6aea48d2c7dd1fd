/** Chunks with pauses between them, by a timer. */
import type { Clock } from "../../lib/time/clock.ts";
import type { ChunkBody } from "../../protocols/chat/schema.ts";
import { ClientDisconnected } from "../client.ts";
import type { ChunkSource } from "./decode.ts";

type ChunkSink = Parameters<ChunkSource["flow"]>[0];

export class PacedChunks implements ChunkSource {
  readonly upstreamResponseId: undefined;
  readonly #chunks: Iterator<ChunkBody>;
  readonly #pauses: readonly number[];
  readonly #clock: Clock;
  #sink: ChunkSink | undefined;
  #sent = 0;
  #isPaused = false;
  /** A chunk's time has come while the sink took none. */
  #isDue = false;
  #cancelTimer = () => {};

  /** @param pauses before the second chunk and those behind it, in milliseconds; where they end there are none */
  constructor(chunks: Iterable<ChunkBody>, pauses: readonly number[], clock: Clock) {
    this.#chunks = chunks[Symbol.iterator]();
    this.#pauses = pauses;
    this.#clock = clock;
  }

  flow(sink: ChunkSink): void {
    this.#sink = sink;
    this.#next();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#isDue) this.#next();
  }

  cancel(): void {
    this.#sink = undefined;
    this.#cancelTimer();
  }

  #next(): void {
    this.#isDue = this.#isPaused;
    if (this.#isDue || this.#sink === undefined) return;
    const { done, value } = this.#chunks.next();
    if (done === true) {
      this.#sink.end([]);
      return;
    }
    const ms = this.#pauses[this.#sent] ?? 0;
    this.#sent += 1;
    this.#sink.push([value]);
    // Whoever took it may have cancelled.
    if (this.#sink !== undefined) this.#cancelTimer = this.#clock.setTimer(ms, () => this.#next());
  }
}

/** Resolves after all of the pauses. Rejects with ClientDisconnected when the caller leaves */
export function lasting(clock: Clock, pauses: readonly number[], signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const ms = pauses.reduce((sum, one) => sum + one, 0);
  const cancelTimer = clock.setTimer(ms, resolve);
  const leave = () => {
    cancelTimer();
    reject(new ClientDisconnected());
  };
  signal.addEventListener("abort", leave, { once: true });
  return promise.finally(() => signal.removeEventListener("abort", leave));
}
