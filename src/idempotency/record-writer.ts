/**
 * Writes the idempotency record of one call. Events are held in memory up to `heldBytes` and then spilled to the store, where slower
 * readers find them; the end writes the rest.
 */

import { StorageError } from "../store/contract/storage-error.ts";
import type { FinishedCall, Lease, RunRepository } from "../store/contract/store.ts";
import { packAside } from "../store/packing.ts";
import { asUnavailable } from "../store/require-storage.ts";
import type { WholeAnswer } from "../upstream/answer.ts";
import { joinEvents, storedEvents } from "./recorded-events.ts";
import { interrupted, tooLarge } from "./run-errors.ts";

export type RecordRules = {
  /** Maximum bytes of a stored answer. */
  readonly recordBytes: number;
  /** Expiry of an answer that finishes now, in Unix milliseconds. */
  expiresAt(): number;
};

/** The result of a record's last write. `lost`: the lease was lost. */
export type Saved = "stored" | "pending" | "lost";

/** Held events beyond this size are spilled to the store while the stream runs. */
const heldBytes = 64 * 1024;
/** Maximum size of a stream that is held while it can't be spilled; a longer one is not stored. */
const maxUnspilledBytes = 1024 * 1024;
/** A larger answer is written in pieces, each in its own turn of the event loop: a megabyte at once takes 5 to 50 ms. */
const pieceBytes = 256 * 1024;

export class RecordWriter {
  readonly #lease: Lease;
  readonly #rows: RunRepository;
  readonly #rules: RecordRules;
  readonly #onLost: () => void;
  /** JSON object; undefined until the upstream has answered with a stream. */
  headers: string | undefined;
  /** The answer outgrew `recordBytes` or a write failed: only its current readers get it. */
  isUnstorable = false;
  /** It is unstorable because the store failed, for too long. */
  hasFailed = false;
  /** The events from number `heldFrom` on; those before are in the store. */
  #held: string[] = [];
  heldFrom = 0;
  /** Characters held in memory. */
  heldSize = 0;
  #spilledSize = 0;
  #spilledBytes = 0;
  /**
   * Number of held events that were in a spill that failed. It may come through at any time, and would take out of the store what
   * a longer one has written meanwhile: so it is sent again as it was.
   */
  #unsure = 0;
  /** The spill under way. */
  #spilling: Promise<void> | undefined;
  /** A whole answer, packed, and how many of its pieces are stored. */
  #whole: WholeAnswer | undefined;
  #packed: Uint8Array | undefined;
  #pieces = 0;

  /** @param onLost called when the lease turns out to be lost */
  constructor(lease: Lease, rows: RunRepository, rules: RecordRules, onLost: () => void) {
    this.#lease = lease;
    this.#rows = rows;
    this.#rules = rules;
    this.#onLost = onLost;
  }

  /** Characters of the answer so far. */
  get size(): number {
    return this.#spilledSize + this.heldSize;
  }

  /** True if more events should be spilled before others are held. */
  get isFull(): boolean {
    return this.heldSize >= heldBytes;
  }

  /** True if all of the stream can be stored. */
  get fits(): boolean {
    return !this.isUnstorable && this.size <= this.#rules.recordBytes;
  }

  hold(events: readonly string[]): void {
    for (const event of events) {
      this.#held.push(event);
      this.heldSize += event.length;
    }
  }

  /** @returns whether it is stored by `save` */
  holdWhole(answer: WholeAnswer): boolean {
    const { status, body } = answer;
    if (status < 200 || status >= 300 || body.length > this.#rules.recordBytes) return false;
    this.heldSize = body.length;
    this.#whole = answer;
    return true;
  }

  /** The events from one number up to another. @returns undefined where they were spilled to the store */
  held(from: number, end: number): string[] | undefined {
    return from >= this.heldFrom ? this.#held.slice(from - this.heldFrom, end - this.heldFrom) : undefined;
  }

  /** Reads events from the store; at least one. @throws ApiError */
  async spilled(from: number): Promise<string[]> {
    if (this.isUnstorable) throw tooLarge();
    const events = await storedEvents(this.#rows, this.#lease, from).catch((error) => {
      throw asUnavailable(error);
    });
    if (events.length === 0) throw interrupted();
    return events;
  }

  /** Moves the held events before that number to the store, or drops them if the answer is not stored. */
  spill(end: number): Promise<void> {
    this.#spilling ??= this.#spill(end).finally(() => {
      this.#spilling = undefined;
    });
    return this.#spilling;
  }

  /** Resolves when no spill is under way. */
  async spillsEnded(): Promise<void> {
    await this.#spilling;
  }

  /** Writes the end of the record; may be called again after a failure. */
  async save(): Promise<Saved> {
    try {
      const row = await (this.#whole === undefined ? this.streamRow() : this.#wholeRow(this.#whole));
      return (await this.#rows.finish(this.#lease, row)) ? "stored" : "lost";
    } catch (error) {
      if (error instanceof StorageError) return "pending";
      throw error;
    }
  }

  async streamRow(): Promise<FinishedCall> {
    const body = await packAside(joinEvents(this.#held));
    return {
      status: 200,
      headers: this.headers ?? "{}",
      events: this.heldFrom + this.#held.length,
      bodyFrom: this.heldFrom,
      body,
      bytes: this.#spilledBytes + body.byteLength,
      expiresAt: this.#rules.expiresAt(),
    };
  }

  async #wholeRow({ status, headers, body: content }: WholeAnswer): Promise<FinishedCall> {
    this.#packed ??= await packAside(content);
    const packed = this.#packed;
    const bytes = packed.byteLength;
    for (; (this.#pieces + 1) * pieceBytes < bytes; this.#pieces += 1) {
      const data = packed.subarray(this.#pieces * pieceBytes, (this.#pieces + 1) * pieceBytes);
      await this.#rows.append(this.#lease, null, { firstId: this.#pieces, data });
      await new Promise((resolve) => setImmediate(resolve));
    }
    const bodyFrom = this.#pieces === 0 ? null : this.#pieces;
    const body = packed.subarray(this.#pieces * pieceBytes);
    const expiresAt = this.#rules.expiresAt();
    return { status, headers: JSON.stringify(headers), events: null, bodyFrom, body, bytes, expiresAt };
  }

  async #spill(end: number): Promise<void> {
    const count = this.#unsure === 0 ? end - this.heldFrom : this.#unsure;
    if (count === 0) return;
    const events = this.#held.slice(0, count);
    const size = events.reduce((sum, event) => sum + event.length, 0);
    if (!this.isUnstorable && this.#spilledSize + size <= this.#rules.recordBytes) {
      const isStored = await this.#append(joinEvents(events));
      // Later, with what comes meanwhile, it may be.
      if (isStored === undefined && this.heldSize <= maxUnspilledBytes) {
        this.#unsure = count;
        return;
      }
      this.isUnstorable = isStored !== true;
      this.hasFailed = isStored === undefined;
    } else this.isUnstorable = true;
    this.#unsure = 0;
    this.#spilledSize += size;
    // More events may have been held meanwhile.
    this.heldFrom += count;
    this.#held = this.#held.slice(count);
    this.heldSize -= size;
  }

  /** @returns whether the lease still held; undefined when the store failed */
  async #append(text: string): Promise<boolean | undefined> {
    try {
      const data = await packAside(text);
      const isStored = await this.#rows.append(this.#lease, this.headers ?? null, { firstId: this.heldFrom, data });
      this.#spilledBytes += data.byteLength;
      if (!isStored) this.#onLost();
      return isStored;
    } catch (error) {
      if (error instanceof StorageError) return undefined;
      throw error;
    }
  }
}
