/** What the two forms of a window in a mapped file have in common: a head that processes move by compare-and-exchange, and that freezes. */

/** In 32-bit words: the header's length, behind which the head stands. */
const headerWords = 16;
export const headAt = headerWords;
export const headMask = 0x7fff_ffff;
const frozenBit = 0x8000_0000;

/** The result of a hit: whether it was counted, the head after it, and when that was. */
export type Hit = { readonly allowed: boolean; readonly head: number; readonly now: number };

/** Times are in milliseconds. Hits are numbered. */
export interface HitTable {
  /** By how much a hit counts for longer than the window, at most. */
  readonly coarseMs: number;
  /** The largest limit that it has room for. */
  readonly most: number;
  /**
   * Counts a hit if there is room.
   * @param limit up to `most`. @param clock may be read again
   * @returns undefined when it is frozen, or damaged: no hit was counted
   */
  hit(limit: number, clock: () => number): Hit | undefined;
  /** @returns how many hits before `head` are in the window */
  count(now: number, head?: number): number;
  /** @returns as of when a hit in the window counts, on the scale of `now` */
  timeOf(hit: number, now: number): number;
  /** Those in the window, the oldest first. */
  times(now: number): Iterable<readonly [time: number, hits: number]>;
  /** The number of the next hit. */
  readonly head: number;
  readonly isFrozen: boolean;
  /** @param head freezes only where no hit was counted since; absent: always. @returns whether it is frozen now */
  freeze(head?: number): boolean;
  /** Checks that it has had no hit for so long. */
  isIdleFor(ms: number, now: number): boolean;
}

/**
 * A table that is to be replaced or removed is frozen first: its head becomes negative, and a hit whose head can't be advanced is
 * repeated in the next table.
 */
export class MappedHead {
  protected readonly words: Int32Array;

  constructor(words: Int32Array) {
    this.words = words;
  }

  /** True where it counts no more hits. */
  get isFrozen(): boolean {
    return Atomics.load(this.words, headAt) < 0;
  }

  get head(): number {
    return Atomics.load(this.words, headAt) & headMask;
  }

  freeze(head?: number): boolean {
    if (head === undefined) Atomics.or(this.words, headAt, frozenBit | 0);
    else Atomics.compareExchange(this.words, headAt, head, head | frozenBit);
    return this.isFrozen;
  }
}
