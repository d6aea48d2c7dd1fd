/**
 * Holds back calls for which a budget has no room only because of what calls under way have reserved, for a moment: most of those cost less
 * than was reserved, and end. Whoever waits longest for a budget is tried first, when something was freed and at a slow poll, as other
 * processes free something too; so however many wait, the store is asked once for each budget, and once more for each call that fits.
 */
import type { Clock } from "../../lib/time/clock.ts";
import { ClientDisconnected } from "../../upstream/client.ts";

const maxWaitMs = 2_000;
const pollMs = 250;
/** Whoever comes beyond it is refused at once. */
const maxWaiting = 1_000;

/** @param T what an asking answers */
type Waiter<T> = PromiseWithResolvers<void> & {
  readonly ask: () => Promise<T>;
  /** The budget that was full when it was last asked for, and the answer then. */
  budget: string;
  answer: T;
  isAsking: boolean;
  /** Answered; or nobody waits any more: a client that has left, or the time is over. */
  isOver: boolean;
};

export class BudgetQueue<T> {
  readonly #clock: Clock;
  /** Names the budget that an answer says to wait for; undefined: there is nothing to wait for. */
  readonly #heldBy: (answer: T) => string | undefined;
  /** In the order in which they came. */
  readonly #waiting = new Set<Waiter<T>>();
  #cancelPoll: (() => void) | undefined;
  #isServing = false;
  #isWoken = false;

  constructor(clock: Clock, heldBy: (answer: T) => string | undefined) {
    this.#clock = clock;
    this.#heldBy = heldBy;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /**
   * Asks, and where the answer is to wait, again until it is another one.
   * @returns the last answer. Rejects with ClientDisconnected where the signal aborts, or as `ask` does
   */
  async ask(ask: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const answer = await ask();
    const budget = this.#heldBy(answer);
    if (budget === undefined || this.size >= maxWaiting) return answer;
    if (signal?.aborted) throw new ClientDisconnected();
    const waiter: Waiter<T> = { ...Promise.withResolvers(), ask, budget, answer, isAsking: false, isOver: false };
    const end = () => {
      waiter.isOver = true;
      if (!waiter.isAsking) waiter.resolve();
    };
    const cancelTimer = this.#clock.setTimer(maxWaitMs, end);
    signal?.addEventListener("abort", end);
    this.#waiting.add(waiter);
    this.#poll();
    try {
      await waiter.promise;
    } finally {
      this.#waiting.delete(waiter);
      cancelTimer();
      signal?.removeEventListener("abort", end);
    }
    // It may have been asked for when its client left: the caller ends what was reserved.
    if (signal?.aborted) throw new ClientDisconnected();
    return waiter.answer;
  }

  /** Something was freed. */
  wake(): void {
    if (this.size === 0) return;
    this.#isWoken = true;
    if (!this.#isServing) void this.#serve();
  }

  #poll(): void {
    this.#cancelPoll ??= this.#clock.setTimer(pollMs, () => {
      this.#cancelPoll = undefined;
      this.wake();
      if (this.size > 0) this.#poll();
    });
  }

  /** Never rejects. */
  async #serve(): Promise<void> {
    this.#isServing = true;
    while (this.#isWoken) {
      this.#isWoken = false;
      const full = new Set<string>();
      for (const waiter of this.#waiting) if (!waiter.isOver && !full.has(waiter.budget)) await this.#try(waiter, full);
    }
    this.#isServing = false;
  }

  /** @param full takes the budget that has no room for it */
  async #try(waiter: Waiter<T>, full: Set<string>): Promise<void> {
    waiter.isAsking = true;
    try {
      waiter.answer = await waiter.ask();
    } catch (error) {
      waiter.isOver = true;
      waiter.reject(error);
      return;
    }
    waiter.isAsking = false;
    const budget = this.#heldBy(waiter.answer);
    if (budget === undefined || waiter.isOver) {
      waiter.isOver = true;
      waiter.resolve();
    } else {
      waiter.budget = budget;
      full.add(budget);
    }
  }
}
