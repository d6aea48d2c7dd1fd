/** Samples a share of events, evenly spread. */
export class Sampler {
  #due = 0;

  /** @param share from 0, none, to 1, all */
  takes(share: number): boolean {
    this.#due += share;
    if (this.#due < 1) return false;
    this.#due -= 1;
    return true;
  }
}
