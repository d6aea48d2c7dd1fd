/**
 * A running call with a service-request-id: calls the upstream once and shares the answer among its readers.
 *
 * The fastest reader drives the run, so a slow reader slows the upstream; without readers the run drives itself to its end.
 * The whole answer is stored before any reader gets its last event.
 */

import { Pulled } from "../lib/streams/flow.ts";
import { type Clock, pause } from "../lib/time/clock.ts";
import { ApiError } from "../protocols/errors.ts";
import { StorageError } from "../store/contract/storage-error.ts";
import type { FinishedCall, Lease, RunRepository } from "../store/contract/store.ts";
import type {
  Answer,
  EventSource,
  Events,
  LastEvents,
  Producer,
  RecordedEvents,
  StreamEnd,
  WholeAnswer,
} from "../upstream/answer.ts";
import { brokenRow, failedRow } from "./failure-record.ts";
import { type RecordRules, RecordWriter, type Saved } from "./record-writer.ts";
import { separateEvents, withIds } from "./recorded-events.ts";
import { interrupted, tooLarge, unsaved } from "./run-errors.ts";
import type { UnreadPace } from "./unread-pace.ts";

type InFlightRunOptions = RecordRules & {
  /** True if the call runs on after its last reader disconnects. */
  readonly finishAfterDisconnect: boolean;
  /** Paces the run while it has no reader. */
  readonly pace: UnreadPace;
  /** Longest time for which a finished answer that can't be stored is held back while its lease may hold; 0: it is given at once. */
  readonly holdBackMs: number;
  readonly clock: Clock;
  /** Called once, at the end. */
  ended(run: InFlightRun, how: RunEnd): void;
};

/**
 * `stored`: the record is complete. `pending`: finished, but the write failed. `released`: the id is to be released. `lost`:
 * the lease was lost.
 *
 * The readers of a pending answer get an error where leases can lapse: another process may call anew, and its answer then counts.
 */
export type RunEnd = Saved | "released";

/** Interval at which a finished answer is tried to be stored. */
const retryMs = 200;

export class InFlightRun {
  readonly id: Lease;
  readonly fingerprint: string;
  readonly #rows: RunRepository;
  readonly #rules: InFlightRunOptions;
  readonly #abort = new AbortController();
  #opened!: Promise<Answer<EventSource>>;
  #readers = 0;
  #watched = false;
  readonly #record: RecordWriter;
  #events: Pulled<Events, LastEvents> | undefined;
  /** Number of events that readers may see: all but the last ones until the answer is stored. */
  #count = 0;
  #step: Promise<void> | undefined;
  #driving = false;
  /** The final write is under way: the held events must not change. */
  #closing = false;
  #end: StreamEnd | undefined;
  #failure: unknown;
  #over = false;

  constructor(id: Lease, fingerprint: string, rows: RunRepository, rules: InFlightRunOptions) {
    this.id = id;
    this.fingerprint = fingerprint;
    this.#rows = rows;
    this.#rules = rules;
    this.#record = new RecordWriter(id, rows, rules, () => this.lose());
  }

  /** Starts the upstream call. Called once, before any `join`. */
  start(produce: Producer): void {
    this.#opened = this.#open(produce);
    // Every reader may have disconnected: the rejection is then unhandled.
    this.#opened.catch(() => {});
  }

  /** True if the call has ended; a run that is still found then has its write pending. */
  get isOver(): boolean {
    return this.#over;
  }

  /** Characters held in memory. */
  get heldSize(): number {
    return this.#record.heldSize;
  }

