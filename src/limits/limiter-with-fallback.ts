/** The shared-memory limiter, and a limiter in memory for as long as its files can't be used. */
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import { OnceAMinute } from "../lib/once-a-minute.ts";
import { type Decision, type Limiter, MemoryLimiter } from "./limiter.ts";

type FallbackOptions = {
  readonly clock: Clock;
  readonly log: Logger;
  /** Among how many processes a limit is divided while the shared windows can't be used. */
  readonly processes: number;
};

const maxFallbackCallers = 20_000;

export class LimiterWithFallback implements Limiter {
  readonly #openShared: () => Limiter;
  readonly #fallback: MemoryLimiter;
  readonly #options: FallbackOptions;
  readonly #warnings: OnceAMinute;

  /** @param openShared returns the shared limiter, opened where needed; its errors are logged and lead to the fallback */
  constructor(openShared: () => Limiter, options: FallbackOptions) {
    this.#openShared = openShared;
    this.#fallback = new MemoryLimiter(options.clock, maxFallbackCallers);
    this.#options = options;
    this.#warnings = new OnceAMinute(options.clock);
  }

  hit(caller: string, perMinute: number): Decision {
    return this.#ask("hit", caller, perMinute);
  }

  peek(caller: string, perMinute: number): Decision {
    return this.#ask("peek", caller, perMinute);
  }

  #ask(method: "hit" | "peek", caller: string, perMinute: number): Decision {
    try {
      return this.#openShared()[method](caller, perMinute);
    } catch (error) {
      this.#warn(error);
      // The sum over all processes stays within the limit, but for each one's minimum of one.
      const share = Math.max(1, Math.floor(perMinute / this.#options.processes));
      return this.#fallback[method](caller, share);
    }
  }

  /** At most once a minute. */
  #warn(error: unknown): void {
    if (!this.#warnings.takes()) return;
    this.#options.log.error("the files of the rate limits can't be used; for now the limits are counted in memory", {
      error,
    });
  }
}
