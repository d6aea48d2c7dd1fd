/**
 * Exact sliding windows in a memory-mapped file that several processes share, without a lock.
 *
 * Hits of a window are numbered. The time of hit `n` is at index `n` modulo the capacity, which is greater than the limit, and
 * the window's head is the number of the next hit. A process that wants hit `n` checks that hit `n - limit` has left the window,
 * and then replaces the older time at `n`'s index by the time now with compare-and-exchange: of several processes one succeeds.
 * An index never gets the same time twice, so a late process can't succeed by mistake. Then the head is advanced; if the process
 * is killed before that, the next one finds a recent time where an old one should be, and advances the head itself.
 * So hit `n` is always at least a window's length after hit `n - limit`.
 *
 * A table that is to be replaced or removed is frozen first: its heads become negative, and a hit whose head can't be advanced
 * is repeated in the next table.
 *
 * The table of client addresses is bounded, as a set-associative cache: a caller's hash selects a set of four windows, and a new
 * caller gets the window of the set that was idle for longest, with the hits that are still in it. So each window, whoever has
 * it, allows no more than the limit in any 60 s.
 *
 * Times are milliseconds modulo 2^32 (49 days); zero is no hit. A time more than a window's length in the future is an old one.
 */

/** The length of every window. */
export const windowMs = 60_000;

/** In 32-bit words: the header's length, and the indexes of its numbers. */
const headerWords = 16;
const format = 0x54575331;
const formatAt = 0;
const capacityAt = 1;
const setsAt = 2;
const seedAt = 3;

/** Windows of a set: their callers' fingerprints, 16 bits each, are one number of 64 bits, exchanged at once. */
const ways = 4;
const fingerprintBits = 16;

const frozenBit = 0x8000_0000;
const headMask = 0x7fff_ffff;

/** How many windows there are and how many hits each can hold, both powers of two. */
export type TableShape = {
  /** Of four windows each; 0: one window alone. */
  readonly sets: number;
  /** Greater than the limit. */
  readonly capacity: number;
};

/** Whether a hit was counted, and the head after it. */
export type Hit = { readonly allowed: boolean; readonly head: number };

/** The next power of two above the limit. @param atLeast one too */
export function capacityFor(limit: number, atLeast: number): number {
  let capacity = atLeast;
  while (capacity <= limit) capacity *= 2;
  return capacity;
}

const windowsOf = ({ sets }: TableShape): number => (sets === 0 ? 1 : sets * ways);
/** Where the heads begin, and after them the hits. */
const headsOf = ({ sets }: TableShape): number => headerWords + sets * 2;
const wordsOf = (shape: TableShape): number => headsOf(shape) + windowsOf(shape) * (1 + shape.capacity);

/** @param time milliseconds of any size */
const wrapped = (time: number): number => time | 0;

/** @param tick the time now, wrapped */
function isWithin(time: number, tick: number): boolean {
  const age = (tick - time) | 0;
  return time !== 0 && age < windowMs && age > -windowMs;
}

export class WindowTable {
  readonly #words: Int32Array;
  readonly #fingerprints: Uint16Array;
  readonly #sets: BigInt64Array;
  readonly shape: TableShape;
  readonly #heads: number;
  readonly #hits: number;
  readonly #mask: number;
  readonly #seed: number;

  private constructor(words: Int32Array, shape: TableShape) {
    const { buffer, byteOffset } = words;
    const setsOffset = byteOffset + headerWords * 4;
    this.#words = words;
    this.shape = shape;
    this.#fingerprints = new Uint16Array(buffer, setsOffset, shape.sets * ways);
    this.#sets = new BigInt64Array(buffer, setsOffset, shape.sets);
    this.#heads = headsOf(shape);
    this.#hits = this.#heads + windowsOf(shape);
    this.#mask = shape.capacity - 1;
    this.#seed = words[seedAt]! >>> 0;
  }

