/**
 * One running call that has a service-request-id: however many read its answer, the upstream is called once.
 *
 * The fastest reader drives it, so that a slow reader slows the upstream; without readers it drives itself to its end.
 * Events are held in memory up to `heldBytes` and then go to the store, where readers that are behind find them; the
 * whole is stored before anyone sees its last event.
 */
import { doneData } from "../lib/sse.ts";
import type { CallId, FinishedCall, IdempotencyRows } from "../store/idempotency-rows.ts";
import { pack, unpackText } from "../store/packing.ts";
import { StorageError } from "../store/storage-error.ts";
import { ApiError } from "../wire/errors.ts";
import type {
  EventAnswer,
  EventBatch,
  KeptAnswer,
  NumberedAnswer,
  Producer,
  StreamEnd,
  WholeAnswer,
} from "./answer.ts";
import { needsStorage } from "./needs-storage.ts";
import { PulledEvents } from "./pulled-events.ts";

export type RunRules = {
  /** The most bytes of an answer that is kept. */
  readonly recordBytes: number;
  /** Whether the call runs on when its last reader leaves. */
  readonly finishAfterDisconnect: boolean;
  /** When an answer that is finished now expires, in Unix milliseconds. */
  expiresAt(): number;
  /** Called once. */
  ended(run: Run, how: RunEnd): void;
};

/** `kept`: the store has it all. `unsaved`: finished, but the store failed. `released`: the id is free again. */
export type RunEnd = "kept" | "unsaved" | "released";

/** Events beyond this go to the store while the stream runs. */
const heldBytes = 64 * 1024;

/** Event texts are JSON, so a line feed never stands within one. */
export const splitEvents = (text: string): string[] => text.split("\n");
const joinEvents = (events: readonly string[]): string => events.join("\n");

export class Run {
  readonly id: CallId;
  readonly fingerprint: string;
  readonly #rows: IdempotencyRows;
  readonly #rules: RunRules;
  readonly #abort = new AbortController();
  #opened!: Promise<WholeAnswer | EventAnswer>;
  #readers = 0;
  #watched = false;
  /** The answer outgrew its bound or the store failed: it goes only to those who read it now. */
  #unkept = false;
  #size = 0;
  #storedBytes = 0;
  #events: PulledEvents | undefined;
  #headers = "{}";
  /** The events from number `#heldFrom` on; those before are in the store. */
  #held: string[] = [];
  #heldFrom = 0;
  #heldSize = 0;
  /** How many events readers may see: all but the last ones until the answer is stored. */
  #count = 0;
  #step: Promise<void> | undefined;
  #driving = false;
  /** Being stored: what is held stays as it is. */
  #closing = false;
  #end: StreamEnd | undefined;
  #failure: unknown;
  /** Whole answers only. */
  #finished: WholeAnswer | undefined;
  #over = false;

