/**
 * A sliding window of many requests in a memory-mapped file that several processes share, without a lock. What it takes does not grow with
 * the limit: hits are numbered and not kept one by one, but by the part of a window in which they came, and count until its end has left
 * the window. So in any 60 s there are never more than the limit, and a hit counts for 120 ms longer at most.
 *
 * The head is the number of the next hit. Each part with hits has a cell: which part, and the head as it began, set by the first hit in it
 * and never changed. So the hits in a window are the head less what the oldest cell in it has. A process reads the head, then the
 * clock, sets the part's cell where it has none, and advances the head by compare-and-exchange: a hit that is number n came after all that
 * cells count as before it, and one that comes late counts in a later part. A process that is killed in between has counted nothing.
 *
 * Parts are numbered modulo 2^32 (16 years).
 */
import { windowMs } from "../limiter.ts";
import { type Hit, type HitTable, headAt, headMask, MappedHead } from "./hit-table.ts";

const format = 0x54575332;
const formatAt = 0;
/** Parts, and cells for them: a power of two above the parts in a window. */
const partMs = 120;
const windowParts = windowMs / partMs;
const cellCount = 512;
/** Where cells begin, in bytes: each is one number of 64 bits. */
const cellsFrom = 72;
const bytesOf = cellsFrom + cellCount * 8;

const partOf = (time: number): number => Math.floor(time / partMs);
const cellOf = (part: number, head: number): bigint => (BigInt(part >>> 0) << 32n) | BigInt(head);
const isOf = (cell: bigint, part: number): boolean =>
  BigInt.asUintN(32, cell >> 32n) === BigInt(part >>> 0) && cell !== 0n;
const startIn = (cell: bigint): number => Number(cell & 0x7fff_ffffn);

export class PartTable extends MappedHead implements HitTable {
  readonly #cells: BigInt64Array;
  /** The latest part whose cell is known to be set, and what the oldest part in its window has. */
  #part = Number.NaN;
  #oldest = Number.NEGATIVE_INFINITY;
  #start = 0;

  private constructor(words: Int32Array, cells: BigInt64Array) {
    super(words);
    this.#cells = cells;
  }

  /** @param old a frozen one, whose hits are carried over. @returns the bytes of a new one */
  static make(now: number, old?: HitTable): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(bytesOf);
    const words = new Int32Array(bytes.buffer, 0, cellsFrom / 4);
    const cells = new BigInt64Array(bytes.buffer, cellsFrom);
    words[formatAt] = format;
    let head = 0;
    for (const [time, hits] of old?.times(now) ?? []) {
      const part = partOf(time);
      if (!isOf(cells[part & (cellCount - 1)]!, part)) cells[part & (cellCount - 1)] = cellOf(part, head);
      head += hits;
    }
    words[headAt] = head & headMask;
    return bytes;
  }

  /** @returns undefined when these are no table's bytes */
  static of(bytes: Uint8Array): PartTable | undefined {
    if (bytes.byteLength !== bytesOf) return undefined;
    const words = new Int32Array(bytes.buffer, bytes.byteOffset, cellsFrom / 4);
    if (words[formatAt] !== format) return undefined;
    return new PartTable(words, new BigInt64Array(bytes.buffer, bytes.byteOffset + cellsFrom, cellCount));
  }

  readonly coarseMs = partMs;

  readonly most = Number.POSITIVE_INFINITY;

  hit(limit: number, clock: () => number): Hit | undefined {
    for (;;) {
      const head = Atomics.load(this.words, headAt);
      // Frozen.
      if (head < 0) return undefined;
      const now = clock();
      if (!this.#enter(partOf(now), head)) continue;
      if (((head - this.#start) & headMask) >= limit) return { allowed: false, head, now };
      // One that fails was another's hit.
      const next = (head + 1) & headMask;
      if (Atomics.compareExchange(this.words, headAt, head, next) === head) return { allowed: true, head: next, now };
    }
  }

  /** Sets the part's cell where it has none. @returns false where the part is long over, as this process stood still */
  #enter(part: number, head: number): boolean {
    if (part === this.#part) return true;
    const at = part & (cellCount - 1);
    const found = Atomics.load(this.#cells, at);
    if (!isOf(found, part)) {
      Atomics.compareExchange(this.#cells, at, found, BigInt.asIntN(64, cellOf(part, head)));
      if (!isOf(Atomics.load(this.#cells, at), part)) return false;
    }
    this.#oldest = this.#oldestIn(part);
    this.#start = this.#startOf(this.#oldest, head);
    this.#part = part;
    return true;
  }

  /** The first part with hits of the window that ends in a part; behind it where there is none. Each part is looked at once, as a rule. */
  #oldestIn(part: number): number {
    let oldest = part - windowParts;
    if (this.#part <= part && this.#oldest > oldest) oldest = this.#oldest;
    while (oldest <= part && !isOf(this.#cell(oldest), oldest)) oldest += 1;
    return oldest;
  }

  #cell(part: number): bigint {
    return Atomics.load(this.#cells, part & (cellCount - 1));
  }

  #startOf(part: number, head: number): number {
    const cell = this.#cell(part);
    return isOf(cell, part) ? startIn(cell) : head;
  }

  count(now: number, head = this.head): number {
    const part = partOf(now);
    const start = part === this.#part ? this.#start : this.#startOf(this.#oldestIn(part), head);
    return (head - start) & headMask;
  }

  /** The end of the part in which it came, as none before that leaves the window. */
  timeOf(hit: number, now: number): number {
    const last = partOf(now);
    const isKnown = last === this.#part;
    let found = isKnown ? this.#oldest : this.#oldestIn(last);
    const first = isKnown ? this.#start : this.#startOf(found, hit);
    if (hit === first) return (found + 1) * partMs;
    for (let part = found + 1; part <= last; part += 1) {
      const cell = this.#cell(part);
      if (!isOf(cell, part)) continue;
      if (((startIn(cell) - first) & headMask) > ((hit - first) & headMask)) break;
      found = part;
    }
    return (found + 1) * partMs;
  }

  *times(now: number): Iterable<readonly [time: number, hits: number]> {
    const last = partOf(now);
    let left = this.count(now);
    let end = this.head;
    const parts: [number, number][] = [];
    for (let part = last; part >= last - windowParts && left > 0; part -= 1) {
      const cell = this.#cell(part);
      if (!isOf(cell, part)) continue;
      const hits = (end - startIn(cell)) & headMask;
      parts.unshift([part * partMs, hits]);
      end = startIn(cell);
      left -= hits;
    }
    yield* parts;
  }

  isIdleFor(ms: number, now: number): boolean {
    const part = partOf(now) >>> 0;
    return this.#cells.every((cell) => {
      const age = (part - Number(BigInt.asUintN(32, cell >> 32n))) >>> 0;
      return cell === 0n || age * partMs >= ms;
    });
  }
}