  /**
   * @param old a frozen one of no fewer sets, whose hits are carried over; those of the longest idle where there is no room
   * @returns the bytes of a new one
   */
  static make(shape: TableShape, now: number, old?: WindowTable): Uint8Array<ArrayBuffer> {
    const words = new Int32Array(wordsOf(shape));
    words[formatAt] = format;
    words[capacityAt] = shape.capacity;
    words[setsAt] = shape.sets;
    words[seedAt] = old === undefined ? crypto.getRandomValues(new Int32Array(1))[0]! : old.#seed;
    if (old !== undefined) new WindowTable(words, shape).#carry(old, now);
    return new Uint8Array(words.buffer);
  }

  /** @returns undefined when these are no table's bytes */
  static of(bytes: Uint8Array): WindowTable | undefined {
    if (bytes.byteLength < headerWords * 4 || bytes.byteLength % 4 !== 0) return undefined;
    const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
    const shape = { sets: words[setsAt]!, capacity: words[capacityAt]! };
    const isWhole = words[formatAt] === format && isPower(shape.capacity) && (shape.sets === 0 || isPower(shape.sets));
    return isWhole && wordsOf(shape) === words.length ? new WindowTable(words, shape) : undefined;
  }

  /** Whether it counts no more hits. */
  get isFrozen(): boolean {
    return this.#head(0) < 0;
  }

