/**
 * A running call with a service-request-id: calls the upstream once and shares the answer among its readers.
 *
 * The fastest reader drives the run, so a slow reader slows the upstream; without readers the run drives itself to its end.
 * Events are held in memory up to `heldBytes` and then spilled to the store, where slower readers find them. The whole answer
 * is stored before any reader gets its last event.
 */
import type { Clock } from "../lib/clock.ts";
import { Pulled } from "../lib/flow.ts";
import { ApiError } from "../protocols/errors.ts";
import { packAside } from "../store/packing.ts";
import { asUnavailable } from "../store/require-storage.ts";
import { StorageError } from "../store/storage-error.ts";
import type { FinishedCall, Lease, RunRepository } from "../store/store.ts";
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
import { LivePublisher, type PublishedRun } from "./live-publisher.ts";
import { type LiveRuns, streamOf } from "./live-runs.ts";
import { joinEvents, separateEvents, storedEvents, withIds } from "./recorded-events.ts";
import { brokenRow, failedRow } from "./told-failure.ts";
import type { UnreadPace } from "./unread-pace.ts";

export type InFlightRunOptions = {
  /** Maximum bytes of a stored answer. */
  readonly recordBytes: number;
  /** Whether the call runs on after its last reader disconnects. */
  readonly finishAfterDisconnect: boolean;
  /** When an answer that finishes now expires, in Unix milliseconds. */
  expiresAt(): number;
  /** Paces the run while it has no reader. */
  readonly pace: UnreadPace;
  /** How long a finished answer that can't be stored is held back while its lease may hold; 0: it is given at once. */
  readonly holdBackMs: number;
  readonly clock: Clock;
  /** Called once, at the end. */
  ended(run: InFlightRun, how: RunEnd): void;
};

/**
 * `stored`: the record is complete. `pending`: finished, but the write failed. `released`: the id is to be released. `lost`:
 * the lease was lost.
 *
 * Where leases can lapse, the readers of a pending answer get an error: another process may call anew, and its answer then counts.
 */
export type RunEnd = "stored" | "pending" | "released" | "lost";

/** Held events beyond this size are spilled to the store while the stream runs. */
const heldBytes = 64 * 1024;
/** Interval at which a finished answer is tried to be stored. */
const retryMs = 200;
/** How much of a stream is held while it can't be spilled; more than that is not stored. */
const maxUnspilledBytes = 1024 * 1024;
/** A larger answer is written in pieces, each in its own turn of the event loop: a megabyte at once takes 5 to 50 ms. */
const pieceBytes = 256 * 1024;

export class InFlightRun {
  readonly id: Lease;
  readonly fingerprint: string;
  readonly #rows: RunRepository;
  readonly #rules: InFlightRunOptions;
  readonly #abort = new AbortController();
  #opened!: Promise<Answer<EventSource>>;
  #readers = 0;
  #watched = false;
  /** The answer outgrew `recordBytes` or a write failed: only its current readers get it. */
  #isUnstorable = false;
  /** It is unstorable because the store failed, for too long. */
  #hasFailed = false;
  #size = 0;
  #storedBytes = 0;
  #events: Pulled<Events, LastEvents> | undefined;
  #headers = "{}";
  /** The events from number `#heldFrom` on; those before are in the store. */
  #held: string[] = [];
  #heldFrom = 0;
  #heldSize = 0;
  /** How many events readers may see: all but the last ones until the answer is stored. */
  #count = 0;
  #step: Promise<void> | undefined;
  #driving = false;
  /**
   * How many of the held events were in a spill that failed. It may come through at any time, and would take out of the store what
   * a longer one has written meanwhile: so it is sent again as it was.
   */
  #unsure = 0;
  /** The spill under way. */
  #spilling: Promise<void> | undefined;
  /** The final write is under way: the held events must not change. */
  #closing = false;
  #end: StreamEnd | undefined;
  #failure: unknown;
  /** Whole answers only: the answer, packed, and how many of its pieces are stored. */
  #finished: WholeAnswer | undefined;
  #packed: Uint8Array | undefined;
  #pieces = 0;
  #over = false;
  #how: RunEnd | undefined;
  /** Of a call that readers on other nodes asked for. */
  #publisher: LivePublisher | undefined;

  constructor(id: Lease, fingerprint: string, rows: RunRepository, rules: InFlightRunOptions) {
    this.id = id;
    this.fingerprint = fingerprint;
    this.#rows = rows;
    this.#rules = rules;
  }

