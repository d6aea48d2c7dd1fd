/** Where the outer lists and objects of a JSON text end, noted on the way through it: who looks for their parts later need not read on to find out. */

/** The depth of a conversation's contents: a body, its list of turns, a turn, the list of its parts. */
const maxDepth = 4;
/** What is beyond is looked for in the text. */
const maxNoted = 16 * 1024;

export class Outline {
  /** Offsets, in the order of the text. */
  readonly #starts: number[] = [];
  /** Offsets behind them; of what is not closed yet, 0. */
  readonly #ends: number[] = [];
  /** The last one of each depth. */
  readonly #last: number[] = [];

  /** @param depth 1 for the outermost one */
  open(depth: number, start: number): void {
    if (depth > maxDepth || this.#starts.length >= maxNoted) return;
    this.#last[depth] = this.#starts.push(start) - 1;
    this.#ends.push(0);
  }

  /** @param end behind the closing bracket */
  close(depth: number, end: number): void {
    const last = this.#last[depth];
    if (last !== undefined && this.#ends[last] === 0) this.#ends[last] = end;
  }

  /** @returns where what begins at `start` ends; undefined where that was not noted */
  endOf(start: number): number | undefined {
    const starts = this.#starts;
    let low = 0;
    for (let high = starts.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (starts[middle]! < start) low = middle + 1;
      else high = middle;
    }
    return starts[low] === start ? this.#ends[low] || undefined : undefined;
  }
}
