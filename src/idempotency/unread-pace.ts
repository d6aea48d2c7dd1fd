/**
 * Limits the rate of streams without a reader. A reader applies back-pressure to its upstream; without one the upstream would
 * send at network speed and delay other requests. So all unread streams together read one batch in each turn of the event loop,
 * and `charactersPerWindow` in each window.
 */
import type { Clock } from "../lib/time/clock.ts";

/** 12 MB/s: a hundred times the rate of a model, at about a fifth of a core. */
const charactersPerWindow = 128 * 1024;
const windowMs = 10;
/** Minimum characters that a batch counts for; reserved before its size is known. */
const minCharacters = 256;

export class UnreadPace {
  readonly #clock: Clock;
  readonly #waiting: (() => void)[] = [];
  #left = charactersPerWindow;
  #isOpen = false;
  #isPumping = false;
  #isClosed = false;
  #cancelTimer = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when one more batch may be asked for. */
  turn(): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#pump();
    });
  }

  /** Charges the batch of a turn. @param characters of the batch */
  took(characters: number): void {
    this.#left -= Math.max(0, characters - minCharacters);
  }

  /** Resolves all waiting turns; later ones resolve at once. */
  close(): void {
    this.#isClosed = true;
    this.#cancelTimer();
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #pump(): void {
    if (this.#isPumping || this.#waiting.length === 0) return;
    this.#begin();
    // The end of the window pumps again.
    if (this.#left <= 0) return;
    this.#isPumping = true;
    setImmediate(() => {
      this.#isPumping = false;
      if (this.#left > 0) {
        this.#left -= minCharacters;
        this.#waiting.shift()?.();
      }
      this.#pump();
    });
  }

  #begin(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#cancelTimer = this.#clock.setTimer(windowMs, () => {
      this.#isOpen = false;
      this.#left = charactersPerWindow;
      this.#pump();
    });
  }
}