  /**
   * The caller's window.
   * @param now in milliseconds, here and below
   * @param claims whether a caller without a window gets one; otherwise the result may be undefined
   */
  windowOf(caller: string, now: number, claims: true): number;
  windowOf(caller: string, now: number, claims: boolean): number | undefined;
  windowOf(caller: string, now: number, claims: boolean): number | undefined {
    const { sets } = this.shape;
    if (sets === 0) return 0;
    const hash = Bun.hash.xxHash32(caller, this.#seed);
    const set = hash & (sets - 1);
    // Zero is a free window.
    const fingerprint = hash >>> fingerprintBits || 1;
    for (;;) {
      const before = Atomics.load(this.#sets, set);
      const way = this.#wayOf(set, fingerprint);
      if (way >= 0) return set * ways + way;
      if (!claims) return undefined;
      this.#claim(set, before, fingerprint, wrapped(Math.floor(now)));
    }
  }

  #wayOf(set: number, fingerprint: number): number {
    for (let way = 0; way < ways; way += 1) if (this.#fingerprints[set * ways + way] === fingerprint) return way;
    return -1;
  }

  /** @param before the set's fingerprints, without the new caller's */
  #claim(set: number, before: bigint, fingerprint: number, tick: number): void {
    let way = 0;
    for (let other = 1; other < ways; other += 1) {
      if (this.#idleMs(set * ways + other, tick) > this.#idleMs(set * ways + way, tick)) way = other;
    }
    const shift = BigInt(way * fingerprintBits);
    const after = (before & ~(0xffffn << shift)) | (BigInt(fingerprint) << shift);
    Atomics.compareExchange(this.#sets, set, before, BigInt.asIntN(64, after));
  }

  /** Milliseconds since the window's latest hit. */
  #idleMs(window: number, tick: number): number {
    const time = this.#timeOf(window, this.#head(window) - 1);
    const age = (tick - time) | 0;
    return time === 0 || age <= -windowMs ? Number.POSITIVE_INFINITY : age;
  }

  /**
   * Counts a hit if there is room.
   * @param limit below the capacity
   * @returns undefined when the window is frozen, or damaged: no hit was counted
   */
  hit(window: number, limit: number, now: number): Hit | undefined {
    const words = this.#words;
    const tick = wrapped(Math.floor(now));
    const base = this.#hits + window * this.shape.capacity;
    for (let passes = 0; passes <= this.shape.capacity; passes += 1) {
      const head = this.#head(window);
      if (head < 0) return undefined;
      const place = base + (head & this.#mask);
      const found = Atomics.load(words, place);
      if (isWithin(found, tick)) this.#advanceHead(window, head);
      else if (isWithin(this.#timeOf(window, head - limit), tick)) {
        // If the head has moved meanwhile, that may be a newer hit.
        if (this.#head(window) === head) return { allowed: false, head };
      } else if (Atomics.compareExchange(words, place, found, this.#timeAfter(window, head - 1, now)) === found) {
        return this.#advanceHead(window, head) ? { allowed: true, head: (head + 1) & headMask } : undefined;
      }
    }
    return undefined;
  }

  /** The time for a hit now: never before the previous hit's, and never zero. */
  #timeAfter(window: number, hit: number, now: number): number {
    const tick = wrapped(Math.ceil(now));
    const previous = this.#timeOf(window, hit);
    return (isWithin(previous, tick) && ((tick - previous) | 0) < 0 ? previous : tick) || 1;
  }

  /** @returns how many hits before `head` are in the window */
  count(window: number, now: number, head = this.head(window)): number {
    const tick = wrapped(Math.floor(now));
    for (;;) {
      const count = this.#search(window, tick, head, this.#intactBefore(window, head));
      // Hits that were counted during the search must not be among them.
      if (count <= this.#intactBefore(window, head)) return count;
    }
  }

  /** How many indexes before `head` no later hit can have overwritten. */
  #intactBefore(window: number, head: number): number {
    return Math.max(0, this.#mask - ((this.head(window) - head) & headMask));
  }

  #search(window: number, tick: number, head: number, max: number): number {
    let [low, high] = [0, max];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (isWithin(this.#timeOf(window, head - middle), tick)) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** @returns the hit's time on the scale of `now` */
  timeOf(window: number, hit: number, now: number): number {
    const whole = Math.floor(now);
    return whole - ((wrapped(whole) - this.#timeOf(window, hit)) | 0);
  }

  /** The number of the next hit. */
  head(window: number): number {
    return this.#head(window) & headMask;
  }

  /** Whether no window has had a hit for so long. */
  isIdleFor(ms: number, now: number): boolean {
    const tick = wrapped(Math.floor(now));
    for (let window = 0; window < windowsOf(this.shape); window += 1) {
      if (this.#idleMs(window, tick) < ms) return false;
    }
    return true;
  }

  /** @param head freezes only where no hit was counted since; absent: always. @returns whether it is frozen now */
  freeze(head?: number): boolean {
    for (let window = 0; window < windowsOf(this.shape); window += 1) {
      if (head === undefined) Atomics.or(this.#words, this.#heads + window, frozenBit | 0);
      else Atomics.compareExchange(this.#words, this.#heads + window, head, head | frozenBit);
    }
    return this.isFrozen;
  }

  #carry(from: WindowTable, now: number): void {
    const tick = wrapped(Math.floor(now));
    const { sets } = this.shape;
    const live = Array.from({ length: windowsOf(from.shape) }, (_, window) => window)
      .filter((window) => from.count(window, now) > 0)
      .sort((one, other) => from.#idleMs(one, tick) - from.#idleMs(other, tick));
    for (const window of live) {
      const set = (window >> 2) & (sets - 1);
      const way = sets === 0 ? 0 : this.#wayOf(set, 0);
      if (way < 0) continue;
      if (sets > 0) this.#fingerprints[set * ways + way] = from.#fingerprints[window]!;
      this.#copy(from, window, set * ways + way, from.count(window, now));
    }
  }

  #copy(from: WindowTable, window: number, to: number, count: number): void {
    const first = from.head(window) - count;
    for (let hit = 0; hit < count; hit += 1) {
      this.#words[this.#hits + to * this.shape.capacity + hit] = from.#timeOf(window, first + hit);
    }
    this.#words[this.#heads + to] = count;
  }

  /** Negative: frozen. */
  #head(window: number): number {
    return Atomics.load(this.#words, this.#heads + window);
  }

  /** @returns whether the head is past that hit, whichever process advanced it; false where the window was frozen before */
  #advanceHead(window: number, head: number): boolean {
    const found = Atomics.compareExchange(this.#words, this.#heads + window, head, (head + 1) & headMask);
    return found >= 0 || (found & headMask) !== head;
  }

  #timeOf(window: number, hit: number): number {
    return Atomics.load(this.#words, this.#hits + window * this.shape.capacity + (hit & this.#mask));
  }
}

const isPower = (number: number): boolean => number > 0 && (number & (number - 1)) === 0;
