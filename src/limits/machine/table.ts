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
 * A table that is to be replaced or removed is frozen first: its head becomes negative, and a hit whose head can't be advanced is
 * repeated in the next table.
 *
 * Times are milliseconds modulo 2^32 (49 days); zero is no hit. A time more than a window's length in the future is an old one.
 */
import { windowMs } from "../limiter.ts";

/** In 32-bit words: the header's length, and the indexes of its numbers. */
const headerWords = 16;
const format = 0x54575331;
const formatAt = 0;
const capacityAt = 1;
const headAt = headerWords;
const hitsAt = headAt + 1;

const frozenBit = 0x8000_0000;
const headMask = 0x7fff_ffff;

/** The result of a hit: whether it was counted, and the head after it. */
export type Hit = { readonly allowed: boolean; readonly head: number };

/** A table for limits below this is one page of memory. */
const minCapacity = 512;

/** The capacity for a limit: a power of two above it. */
export function capacityFor(limit: number): number {
  let capacity = minCapacity;
  while (capacity <= limit) capacity *= 2;
  return capacity;
}

/** @param tick the time now modulo 2^32 */
function isWithin(time: number, tick: number): boolean {
  const age = (tick - time) | 0;
  return time !== 0 && age < windowMs && age > -windowMs;
}

export class WindowTable {
  readonly #words: Int32Array;
  readonly capacity: number;
  readonly #mask: number;
  /** The number of hits in the window at the latest look. */
  #found = 0;

  private constructor(words: Int32Array, capacity: number) {
    this.#words = words;
    this.capacity = capacity;
    this.#mask = capacity - 1;
  }

  /**
   * @param old a frozen one, whose hits are carried over
   * @returns the bytes of a new one
   */
  static make(capacity: number, now: number, old?: WindowTable): Uint8Array<ArrayBuffer> {
    const words = new Int32Array(hitsAt + capacity);
    words[formatAt] = format;
    words[capacityAt] = capacity;
    const count = old?.count(now) ?? 0;
    for (let hit = 0; hit < count; hit += 1) words[hitsAt + hit] = old!.#timeOf(old!.head - count + hit);
    words[headAt] = count;
    return new Uint8Array(words.buffer);
  }

  /** @returns undefined when these are no table's bytes */
  static of(bytes: Uint8Array): WindowTable | undefined {
    if (bytes.byteLength < headerWords * 4 || bytes.byteLength % 4 !== 0) return undefined;
    const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
    const capacity = words[capacityAt]!;
    const isWhole = words[formatAt] === format && isPower(capacity) && hitsAt + capacity === words.length;
    return isWhole ? new WindowTable(words, capacity) : undefined;
  }

  /** True where it counts no more hits. */
  get isFrozen(): boolean {
    return this.#rawHead() < 0;
  }

  /**
   * Counts a hit if there is room.
   * @param limit below the capacity
   * @param now in milliseconds, here and below
   * @returns undefined when it is frozen, or damaged: no hit was counted
   */
  hit(limit: number, now: number): Hit | undefined {
    const words = this.#words;
    const tick = Math.floor(now) | 0;
    for (let passes = 0; passes <= this.capacity; passes += 1) {
      const head = this.#rawHead();
      if (head < 0) return undefined;
      const place = hitsAt + (head & this.#mask);
      const found = Atomics.load(words, place);
      if (isWithin(found, tick)) this.#advanceHead(head);
      else if (isWithin(this.#timeOf(head - limit), tick)) {
        // If the head has moved meanwhile, that may be a newer hit.
        if (this.#rawHead() === head) return { allowed: false, head };
      } else if (Atomics.compareExchange(words, place, found, this.#timeAfter(head - 1, now)) === found) {
        return this.#advanceHead(head) ? { allowed: true, head: (head + 1) & headMask } : undefined;
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

  /** @returns how many hits before `head` are in the window */
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

  /** @returns the hit's time on the scale of `now` */
  timeOf(hit: number, now: number): number {
    const whole = Math.floor(now);
    return whole - ((whole - this.#timeOf(hit)) | 0);
  }

  /** The number of the next hit. */
  get head(): number {
    return this.#rawHead() & headMask;
  }

  /** Checks that it has had no hit for so long. */
  isIdleFor(ms: number, now: number): boolean {
    const time = this.#timeOf(this.head - 1);
    const age = (Math.floor(now) - time) | 0;
    return time === 0 || age <= -windowMs || age >= ms;
  }

  /** @param head freezes only where no hit was counted since; absent: always. @returns whether it is frozen now */
  freeze(head?: number): boolean {
    if (head === undefined) Atomics.or(this.#words, headAt, frozenBit | 0);
    else Atomics.compareExchange(this.#words, headAt, head, head | frozenBit);
    return this.isFrozen;
  }

  /** Negative: frozen. */
  #rawHead(): number {
    return Atomics.load(this.#words, headAt);
  }

  /** @returns whether the head is past that hit, whichever process advanced it; false where it was frozen before */
  #advanceHead(head: number): boolean {
    const found = Atomics.compareExchange(this.#words, headAt, head, (head + 1) & headMask);
    return found >= 0 || (found & headMask) !== head;
  }

  #timeOf(hit: number): number {
    return Atomics.load(this.#words, hitsAt + (hit & this.#mask));
  }
}

const isPower = (number: number): boolean => number > 0 && (number & (number - 1)) === 0;
