/** Lets each thing through once: a message that would else come with each call. */

export class ToldOnce {
  readonly #most: number;
  readonly #told = new Set<string>();

  /** @param most things that are remembered; further ones are not let through */
  constructor(most: number) {
    this.#most = most;
  }

  /** @returns whether it is the first time */
  takes(thing: string): boolean {
    if (this.#told.has(thing) || this.#told.size >= this.#most) return false;
    this.#told.add(thing);
    return true;
  }
}
