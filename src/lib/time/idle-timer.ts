/** An idle timeout: calls back whenever nothing has happened for a time. */
import type { Clock } from "./clock.ts";

/** One timer, set again only when it is due, so that an event costs no more than a clock reading. */
export class IdleTimer {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #onIdle: () => void;
  #lastEventAt = 0;
  #cancelTimer: (() => void) | undefined;

  /** @param ms the timeout; 0: none */
  constructor(clock: Clock, ms: number, onIdle: () => void) {
    this.#clock = clock;
    this.#ms = ms;
    this.#onIdle = onIdle;
  }

  start(): void {
    if (this.#ms === 0 || this.#cancelTimer !== undefined) return;
    this.#lastEventAt = this.#clock.monotonic();
    this.#setTimer(this.#ms);
  }

  stop(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  /** Restarts the timeout. */
  touch(): void {
    if (this.#cancelTimer !== undefined) this.#lastEventAt = this.#clock.monotonic();
  }

  #setTimer(ms: number): void {
    this.#cancelTimer = this.#clock.setTimer(ms, () => {
      const left = this.#lastEventAt + this.#ms - this.#clock.monotonic();
      this.#setTimer(left > 1 ? left : this.#ms);
      if (left > 1) return;
      this.touch();
      this.#onIdle();
    });
  }
}
