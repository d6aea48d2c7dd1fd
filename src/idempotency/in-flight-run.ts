/**
 * One running call that has a service-request-id: however many read its answer, the upstream is called once.
 *
 * The fastest reader drives it, so that a slow reader slows the upstream; without readers it drives itself to its end.
 * Events are held in memory up to `heldBytes` and then go to the store, where readers that are behind find them; the
 * whole is stored before anyone sees its last event.
 */
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
import { joinEvents, separateEvents, storedEvents, withIds } from "./recorded-events.ts";
import type { UnreadPace } from "./unread-pace.ts";

export type InFlightRunOptions = {
  /** The most bytes of an answer that is kept. */
  readonly recordBytes: number;
  /** Whether the call runs on when its last reader leaves. */
  readonly finishAfterDisconnect: boolean;
  /** When an answer that is finished now expires, in Unix milliseconds. */
  expiresAt(): number;
  /** How fast it goes on while nobody reads. */
  readonly pace: UnreadPace;
  /** Called once. */
  ended(run: InFlightRun, how: RunEnd): void;
};

/**
 * `stored`: the store has it all. `pending`: finished, but the store failed. `released`: the id is to be freed. `lost`: the
 * lease is another's by now.
 */
export type RunEnd = "stored" | "pending" | "released" | "lost";

