/**
 * Reads a call by its record in the store: one that has finished, or one that another process makes, whose owner is asked to write its
 * events as they come. Who reads a call under way is as patient as its owner: a store that fails for a moment ends neither.
 */
import type { Clock } from "../lib/time/clock.ts";
import { ApiError } from "../protocols/errors.ts";
import { StorageError } from "../store/contract/storage-error.ts";
import type { IdempotencyRecord } from "../store/contract/store.ts";
import type { Answer, RecordedEvents } from "../upstream/answer.ts";
import { streamEndOf, takeFailure } from "./failure-record.ts";
import { withIds } from "./recorded-events.ts";
import { interrupted } from "./run-errors.ts";
import type { StoredRecords } from "./stored-records.ts";

type RecordReaderOptions = {
  readonly call: IdempotencyRecord;
  readonly records: StoredRecords;
  readonly clock: Clock;
  /** Number of the first event that is wanted. */
  readonly from: number;
  readonly signal: AbortSignal;
  /** For how long a store that fails is asked again, in milliseconds: as long as the owner's lease may hold. */
  readonly patienceMs: number;
  /** Called once, when nobody reads it any more. */
  readonly onClosed: (reader: RecordReader) => void;
};

export class RecordReader {
  readonly #options: RecordReaderOptions;
  #record: IdempotencyRecord;
  #isWatched = false;
  /** When the store began to fail; a monotonic reading. */
  #failingSince: number | undefined;
  #isClosed = false;

  constructor(options: RecordReaderOptions) {
    this.#options = options;
    this.#record = options.call;
    options.signal.addEventListener("abort", this.#close, { once: true });
  }

  /**
   * Waits for the beginning of the answer.
   * @returns undefined when the call ended without an answer
   * @throws the signal's reason; ApiError storage_unavailable; what the call threw
   */
  async answer(): Promise<Answer<RecordedEvents> | undefined> {
    const { records, signal, from } = this.#options;
    try {
      while (!this.#isFinished && this.#record.headers === null) {
        const isThere = await this.#look();
        signal.throwIfAborted();
        if (isThere) continue;
        this.#close();
        return undefined;
      }
      if (this.#isFinished && this.#record.events === null) {
        const answer = await records.wholeAnswer(this.#record);
        this.#close();
        return answer;
      }
      const headers = await records.headersOf(this.#record);
      takeFailure(headers);
      // A number beyond a finished stream can't be of this call: it is read from its beginning.
      const next = this.#isFinished && from > this.#record.events! ? 0 : from;
      // Read now, so that damage at the beginning of a finished stream is found before the answer begins.
      const first = await this.#read(next);
      return { kind: "stream", headers, events: this.#events(next, first) };
    } catch (error) {
      this.#close();
      throw error;
    }
  }

  /**
   * @param first the events at the number `next`, as far as they were read
   * @throws ApiError upstream_unavailable when the call is interrupted, storage_unavailable
   */
  async *#events(next: number, first: string[]): RecordedEvents {
    const { signal } = this.#options;
    try {
      for (let events = first; ; events = await this.#read(next)) {
        if (signal.aborted) return "cancelled";
        if (events.length > 0) {
          yield withIds(events, this.#record, next);
          next += events.length;
        } else if (this.#isAll(next)) return streamEndOf(this.#record);
        else if (!this.#isFinished && !(await this.#look())) throw interrupted();
      }
    } finally {
      this.#close();
    }
  }

  readonly #close = () => {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.signal.removeEventListener("abort", this.#close);
    this.#options.onClosed(this);
  };

  get #isFinished(): boolean {
    return this.#record.state === "finished";
  }

  /** Nothing but its error is left of a stream that was not stored. */
  #isAll(next: number): boolean {
    return this.#isFinished && (this.#record.events === null || next >= this.#record.events);
  }

  /** The events from that number on that are in the store now. @throws ApiError storage_unavailable */
  async #read(next: number): Promise<string[]> {
    const record = this.#record;
    if (record.headers === null || this.#isAll(next)) return [];
    return (await this.#patiently(() => this.#options.records.eventsOf(record, next))) ?? [];
  }

  /** Reads the record anew, the first time at once. @returns false when the call has gone. @throws ApiError storage_unavailable */
  async #look(): Promise<boolean> {
    const { records, call, signal } = this.#options;
    if (this.#isWatched) await records.pause(signal);
    else await this.#patiently(() => records.watch(call));
    this.#isWatched = true;
    const found = await this.#patiently(async () => ({ record: await records.find(call) }));
    if (found?.record !== undefined) this.#record = found.record;
    return found === undefined || found.record !== undefined;
  }

  /** @returns undefined where the reader has left. @throws ApiError storage_unavailable, once the store has failed for too long */
  async #patiently<T>(ask: () => Promise<T>): Promise<T | undefined> {
    const { records, clock, signal, patienceMs } = this.#options;
    while (!signal.aborted) {
      try {
        const answer = await ask();
        this.#failingSince = undefined;
        return answer;
      } catch (error) {
        const now = clock.monotonic();
        this.#failingSince ??= now;
        if (!isPassing(error) || now - this.#failingSince >= patienceMs) throw error;
        await records.pause(signal);
      }
    }
    return undefined;
  }
}

/** True if the store may answer a moment later: it is no damage. */
const isPassing = (error: unknown): boolean =>
  error instanceof ApiError && error.cause instanceof StorageError && error.cause.kind !== "corrupt";
