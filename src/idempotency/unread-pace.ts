/**
 * How fast streams go on that nobody reads. A reader slows its upstream by reading; without one the upstream's speed would be
 * that of its network, and whoever is served meanwhile would wait. So all of them together take one batch in each turn of
 * the event loop, and so many characters in a while.
 */
import type { Clock } from "../lib/clock.ts";

/** 12 MB/s: a hundred times what a model writes, and some fifth of a core's time. */
const charactersPerWindow = 128 * 1024;
const windowMs = 10;
/** What a batch counts for at least, and as what it counts until it is there. */
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

  /** What came of a turn. @param characters of the batch */
  took(characters: number): void {
    this.#left -= Math.max(0, characters - minCharacters);
  }

  /** Nobody is made to wait any more. */
  close(): void {
    this.#isClosed = true;
    this.#cancelTimer();
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #pump(): void {
    if (this.#isPumping || this.#waiting.length === 0) return;
    this.#begin();
    // The window's end will go on with it.
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
