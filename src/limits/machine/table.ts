/**
 * An exact sliding window in a memory-mapped file that several processes share, without a lock.
 *
 * Hits are numbered. The time of hit `n` is at index `n` modulo the capacity, which is greater than the limit, and the head is the
 * number of the next hit. A process that wants hit `n` checks that hit `n - limit` has left the window, and then replaces the older
 * time at `n`'s index by the time now with compare-and-exchange: of several processes one succeeds. An index never gets the same time
 * twice, so a late process can't succeed by mistake. Then the head is advanced; if the process is killed before that, the next one
 * finds a recent time where an old one should be, and advances the head itself.
 * So hit `n` is always at least a window's length after hit `n - limit`.
 *
 * Times are milliseconds modulo 2^32 (49 days); zero is no hit. A time more than a window's length in the future is an old one.
 */
import { windowMs } from "../limiter.ts";
import { type Hit, type HitTable, headAt, headMask, MappedHead } from "./hit-table.ts";

const format = 0x54575331;
const formatAt = 0;
const capacityAt = 1;
const hitsAt = headAt + 1;

/** A table for limits below this is one page of memory. */
const minCapacity = 512;
/** Beyond it hits are not kept one by one. */
const maxCapacity = 1024;

/** @param tick the time now modulo 2^32 */
function isWithin(time: number, tick: number): boolean {
  const age = (tick - time) | 0;
  return time !== 0 && age < windowMs && age > -windowMs;
}

/** Hits one by one. */
export class WindowTable extends MappedHead implements HitTable {
  readonly #capacity: number;
  readonly #mask: number;
  /** The number of hits in the window at the latest look. */
  #found = 0;

  private constructor(words: Int32Array, capacity: number) {
    super(words);
    this.#capacity = capacity;
    this.most = this.isSmall ? capacity - 1 : 0;
    this.#mask = capacity - 1;
  }

  /**
   * @param limit that `takes`
   * @param old a frozen one, whose hits are carried over
   * @returns the bytes of a new one
   */
  static make(limit: number, now: number, old?: WindowTable): Uint8Array<ArrayBuffer> {
    const capacity = Math.max(limit < minCapacity ? minCapacity : maxCapacity, old === undefined ? 0 : old.#capacity);
    const words = new Int32Array(hitsAt + capacity);
    words[formatAt] = format;
    words[capacityAt] = capacity;
    const count = old?.count(now) ?? 0;
    for (let hit = 0; hit < count; hit += 1) words[hitsAt + hit] = old!.#timeOf(old!.head - count + hit);
    words[headAt] = count;
    return new Uint8Array(words.buffer);
  }

  /** Checks whether hits of that limit are kept one by one. */
  static takes(limit: number): boolean {
    return limit < maxCapacity;
  }

  /** @returns undefined when these are no table's bytes */
  static of(bytes: Uint8Array): WindowTable | undefined {
    if (bytes.byteLength < hitsAt * 4 || bytes.byteLength % 4 !== 0) return undefined;
    const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
    const capacity = words[capacityAt]!;
    const isWhole = words[formatAt] === format && isPower(capacity) && hitsAt + capacity === words.length;
    return isWhole ? new WindowTable(words, capacity) : undefined;
  }

  /** Times are whole milliseconds. */
  readonly coarseMs = 0;

  /** False of those that earlier builds made for large limits. */
  get isSmall(): boolean {
    return this.#capacity <= maxCapacity;
  }

  readonly most: number;

  hit(limit: number, clock: () => number): Hit | undefined {
    const { words } = this;
    const now = clock();
    const tick = Math.floor(now) | 0;
    for (let passes = 0; passes <= this.#capacity; passes += 1) {
      const head = Atomics.load(words, headAt);
      // Frozen.
      if (head < 0) return undefined;
      const place = hitsAt + (head & this.#mask);
      const found = Atomics.load(words, place);
      if (isWithin(found, tick)) this.#advanceHead(head);
      else if (isWithin(this.#timeOf(head - limit), tick)) {
        // If the head has moved meanwhile, that may be a newer hit.
        if (Atomics.load(words, headAt) === head) return { allowed: false, head, now };
      } else if (Atomics.compareExchange(words, place, found, this.#timeAfter(head - 1, now)) === found) {
        return this.#advanceHead(head) ? { allowed: true, head: (head + 1) & headMask, now } : undefined;
      }
    }
    return undefined;
  }

  /** The time for a hit now: never before the previous hit's, and never zero. */
  #timeAfter(hit: number, now: number): number {
    const tick = Math.ceil(now) | 0;
    const previous = this.#timeOf(hit);
    return (isWithin(previous, tick) && ((tick - previous) | 0) < 0 ? previous : tick) || 1;
  }

  count(now: number, head = this.head): number {
    const tick = Math.floor(now) | 0;
    for (;;) {
      const count = this.#search(tick, head, this.#intactBefore(head));
      // Hits that were counted during the search must not be among them.
      if (count <= this.#intactBefore(head)) return count;
    }
  }

  /** The number of indexes before `head` that no later hit can have overwritten. */
  #intactBefore(head: number): number {
    return Math.max(0, this.#mask - ((this.head - head) & headMask));
  }

  #search(tick: number, head: number, max: number): number {
    // One more than before, as a rule: none has left the window since the hit before this one.
    const likely = Math.min(this.#found + 1, max);
    let low = isWithin(this.#timeOf(head - likely), tick) ? likely : 0;
    let high = low === 0 ? likely - 1 : max;
    if (low < high && low === likely && !isWithin(this.#timeOf(head - likely - 1), tick)) high = low;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (isWithin(this.#timeOf(head - middle), tick)) low = middle;
      else high = middle - 1;
    }
    this.#found = low;
    return low;
  }

  timeOf(hit: number, now: number): number {
    const whole = Math.floor(now);
    return whole - ((whole - this.#timeOf(hit)) | 0);
  }

  *times(now: number): Iterable<readonly [time: number, hits: number]> {
    const { head } = this;
    for (let hit = head - this.count(now, head); hit < head; hit += 1) yield [this.timeOf(hit, now), 1];
  }

  isIdleFor(ms: number, now: number): boolean {
    const time = this.#timeOf(this.head - 1);
    const age = (Math.floor(now) - time) | 0;
    return time === 0 || age <= -windowMs || age >= ms;
  }

  /** @returns whether the head is past that hit, whichever process advanced it; false where it was frozen before */
  #advanceHead(head: number): boolean {
    const found = Atomics.compareExchange(this.words, headAt, head, (head + 1) & headMask);
    return found >= 0 || (found & headMask) !== head;
  }

  #timeOf(hit: number): number {
    return Atomics.load(this.words, hitsAt + (hit & this.#mask));
  }
}

const isPower = (number: number): boolean => number > 0 && (number & (number - 1)) === 0;
