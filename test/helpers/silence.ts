import { type Clock, systemClock } from "../../src/lib/time/clock.ts";

/**
 * An upstream's silence before its first byte. How long it may last passes once the upstream is silent, and never by itself: so no answer is too
 * late because the machine has other work.
 */
export class Silence {
  readonly timeouts = { connectSeconds: 5, firstByteSeconds: 77, idleSeconds: 5 };
  readonly clock: Clock;
  readonly #timers = new Set<() => void>();

  /** @param base the clock of all other timers, and of the time */
  constructor(base: Clock = systemClock) {
    const ms = this.timeouts.firstByteSeconds * 1000;
    const setTimer = (given: number, run: () => void) => {
      if (given !== ms) return base.setTimer(given, run);
      this.#timers.add(run);
      return () => this.#timers.delete(run);
    };
    this.clock = { ...base, setTimer };
  }

  /** An answer that never comes. */
  readonly answer = (): Promise<Response> => {
    setImmediate(() => {
      for (const run of [...this.#timers]) run();
    });
    return new Promise(() => {});
  };
}