  /**
   * Adds a reader.
   * @param signal must abort when the reader disconnects
   * @param from number of the first event to give
   * @throws what the call throws; the signal's reason; ApiError when the answer is too large to be joined
   */
  async join(signal: AbortSignal, from: number): Promise<Answer<RecordedEvents>> {
    signal.throwIfAborted();
    if (this.#record.isUnstorable) throw tooLarge();
    this.#readers += 1;
    let isDisconnected = false;
    const disconnect = () => {
      if (isDisconnected) return;
      isDisconnected = true;
      signal.removeEventListener("abort", disconnect);
      this.#readers -= 1;
      if (this.#readers === 0) this.#driveOrCancel();
    };
    signal.addEventListener("abort", disconnect);
    try {
      const answer = await unlessAborted(this.#opened, signal);
      if (answer.kind === "stream") {
        const headers = JSON.parse(this.#record.headers!) as Record<string, string>;
        // A number beyond the events so far can't be from this call: start from the first.
        return {
          kind: "stream",
          headers,
          events: this.#read(from <= this.#count ? from : 0, disconnect, () => isDisconnected),
        };
      }
      disconnect();
      return answer;
    } catch (error) {
      disconnect();
      throw error;
    }
  }

  /** Marks the run as read by another process: events are flushed to the store, without waiting for readers here. */
  watch(): void {
    this.#watched = true;
    this.#driveOrCancel();
  }

  /** Writes the held events to the store if another process reads them there. The last ones are stored by the end alone. */
  flush(): void {
    if (!this.#watched || this.#record.isUnstorable || this.#closing || this.#over) return;
    void this.#record.spill(this.#count);
  }

  /** Cancels the upstream call and releases the id. */
  cancel(): void {
    if (this.#over) return;
    this.#abort.abort();
    this.#finish("released");
  }

  /**
   * Aborts the upstream call because the lease is lost and another process may repeat it; readers get an error. Not once the end
   * is being written: its record does not run any more, and the write itself returns whether the lease held.
   */
  lose(): void {
    if (this.#over || this.#closing) return;
    this.#failure = interrupted();
    this.#abort.abort();
    this.#finish("lost");
  }

  /** Stores the finished answer; may be called again after a failure. */
  save(): Promise<Saved> {
    return this.#record.save();
  }

  /** Stores the end, which is held back until it is stored or the lease lapses: nobody gets what a retry might not find. */
  async #saveInTime(): Promise<Saved> {
    const { clock, holdBackMs } = this.#rules;
    const until = clock.monotonic() + holdBackMs;
    let how = await this.save();
    while (how === "pending" && clock.monotonic() < until && this.#rows.holds(this.id) && !this.#over) {
      await pause(clock, retryMs);
      how = await this.save();
    }
    if (how === "lost") this.#failure = interrupted();
    if (how === "pending" && holdBackMs > 0) this.#failure = unsaved();
    return how;
  }

  async #open(produce: Producer): Promise<Answer<EventSource>> {
    try {
      const answer = await produce(this.#abort.signal);
      if (answer.kind === "whole") {
        await this.#closeWhole(answer);
        return answer;
      }
      this.#events = new Pulled(answer.events);
      this.#record.headers = JSON.stringify(answer.headers);
      if (this.#drivesItself) this.#driveOrCancel();
      return answer;
    } catch (error) {
      if (error instanceof ApiError) await this.#recordFailure(() => failedRow(error));
      this.#finish("released");
      throw this.#failure ?? error;
    }
  }

  /** Records a failure for those who wait in other processes; nothing where that can't be stored, as then they call anew. */
  async #recordFailure(row: () => FinishedCall | undefined | Promise<FinishedCall | undefined>): Promise<void> {
    if (this.#over || !this.#watched) return;
    this.#closing = true;
    try {
      const failed = await row();
      if (failed !== undefined && !this.#over) await this.#rows.finish(this.id, failed);
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
    }
  }

  async #closeWhole(answer: WholeAnswer): Promise<void> {
    const isStorable = !this.#over && this.#record.holdWhole(answer);
    if (isStorable) this.#closing = true;
    else await this.#recordFailure(() => failedRow(answer.status < 300 ? tooLarge() : answer));
    const how = isStorable ? await this.#saveInTime() : "released";
    this.#finish(how);
    if (this.#failure !== undefined) throw this.#failure;
  }

  async *#read(from: number, disconnect: () => void, isDisconnected: () => boolean): RecordedEvents {
    let next = from;
    try {
      for (;;) {
        if (isDisconnected()) return "cancelled";
        if (next < this.#count) {
          const events = this.#record.held(next, this.#count) ?? (await this.#record.spilled(next));
          yield withIds(events, this.id, next);
          next += events.length;
        } else if (this.#failure !== undefined) {
          throw this.#failure;
        } else if (this.#end !== undefined) {
          return this.#end;
        } else {
          await this.#advance();
        }
      }
    } finally {
      disconnect();
    }
  }

  /** Reads the upstream's next events; concurrent callers share one read. */
  #advance(): Promise<void> {
    this.#step ??= this.#next();
    return this.#step;
  }

  async #next(): Promise<void> {
    try {
      if (this.#record.isFull) await this.#record.spill(this.#count);
      const { done, value } = await this.#events!.next();
      // After a pause of this process another one may have called anew.
      if (!this.#over && done !== true && !this.#rows.holds(this.id)) this.lose();
      const events = done === true ? value.events : separateEvents(value);
      this.#record.hold(events);
      // Readers get the last events only once the answer is stored.
      if (done === true) await this.#close(value.how);
      if (this.#failure === undefined) this.#count += events.length;
      if (done === true) this.#end = value.how;
    } catch (error) {
      this.#failure ??= error;
      await this.#close("faulted");
      this.#end = "faulted";
    } finally {
      this.#step = undefined;
    }
  }

  async #close(end: StreamEnd): Promise<void> {
    await this.#record.spillsEnded();
    const { fits } = this.#record;
    const isStorable = end === "finished" && fits && !this.#over;
    this.#closing = true;
    const how = isStorable ? await this.#saveInTime() : "released";
    if (this.#record.hasFailed && this.#rules.holdBackMs > 0) this.#failure ??= unsaved();
    if (!isStorable && end !== "cancelled") await this.#recordFailure(() => this.#brokenEnd(fits));
    this.#finish(how);
  }

  async #brokenEnd(fits: boolean): Promise<FinishedCall | undefined> {
    const thrown = this.#failure instanceof ApiError ? this.#failure : undefined;
    return fits ? brokenRow(await this.#record.streamRow(), thrown) : failedRow(thrown ?? tooLarge());
  }

  #finish(how: RunEnd): void {
    if (this.#over) return;
    this.#over = true;
    this.#rules.ended(this, how);
  }

  /** Without readers: drives the run to its end so that a retry finds the answer, or cancels it if it would not be stored. */
  #driveOrCancel(): void {
    if (this.#over || this.#closing) return;
    const isUnread = this.#readers === 0 && !this.#rules.finishAfterDisconnect && !this.#watched;
    if (isUnread || (this.#readers === 0 && this.#record.isUnstorable)) this.cancel();
    if (this.#events !== undefined && !this.#driving) void this.#drive();
  }

  get #drivesItself(): boolean {
    return this.#end === undefined && (this.#readers === 0 || this.#watched);
  }

  async #drive(): Promise<void> {
    this.#driving = true;
    // Reads to the end of the stream, even when cancelled, so that the upstream connection is released.
    while (this.#drivesItself) {
      await this.#rules.pace.turn();
      if (!this.#drivesItself) break;
      const before = this.#record.size;
      await this.#advance();
      this.#rules.pace.took(this.#record.size - before);
      if (this.#readers === 0 && this.#record.isUnstorable) this.cancel();
    }
    this.#driving = false;
  }
}

/** Rejects with the signal's reason if it aborts first. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
