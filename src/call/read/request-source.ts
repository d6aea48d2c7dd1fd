/** A request's body as a source that is read only as far as it is wanted. */
import type { Sink, Source } from "../../lib/streams/flow.ts";

export class RequestSource implements Source<Uint8Array> {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #sink: Sink<Uint8Array> | undefined;
  #isPaused = false;
  #isReading = false;
  #first: Uint8Array | undefined;

  /** @param first what was read of it before */
  constructor(reader: ReadableStreamDefaultReader<Uint8Array>, first?: Uint8Array) {
    this.#reader = reader;
    this.#first = first;
  }

  flow(sink: Sink<Uint8Array>): void {
    this.#sink = sink;
    const first = this.#first;
    this.#first = undefined;
    if (first !== undefined) sink.push(first);
    void this.#read();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    void this.#read();
  }

  cancel(): void {
    this.#sink = undefined;
    this.#reader.cancel().catch(() => {});
  }

  async #read(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (this.#sink !== undefined && !this.#isPaused) {
        const { done, value } = await this.#reader.read();
        if (done) {
          this.#take()?.end();
          return;
        }
        this.#sink?.push(value);
      }
    } catch (error) {
      this.#take()?.fail(error);
    } finally {
      this.#isReading = false;
    }
  }

  /** Nothing is pushed from now on. */
  #take(): Sink<Uint8Array> | undefined {
    const sink = this.#sink;
    this.#sink = undefined;
    return sink;
  }
}
