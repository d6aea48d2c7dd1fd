/** The limiter as it is used: windows in shared files, and what holds while those can't be had. */
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import { type Limiter, RateLimiter, type Verdict } from "./rate-limiter.ts";

export type FallbackOptions = {
  readonly clock: Clock;
  readonly log: Logger;
  /** Among how many processes a limit is divided while the shared windows can't be used. */
  readonly processes: number;
};

const maxOwn = 20_000;
const complainEveryMs = 60_000;

export class LimiterWithFallback implements Limiter {
  readonly #shared: () => Limiter;
  readonly #own: RateLimiter;
  readonly #options: FallbackOptions;
  #silentUntil = Number.NEGATIVE_INFINITY;

  /** @param shared opens the shared windows, or has them open; its errors and theirs are not the caller's business */
  constructor(shared: () => Limiter, options: FallbackOptions) {
    this.#shared = shared;
    this.#own = new RateLimiter(options.clock, maxOwn);
    this.#options = options;
  }

  take(who: string, perMinute: number): Verdict {
    try {
      return this.#shared().take(who, perMinute);
    } catch (error) {
      this.#complain(error);
      return this.#own.take(who, this.#share(perMinute));
    }
  }

  peek(who: string, perMinute: number): Verdict {
    try {
      return this.#shared().peek(who, perMinute);
    } catch (error) {
      this.#complain(error);
      return this.#own.peek(who, this.#share(perMinute));
    }
  }

  /** Never more in all than the limit, and at least one for each. */
  #share(perMinute: number): number {
    return Math.max(1, Math.floor(perMinute / this.#options.processes));
  }

  #complain(error: unknown): void {
    const { clock, log } = this.#options;
    const now = clock.monotonic();
    if (now < this.#silentUntil) return;
    this.#silentUntil = now + complainEveryMs;
    log.error("the files of the rate limits can't be used; for now the limits are counted in memory", { error });
  }
}