  constructor(id: CallId, fingerprint: string, rows: IdempotencyRows, rules: RunRules) {
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
  async join(signal: AbortSignal, from: number): Promise<KeptAnswer> {
    signal.throwIfAborted();
    if (this.#unkept) throw tooLarge();
    this.#readers += 1;
    let left = false;
    const leave = () => {
      if (left) return;
      left = true;
      signal.removeEventListener("abort", leave);
      this.#readers -= 1;
      if (this.#readers === 0) this.#goOnAlone();
    };
    signal.addEventListener("abort", leave);
    try {
      const answer = await unlessAborted(this.#opened, signal);
      if (answer.kind === "events") return this.#numbered(from, leave, () => left);
      leave();
      return answer;
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Someone in another process reads along: what comes is written down soon, and does not wait for readers here. */
  watch(): void {
    this.#watched = true;
    this.#goOnAlone();
  }

  /** Writes down what is held, if someone in another process waits for it. */
  flush(): void {
    if (this.#watched && !this.#unkept && !this.#closing && !this.#over) this.#spill();
  }

  /** Ends the upstream call; what came of it is forgotten. */
  cancel(): void {
    if (this.#over) return;
    this.#abort.abort();
    this.#finish("released");
  }

  /** Stores the finished answer; called again when the store failed. */
  async save(): Promise<RunEnd> {
    try {
      const finished = this.#finished === undefined ? this.#streamRow() : this.#wholeRow(this.#finished);
      return (await this.#rows.finish(this.id, finished)) ? "kept" : "released";
    } catch (error) {
      if (error instanceof StorageError) return "unsaved";
      throw error;
    }
  }

  async #open(produce: Producer): Promise<WholeAnswer | EventAnswer> {
    try {
      const answer = await produce(this.#abort.signal);
      if (answer.kind === "whole") {
        await this.#closeWhole(answer);
        return answer;
      }
      this.#events = new PulledEvents(answer.events);
      this.#headers = JSON.stringify(answer.headers);
      if (this.#readers === 0 || this.#watched) this.#goOnAlone();
      return answer;
    } catch (error) {
      this.#finish("released");
      throw error;
    }
  }

  async #closeWhole(answer: WholeAnswer): Promise<void> {
    const size = answer.body.length;
    const keep = !this.#over && answer.status >= 200 && answer.status < 300 && size <= this.#rules.recordBytes;
    if (keep) {
      this.#closing = true;
      this.#heldSize = size;
      this.#finished = answer;
    }
    this.#finish(keep ? await this.save() : "released");
  }

  #wholeRow({ status, headers, body }: WholeAnswer): FinishedCall {
    const packed = pack(body);
    const bytes = packed.byteLength;
    const expiresAt = this.#rules.expiresAt();
    return { status, headers: JSON.stringify(headers), events: null, bodyFrom: null, body: packed, bytes, expiresAt };
  }

  #streamRow(): FinishedCall {
    const body = pack(joinEvents(this.#held));
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

  #numbered(from: number, leave: () => void, hasLeft: () => boolean): NumberedAnswer {
    return {
      kind: "numbered",
      headers: JSON.parse(this.#headers) as Record<string, string>,
      idPrefix: idPrefixOf(this.id),
      // No call of this process can have seen an event that has not come yet.
      events: this.#read(from <= this.#count ? from : 0, leave, hasLeft),
    };
  }

  async *#read(from: number, leave: () => void, hasLeft: () => boolean): AsyncGenerator<EventBatch, StreamEnd> {
    let next = from;
    try {
      for (;;) {
        if (hasLeft()) return "cancelled";
        if (next < this.#count) {
          const data = this.#eventsFrom(next);
          yield { firstId: next, data };
          next += data.length;
        } else if (this.#failure !== undefined) {
          throw this.#failure;
        } else if (this.#end !== undefined) {
          return this.#end;
        } else {
          await this.#advance();
        }
      }
    } finally {
      leave();
    }
  }

  /** At least one. */
  #eventsFrom(number: number): string[] {
    if (number >= this.#heldFrom) return this.#held.slice(number - this.#heldFrom);
    if (this.#unkept) throw tooLarge();
    const events = needsStorage(() => storedEvents(this.#rows, this.id, number));
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
      if (this.#heldSize >= heldBytes) this.#spill();
      const step = await this.#events!.next();
      if ("end" in step) {
        await this.#close(step.end);
        return;
      }
      const { batch } = step;
      // The last event is held back until it is known how the stream ended, and the answer is stored.
      const last = batch.at(-1) === doneData ? await this.#events!.next() : undefined;
      this.#hold(batch);
      if (last !== undefined) await this.#close("end" in last ? last.end : "faulted");
      this.#count += batch.length;
    } catch (error) {
      this.#failure = error;
      await this.#close("faulted");
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
  #spill(): void {
    const size = this.#heldSize;
    if (size === 0) return;
    this.#size += size;
    if (!this.#unkept && this.#size <= this.#rules.recordBytes) this.#unkept = !this.#store();
    else this.#unkept = true;
    this.#heldFrom += this.#held.length;
    this.#held = [];
    this.#heldSize = 0;
  }

  #store(): boolean {
    try {
      const data = pack(joinEvents(this.#held));
      this.#storedBytes += data.byteLength;
      return this.#rows.append(this.id, this.#headers, { firstId: this.#heldFrom, data });
    } catch (error) {
      if (error instanceof StorageError) return false;
      throw error;
    }
  }

  async #close(end: StreamEnd): Promise<void> {
    const fits = !this.#unkept && this.#size + this.#heldSize <= this.#rules.recordBytes;
    const keep = end === "finished" && fits && !this.#over;
    this.#closing = true;
    this.#finish(keep ? await this.save() : "released");
    this.#end = end;
  }

  #finish(how: RunEnd): void {
    if (this.#over) return;
    this.#over = true;
    this.#rules.ended(this, how);
  }

  /** Nobody reads: the answer is finished for whoever comes back, unless it could not be given to them. */
  #goOnAlone(): void {
    if (this.#over || this.#closing) return;
    if (this.#readers === 0 && (this.#unkept || !this.#rules.finishAfterDisconnect)) this.cancel();
    if (this.#events !== undefined && !this.#driving) void this.#drive();
  }

  async #drive(): Promise<void> {
    this.#driving = true;
    // To the stream's very end, a cancelled one's too, so that its generator can let go of the upstream.
    while (this.#end === undefined && (this.#readers === 0 || this.#watched)) {
      await this.#advance();
      if (this.#readers === 0 && this.#unkept) this.cancel();
    }
    this.#driving = false;
  }
}

/** Short, as it stands before every event's number. */
export const idPrefixOf = ({ run }: CallId): string => `${run}-`;

/** Those of the batch that holds that number, from it on; none when it is not there. @throws StorageError */
export function storedEvents(rows: IdempotencyRows, id: CallId, number: number): string[] {
  const stored = rows.eventsAt(id, number);
  return stored === undefined ? [] : splitEvents(unpackText(stored.data)).slice(number - stored.firstId);
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
