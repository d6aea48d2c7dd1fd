/** Where the large strings of a text begin and end, in its order. Two numbers each: an object each takes some six times as much. */
export class LargeRanges {
  readonly #bounds: number[] = [];
  /** Indexes of those that nobody saw to hold what a string of JSON may. */
  readonly unseen: number[] = [];
  /** Bytes of all of them. */
  bytes = 0;

  get length(): number {
    return this.#bounds.length / 2;
  }

  push(start: number, end: number, isContent: boolean): void {
    if (!isContent) this.unseen.push(this.length);
    this.#bounds.push(start, end);
    this.bytes += end - start;
  }

  /** Takes the last one back. */
  pop(): void {
    const end = this.#bounds.pop()!;
    this.bytes -= end - this.#bounds.pop()!;
    if (this.unseen.at(-1) === this.length) this.unseen.pop();
  }

  /** Starts and ends by turns. */
  bounds(): Float64Array {
    return Float64Array.from(this.#bounds);
  }
}