/** Events beyond this go to the store while the stream runs. */
const heldBytes = 64 * 1024;
/** A larger answer is written in pieces, each in a turn of the event loop of its own: a megabyte at once takes 5 to 50 ms. */
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
  /** The answer outgrew its bound or the store failed: it goes only to those who read it now. */
  #isUnstorable = false;
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
  /** What is held goes to the store. */
  #spilling: Promise<void> | undefined;
  /** Being stored: what is held stays as it is. */
  #closing = false;
  #end: StreamEnd | undefined;
  #failure: unknown;
  /** Whole answers only: the answer, packed, and how many of its pieces are stored. */
  #finished: WholeAnswer | undefined;
  #packed: Uint8Array | undefined;
  #pieces = 0;
  #over = false;

  constructor(id: Lease, fingerprint: string, rows: RunRepository, rules: InFlightRunOptions) {
    this.id = id;
    this.fingerprint = fingerprint;
    this.#rows = rows;
    this.#rules = rules;
  }

  /** Makes the call. Once, before anyone joins. */
  start(produce: Producer): void {
    this.#opened = this.#open(produce);
    // Everyone who waited may have left.
    this.#opened.catch(() => {});
  }

  /** Whether the call has ended: who joins now gets an answer that waits to be stored. */
  get isOver(): boolean {
    return this.#over;
  }

  /** Characters held in memory. */
  get heldSize(): number {
    return this.#heldSize;
  }

  /**
   * The answer, from its first event or from number `from` on.
   * @param signal must abort when the reader leaves
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
        // No call of this process can have seen an event that has not come yet.
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

  /** Someone in another process reads along: what comes is written down soon, and does not wait for readers here. */
  watch(): void {
    this.#watched = true;
    this.#driveOrCancel();
  }

  /** Writes down what is held, if someone in another process waits for it. */
  flush(): void {
    if (this.#watched && !this.#isUnstorable && !this.#closing && !this.#over) void this.#spill();
  }

  /** Ends the upstream call; what came of it is forgotten. */
  cancel(): void {
    if (this.#over) return;
    this.#abort.abort();
    this.#finish("released");
  }

  /** The lease is lost, and another may make the call anew: the upstream call ends, and who reads is told so. */
  lose(): void {
    if (this.#over) return;
    this.#failure = lost();
    this.#abort.abort();
    this.#finish("lost");
  }

  /** Stores the finished answer; called again when the store failed. */
  async save(): Promise<RunEnd> {
    try {
      const finished = await (this.#finished === undefined ? this.#streamRow() : this.#wholeRow(this.#finished));
      return (await this.#rows.finish(this.id, finished)) ? "stored" : "lost";
    } catch (error) {
      if (error instanceof StorageError) return "pending";
      throw error;
    }
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
      if (this.#readers === 0 || this.#watched) this.#driveOrCancel();
      return answer;
    } catch (error) {
      this.#finish("released");
      throw this.#failure ?? error;
    }
  }

  async #closeWhole(answer: WholeAnswer): Promise<void> {
    const size = answer.body.length;
    const isStorable = !this.#over && answer.status >= 200 && answer.status < 300 && size <= this.#rules.recordBytes;
    if (isStorable) {
      this.#closing = true;
      this.#heldSize = size;
      this.#finished = answer;
    }
    const how = isStorable ? await this.save() : "released";
    this.#finish(how);
    if (how === "lost") throw lost();
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

  /** @returns undefined when they are in the store */
  #heldEvents(number: number): string[] | undefined {
    return number >= this.#heldFrom ? this.#held.slice(number - this.#heldFrom) : undefined;
  }

  /** At least one. */
  async #spilledEvents(number: number): Promise<string[]> {
    if (this.#isUnstorable) throw tooLarge();
    const events = await storedEvents(this.#rows, { ...this.id, wholeEvents: 1 }, number).catch((error) => {
      throw asUnavailable(error);
    });
    if (events.length === 0) throw lost();
    return events;
  }

  /** One more read of the upstream's events; those who ask at the same time share it. */
  #advance(): Promise<void> {
    this.#step ??= this.#next();
    return this.#step;
  }

  async #next(): Promise<void> {
    try {
      if (this.#heldSize >= heldBytes) await this.#spill();
      const { done, value } = await this.#events!.next();
      const events = done === true ? value.events : separateEvents(value);
      this.#hold(events);
      // Nobody sees the last ones before the answer is stored.
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

  #hold(events: readonly string[]): void {
    for (const event of events) {
      this.#held.push(event);
      this.#heldSize += event.length;
    }
  }

  /** Moves what is held to the store, or out of memory if the answer is not kept. */
  #spill(): Promise<void> {
    this.#spilling ??= this.#spillNow().finally(() => {
      this.#spilling = undefined;
    });
    return this.#spilling;
  }

  async #spillNow(): Promise<void> {
    const size = this.#heldSize;
    const events = this.#held;
    const count = events.length;
    if (count === 0) return;
    this.#size += size;
    if (!this.#isUnstorable && this.#size <= this.#rules.recordBytes)
      this.#isUnstorable = !(await this.#store(joinEvents(events)));
    else this.#isUnstorable = true;
    // Others may have come meanwhile.
    this.#heldFrom += count;
    this.#held = events.slice(count);
    this.#heldSize -= size;
  }

  async #store(text: string): Promise<boolean> {
    try {
      const data = await packAside(text);
      this.#storedBytes += data.byteLength;
      const isStored = await this.#rows.append(this.id, this.#headers, { firstId: this.#heldFrom, data });
      if (!isStored) this.lose();
      return isStored;
    } catch (error) {
      if (error instanceof StorageError) return false;
      throw error;
    }
  }

  async #close(end: StreamEnd): Promise<void> {
    await this.#spilling;
    const fits = !this.#isUnstorable && this.#size + this.#heldSize <= this.#rules.recordBytes;
    const isStorable = end === "finished" && fits && !this.#over;
    this.#closing = true;
    const how = isStorable ? await this.save() : "released";
    if (how === "lost") this.#failure = lost();
    this.#finish(how);
  }

  #finish(how: RunEnd): void {
    if (this.#over) return;
    this.#over = true;
    this.#rules.ended(this, how);
  }

  /** Nobody reads: the answer is finished for whoever comes back, unless it could not be given to them. */
  #driveOrCancel(): void {
    if (this.#over || this.#closing) return;
    if (this.#readers === 0 && (this.#isUnstorable || !this.#rules.finishAfterDisconnect)) this.cancel();
    if (this.#events !== undefined && !this.#driving) void this.#drive();
  }

  get #drivesItself(): boolean {
    return this.#end === undefined && (this.#readers === 0 || this.#watched);
  }

  async #drive(): Promise<void> {
    this.#driving = true;
    // To the stream's very end, a cancelled one's too, so that its generator can let go of the upstream.
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

function tooLarge(): ApiError {
  return ApiError.unavailable("overloaded", "The answer under this service-request-id is too large to be shared.");
}

/** Rejects with the signal's reason when that comes first. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