  /** Starts the upstream call. Called once, before any `join`. */
  start(produce: Producer): void {
    this.#opened = this.#open(produce);
    // Every reader may have disconnected: the rejection is then unhandled.
    this.#opened.catch(() => {});
  }

  /** Whether the call has ended; a run that is still found then has its write pending. */
  get isOver(): boolean {
    return this.#over;
  }

  /** Characters held in memory. */
  get heldSize(): number {
    return this.#heldSize;
  }

  /**
   * Adds a reader.
   * @param signal must abort when the reader disconnects
   * @param from number of the first event to give
   * @throws what the call throws; the signal's reason; ApiError when the answer is too large to be joined
   */
  async join(signal: AbortSignal, from: number): Promise<Answer<RecordedEvents>> {
    signal.throwIfAborted();
    if (this.#isUnstorable) throw tooLarge();
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
        const headers = JSON.parse(this.#headers) as Record<string, string>;
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

  /** Has the events published for readers on other nodes; to be called again while they read. */
  publish(runs: LiveRuns): void {
    if (this.#over || this.#isUnstorable) return;
    this.#publisher ??= this.#newPublisher(runs);
    this.#publisher.asked();
    this.#driveOrCancel();
  }

  /** Writes the held events to the store if another process reads them there. */
  flush(): void {
    if (this.#watched || this.#publisher?.isFailing === true) this.#spillForOthers();
    this.#publisher?.poke();
    // Readers elsewhere don't say when they leave.
    if (this.#publisher !== undefined) this.#driveOrCancel();
  }

  /** Cancels the upstream call and releases the id. */
  cancel(): void {
    if (this.#over) return;
    this.#abort.abort();
    this.#finish("released");
  }

  /**
   * Aborts the upstream call because the lease is lost and another process may repeat it; readers get an error. Not once the end
   * is being written: its record does not run any more, and the write itself tells whether the lease held.
   */
  lose(): void {
    if (this.#over || this.#closing) return;
    this.#failure = lost();
    this.#abort.abort();
    this.#finish("lost");
  }

  /** Stores the finished answer; may be called again after a failure. */
  async save(): Promise<RunEnd> {
    try {
      const finished = await (this.#finished === undefined ? this.#streamRow() : this.#wholeRow(this.#finished));
      return (await this.#rows.finish(this.id, finished)) ? "stored" : "lost";
    } catch (error) {
      if (error instanceof StorageError) return "pending";
      throw error;
    }
  }

  /** Nobody is given the end of an answer that a retry might not find: it is held back until it is stored, or the lease lapses. */
  async #saveInTime(): Promise<RunEnd> {
    const { clock, holdBackMs } = this.#rules;
    const until = clock.monotonic() + holdBackMs;
    let how = await this.save();
    while (how === "pending" && clock.monotonic() < until && this.#rows.holds(this.id) && !this.#over) {
      await new Promise<void>((resolve) => clock.setTimer(retryMs, resolve));
      how = await this.save();
    }
    if (how === "lost") this.#failure = lost();
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
      this.#headers = JSON.stringify(answer.headers);
      this.#publisher?.poke();
      if (this.#drivesItself) this.#driveOrCancel();
      return answer;
    } catch (error) {
      if (error instanceof ApiError) await this.#tell(() => failedRow(error));
      this.#finish("released");
      throw this.#failure ?? error;
    }
  }

  /** Tells those who wait for it in other processes how it failed; nothing where that can't be stored, as then they call anew. */
  async #tell(row: () => FinishedCall | undefined | Promise<FinishedCall | undefined>): Promise<void> {
    if (this.#over || !this.#hasOthers) return;
    this.#closing = true;
    try {
      const told = await row();
      if (told !== undefined && !this.#over) await this.#rows.finish(this.id, told);
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
    }
  }

  async #closeWhole(answer: WholeAnswer): Promise<void> {
    const size = answer.body.length;
    const isStorable = !this.#over && answer.status >= 200 && answer.status < 300 && size <= this.#rules.recordBytes;
    if (isStorable) {
      this.#closing = true;
      this.#heldSize = size;
      this.#finished = answer;
    } else await this.#tell(() => failedRow(answer.status < 300 ? tooLarge() : answer));
    const how = isStorable ? await this.#saveInTime() : "released";
    this.#finish(how);
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #wholeRow({ status, headers, body: content }: WholeAnswer): Promise<FinishedCall> {
    this.#packed ??= await packAside(content);
    const packed = this.#packed;
    const bytes = packed.byteLength;
    for (; (this.#pieces + 1) * pieceBytes < bytes; this.#pieces += 1) {
      const data = packed.subarray(this.#pieces * pieceBytes, (this.#pieces + 1) * pieceBytes);
      await this.#rows.append(this.id, null, { firstId: this.#pieces, data });
      await new Promise((resolve) => setImmediate(resolve));
    }
    const bodyFrom = this.#pieces === 0 ? null : this.#pieces;
    const body = packed.subarray(this.#pieces * pieceBytes);
    const expiresAt = this.#rules.expiresAt();
    return { status, headers: JSON.stringify(headers), events: null, bodyFrom, body, bytes, expiresAt };
  }

  async #streamRow(): Promise<FinishedCall> {
    const body = await packAside(joinEvents(this.#held));
    return {
      status: 200,
      headers: this.#headers,
      events: this.#heldFrom + this.#held.length,
      bodyFrom: this.#heldFrom,
      body,
      bytes: this.#storedBytes + body.byteLength,
      expiresAt: this.#rules.expiresAt(),
    };
  }

  async *#read(from: number, disconnect: () => void, isDisconnected: () => boolean): RecordedEvents {
    let next = from;
    try {
      for (;;) {
        if (isDisconnected()) return "cancelled";
        if (next < this.#count) {
          const events = this.#heldEvents(next) ?? (await this.#spilledEvents(next));
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

  /** Those that readers may see: while the end is being stored the last ones are held too. @returns undefined when they were spilled to the store */
  #heldEvents(number: number): string[] | undefined {
    const seen = this.#count - this.#heldFrom;
    return number >= this.#heldFrom ? this.#held.slice(number - this.#heldFrom, seen) : undefined;
  }

  /** Reads events from the store; at least one. */
  async #spilledEvents(number: number): Promise<string[]> {
    if (this.#isUnstorable) throw tooLarge();
    const events = await storedEvents(this.#rows, this.id, number).catch((error) => {
      throw asUnavailable(error);
    });
    if (events.length === 0) throw lost();
    return events;
  }

  /** Reads the upstream's next events; concurrent callers share one read. */
  #advance(): Promise<void> {
    this.#step ??= this.#next();
    return this.#step;
  }

  async #next(): Promise<void> {
    try {
      if (this.#heldSize >= heldBytes) await this.#spill();
      const { done, value } = await this.#events!.next();
      // After a pause of this process another one may have called anew.
      if (!this.#over && done !== true && !this.#rows.holds(this.id)) this.lose();
      const events = done === true ? value.events : separateEvents(value);
      this.#hold(events);
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
      this.#publisher?.poke();
    }
  }

  #hold(events: readonly string[]): void {
    for (const event of events) {
      this.#held.push(event);
      this.#heldSize += event.length;
    }
  }

  /** Moves the held events to the store, or drops them if the answer is not stored. */
  #spill(): Promise<void> {
    this.#spilling ??= this.#spillNow().finally(() => {
      this.#spilling = undefined;
      this.#publisher?.poke();
    });
    return this.#spilling;
  }

  #spillForOthers(): void {
    if (!this.#isUnstorable && !this.#closing && !this.#over) void this.#spill();
  }

  #newPublisher(runs: LiveRuns): LivePublisher {
    const run: PublishedRun = {
      isHeld: () => this.#rows.holds(this.id),
      headers: () => (this.#events === undefined ? undefined : this.#headers),
      floor: () => this.#heldFrom,
      count: () => this.#count,
      held: (from) => this.#heldEvents(from) ?? [],
      end: () => this.#publishedEnd(),
    };
    const { clock } = this.#rules;
    return new LivePublisher(
      runs,
      streamOf(this.id),
      run,
      () => this.#spillForOthers(),
      () => clock.monotonic(),
    );
  }

  #publishedEnd(): number | "otherwise" | undefined {
    if (!this.#over) return this.#isUnstorable ? "otherwise" : undefined;
    if (this.#how !== "stored" || this.#events === undefined) return "otherwise";
    return this.#end === undefined ? undefined : this.#count;
  }

  async #spillNow(): Promise<void> {
    // The last events of an answer are stored by its end alone.
    const count = this.#unsure === 0 ? this.#count - this.#heldFrom : this.#unsure;
    if (count === 0) return;
    const events = this.#held.slice(0, count);
    const size = events.reduce((sum, event) => sum + event.length, 0);
    if (!this.#isUnstorable && this.#size + size <= this.#rules.recordBytes) {
      const isStored = await this.#store(joinEvents(events));
      // Later, with what comes meanwhile, it may be.
      if (isStored === undefined && this.#heldSize <= maxUnspilledBytes) {
        this.#unsure = count;
        return;
      }
      this.#isUnstorable = isStored !== true;
      this.#hasFailed = isStored === undefined;
    } else this.#isUnstorable = true;
    this.#unsure = 0;
    this.#size += size;
    // More events may have been held meanwhile.
    this.#heldFrom += count;
    this.#held = this.#held.slice(count);
    this.#heldSize -= size;
  }

  /** @returns whether the lease still held; undefined when the store failed */
  async #store(text: string): Promise<boolean | undefined> {
    try {
      const data = await packAside(text);
      const isStored = await this.#rows.append(this.id, this.#headers, { firstId: this.#heldFrom, data });
      this.#storedBytes += data.byteLength;
      if (!isStored) this.lose();
      return isStored;
    } catch (error) {
      if (error instanceof StorageError) return undefined;
      throw error;
    }
  }

  async #close(end: StreamEnd): Promise<void> {
    await this.#spilling;
    const fits = !this.#isUnstorable && this.#size + this.#heldSize <= this.#rules.recordBytes;
    const isStorable = end === "finished" && fits && !this.#over;
    this.#closing = true;
    const how = isStorable ? await this.#saveInTime() : "released";
    if (this.#hasFailed && this.#rules.holdBackMs > 0) this.#failure ??= unsaved();
    if (!isStorable && end !== "cancelled") await this.#tell(() => this.#toldEnd(fits));
    this.#finish(how);
  }

  async #toldEnd(fits: boolean): Promise<FinishedCall | undefined> {
    const thrown = this.#failure instanceof ApiError ? this.#failure : undefined;
    return fits ? brokenRow(await this.#streamRow(), thrown) : failedRow(thrown ?? tooLarge());
  }

  #finish(how: RunEnd): void {
    if (this.#over) return;
    this.#over = true;
    this.#how = how;
    this.#publisher?.poke();
    this.#rules.ended(this, how);
  }

  /** Without readers: drives the run to its end so that a retry finds the answer, or cancels it if it would not be stored. */
  #driveOrCancel(): void {
    if (this.#over || this.#closing) return;
    const isUnread = this.#readers === 0 && !this.#rules.finishAfterDisconnect && !this.#hasOthers;
    if (isUnread || (this.#readers === 0 && this.#isUnstorable)) this.cancel();
    if (this.#events !== undefined && !this.#driving) void this.#drive();
  }

  /** Whether it is read in other processes, as far as is known. */
  get #hasOthers(): boolean {
    return this.#watched || this.#publisher?.isAskedFor === true;
  }

  get #drivesItself(): boolean {
    return this.#end === undefined && (this.#readers === 0 || this.#hasOthers);
  }

  async #drive(): Promise<void> {
    this.#driving = true;
    // Reads to the end of the stream, even when cancelled, so that the upstream connection is released.
    while (this.#drivesItself) {
      await this.#rules.pace.turn();
      if (!this.#drivesItself) break;
      const before = this.#size + this.#heldSize;
      await this.#advance();
      this.#rules.pace.took(this.#size + this.#heldSize - before);
      if (this.#readers === 0 && this.#isUnstorable) this.cancel();
    }
    this.#driving = false;
  }
}

export function lost(): ApiError {
  return ApiError.unavailable(
    "upstream_unavailable",
    "The answer was interrupted. Retry to get it from its beginning.",
  );
}

/** Of an answer that is complete and waits to be stored. */
export function unsaved(): ApiError {
  return ApiError.unavailable(
    "storage_unavailable",
    "The answer is complete but can't be stored at the moment. Retry with the same service-request-id to get it.",
  );
}

function tooLarge(): ApiError {
  return ApiError.unavailable("overloaded", "The answer under this service-request-id is too large to be shared.");
}

/** Rejects with the signal's reason if it aborts first. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
