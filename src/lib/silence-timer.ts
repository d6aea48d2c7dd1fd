/** A deadline for silence: calls back whenever nothing was heard for a time. */
import type { Clock } from "./clock.ts";

/** One timer, set anew only when it falls due: what is heard costs a clock reading and no more. */
export class SilenceTimer {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #onSilence: () => void;
  #heardAt: number;
  #cancelTimer: (() => void) | undefined;

  /** @param ms how long silence may last; 0 for any time */
  constructor(clock: Clock, ms: number, onSilence: () => void) {
    this.#clock = clock;
    this.#ms = ms;
    this.#onSilence = onSilence;
    this.#heardAt = clock.monotonic();
  }

  start(): void {
    if (this.#ms > 0 && this.#cancelTimer === undefined) this.#setTimer(this.#ms);
  }

  stop(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  /** The silence begins anew. */
  heard(): void {
    this.#heardAt = this.#clock.monotonic();
  }

  #setTimer(ms: number): void {
    this.#cancelTimer = this.#clock.setTimer(ms, () => {
      const left = this.#heardAt + this.#ms - this.#clock.monotonic();
      this.#setTimer(left > 1 ? left : this.#ms);
      if (left > 1) return;
      this.heard();
      this.#onSilence();
    });
  }
}
