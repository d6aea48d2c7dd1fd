/** Lets one thing through in a minute: a message that would else come with each call. */
import type { Clock } from "./clock.ts";

const intervalMs = 60_000;

export class OnceAMinute {
  readonly #clock: Pick<Clock, "monotonic">;
  #nextAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** @returns whether it is the first in a minute; the next one is not before the minute is over */
  takes(): boolean {
    const now = this.#clock.monotonic();
    if (now < this.#nextAt) return false;
    this.#nextAt = now + intervalMs;
    return true;
  }
}
