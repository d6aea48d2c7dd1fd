/**
 * Holds back calls for which a budget has no room only because of what calls under way have reserved, for a moment: most of those cost less
 * than was reserved, and end. Whoever waits longest for a budget is tried first, when something was freed and at a slow poll, as other
 * processes free something too; so however many wait, the store is asked once for each budget, and once more for each call that fits.
 */
import type { Clock } from "../lib/clock.ts";
import { ClientDisconnected } from "../upstream/client.ts";

export const maxWaitMs = 2_000;
const pollMs = 250;
/** Whoever comes beyond it is refused at once. */
const maxWaiting = 1_000;

/** @param T what an asking answers */
type Waiter<T> = {
  readonly ask: () => Promise<T>;
  readonly resolve: (answer: T) => void;
  readonly reject: (error: unknown) => void;
  answer: T;
  /** Nobody waits any more: a client that has left, or the time is over. */
  isOver: boolean;
  isAsking: boolean;
};

export class BudgetQueue<T> {
  readonly #clock: Clock;
  /** Names the budget that an answer says to wait for; undefined: there is nothing to wait for. */
  readonly #heldBy: (answer: T) => string | undefined;
  /** By budget. */
  readonly #waiting = new Map<string, Waiter<T>[]>();
  #size = 0;
  #cancelPoll: (() => void) | undefined;
  #isServing = false;
  #isWoken = false;

  constructor(clock: Clock, heldBy: (answer: T) => string | undefined) {
    this.#clock = clock;
    this.#heldBy = heldBy;
  }

  get size(): number {
    return this.#size;
  }

  /**
   * Asks, and where the answer is to wait, again until it is another one.
   * @returns the last answer. Rejects with ClientDisconnected where the signal aborts, or as `ask` does
   */
  async ask(ask: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const answer = await ask();
    const budget = this.#heldBy(answer);
    if (budget === undefined || this.#size >= maxWaiting) return answer;
    if (signal?.aborted) throw new ClientDisconnected();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const waiter: Waiter<T> = { ask, resolve, reject, answer, isOver: false, isAsking: false };
    const end = () => {
      waiter.isOver = true;
      if (waiter.isAsking) return;
      if (signal?.aborted) reject(new ClientDisconnected());
      else resolve(waiter.answer);
    };
    const cancelTimer = this.#clock.setTimer(maxWaitMs, end);
    signal?.addEventListener("abort", end);
    this.#size += 1;
    this.#add(budget, waiter);
    this.#poll();
    try {
      const last = await promise;
      // It may have been asked for when its client left: the caller ends what was reserved.
      if (signal?.aborted) throw new ClientDisconnected();
      return last;
    } finally {
      this.#size -= 1;
      cancelTimer();
      signal?.removeEventListener("abort", end);
    }
  }

  /** Something was freed. */
  wake(): void {
    if (this.#waiting.size === 0) return;
    this.#isWoken = true;
    if (!this.#isServing) void this.#serve();
  }

  #add(budget: string, waiter: Waiter<T>): void {
    const line = this.#waiting.get(budget);
    if (line === undefined) this.#waiting.set(budget, [waiter]);
    else line.push(waiter);
  }

  #poll(): void {
    this.#cancelPoll ??= this.#clock.setTimer(pollMs, () => {
      this.#cancelPoll = undefined;
      this.wake();
      if (this.#waiting.size > 0) this.#poll();
    });
  }

  /** Never rejects. */
  async #serve(): Promise<void> {
    this.#isServing = true;
    while (this.#isWoken) {
      this.#isWoken = false;
      for (const [budget, line] of [...this.#waiting]) {
        while (line.length > 0 && (await this.#isServed(line[0]!, budget))) line.shift();
        if (line.length === 0) this.#waiting.delete(budget);
      }
    }
    this.#isServing = false;
  }

  /** @returns whether it waits no more for that budget */
  async #isServed(waiter: Waiter<T>, budget: string): Promise<boolean> {
    if (waiter.isOver) return true;
    waiter.isAsking = true;
    try {
      waiter.answer = await waiter.ask();
    } catch (error) {
      waiter.reject(error);
      return true;
    }
    waiter.isAsking = false;
    const heldBy = this.#heldBy(waiter.answer);
    if (heldBy === undefined || waiter.isOver) waiter.resolve(waiter.answer);
    else if (heldBy === budget) return false;
    else this.#add(heldBy, waiter);
    return true;
  }
}
