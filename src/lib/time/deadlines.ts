/** Timeouts of the same length for many at once, such as the calls that wait for their answers. */

import { type Link, LinkedList } from "../process/linked-list.ts";
import type { Clock } from "./clock.ts";

/** What has a timeout. */
export interface Expiring {
  /** Its time is over. */
  expire(): void;
  /** Set by the list of timeouts that it is in. */
  timeout?: Link<Expiring> | undefined;
}

/** One timer for all of them, set again only when it is due: whoever is done before costs no timer. */
export class Deadlines {
  readonly #clock: Clock;
  readonly #ms: number;
  /** By when each is due, the first one first, as each has the same time. */
  readonly #waiting = new LinkedList<Expiring>();
  #cancelTimer: (() => void) | undefined;

  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#ms = ms;
  }

  /** Starts the timeout of one that has none, here or elsewhere. */
  add(one: Expiring): void {
    const dueAt = this.#clock.monotonic() + this.#ms;
    one.timeout = this.#waiting.add(one, dueAt);
    if (this.#cancelTimer === undefined) this.#setTimer(this.#ms, dueAt);
  }

  /** Ends a timeout, if there is one. */
  delete(one: Expiring): void {
    if (one.timeout === undefined) return;
    this.#waiting.delete(one.timeout);
    one.timeout = undefined;
    if (this.#waiting.first !== undefined) return;
    // A timer keeps the process alive.
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  #setTimer(ms: number, dueAt: number): void {
    this.#cancelTimer = this.#clock.setTimer(ms, () => this.#expire(dueAt));
  }

  /** @param dueAt the time that the timer was set for, and so over, whatever the clock's reading is rounded to */
  #expire(dueAt: number): void {
    const now = Math.max(dueAt, this.#clock.monotonic());
    try {
      for (let link = this.#waiting.first; link !== undefined && link.at <= now; link = this.#waiting.first) {
        this.#waiting.delete(link);
        link.value.timeout = undefined;
        link.value.expire();
      }
    } finally {
      // Whoever expired may have set one, for a later time than that of the first.
      this.#cancelTimer?.();
      this.#cancelTimer = undefined;
      const next = this.#waiting.first?.at;
      if (next !== undefined) this.#setTimer(Math.ceil(next - now), next);
    }
  }
}

/** Timeouts by their length, of which there are few: those of the configuration. */
export class DeadlineLists {
  readonly #clock: Clock;
  readonly #lists = new Map<number, Deadlines>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param ms the length */
  of(ms: number): Deadlines {
    let list = this.#lists.get(ms);
    if (list === undefined) {
      list = new Deadlines(this.#clock, ms);
      this.#lists.set(ms, list);
    }
    return list;
  }
}
