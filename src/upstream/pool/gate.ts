/**
 * Keeps calls from what is in cooldown. When a breaker's cooldown is over one call tries it, and the others follow only once that is answered; what is
 * limited or spent is open to all then, as many calls learn no more than one.
 */
import type { CooldownReason, FailureVerdict } from "./cooldowns.ts";

/** How a call passed: `trial` decides whether the others may follow. */
export type Passage = "usual" | "trial";

export class Gate {
  readonly #isBreaker: boolean;
  /** A monotonic reading; undefined: it is not in cooldown. */
  #until: number | undefined;
  #reason: CooldownReason | undefined;
  #isStated = false;
  #hasTrial = false;
  /** Failures in a row. */
  #failures = 0;
  /** When it last began or ended a cooldown: the failure of a call that began before says nothing about now. */
  #changedAt = Number.NEGATIVE_INFINITY;
  #triedAt = Number.NEGATIVE_INFINITY;

  /** @param isBreaker true for a server that fails, of which one call learns whether it is well again */
  constructor(isBreaker = false) {
    this.#isBreaker = isBreaker;
  }

  get failures(): number {
    return this.#failures;
  }

  get reason(): CooldownReason | undefined {
    return this.#reason;
  }

  /** When the cooldown ends; undefined: there is none. */
  get until(): number | undefined {
    return this.#until;
  }

  state(now: number): "closed" | "open" | "half_open" {
    if (this.#until === undefined) return "closed";
    return now >= this.#until || this.#hasTrial ? "half_open" : "open";
  }

  isOpen(now: number): boolean {
    return this.#until !== undefined && (now < this.#until || (this.#hasTrial && this.#isBreaker));
  }

  /** True if a call may try it before its time: nobody stated the end, and the last try is a while ago. */
  mayProbe(now: number, everyMs: number): boolean {
    return !this.#isStated && !this.#hasTrial && now - Math.max(this.#triedAt, this.#changedAt) >= everyMs;
  }

  /** @returns how a call passes that `isOpen` or `mayProbe` lets pass */
  pass(now: number): Passage {
    if (this.#until === undefined) return "usual";
    if (!this.#isBreaker && now >= this.#until) {
      this.#end();
      return "usual";
    }
    this.#hasTrial = true;
    this.#triedAt = now;
    return "trial";
  }

  /** A call is being answered: what was tried is in order. */
  answered(passage: Passage, now: number): void {
    if (passage === "usual") return;
    this.#end();
    this.#changedAt = now;
  }

  #end(): void {
    this.#hasTrial = false;
    this.#until = undefined;
    this.#reason = undefined;
  }

  /** A call was answered to its end. */
  completed(): void {
    if (this.#until === undefined) this.#failures = 0;
  }

  /** True if a failure counts, of a call that began then. */
  counts(passage: Passage, begunAt: number): boolean {
    return passage === "trial" || (this.#until === undefined && begunAt >= this.#changedAt);
  }

  /** A call failed. @param begunAt when it began */
  failed(passage: Passage, begunAt: number, { ms, reason, isStated }: FailureVerdict, now: number): void {
    if (passage === "trial") this.#hasTrial = false;
    if (this.counts(passage, begunAt)) this.#failures += 1;
    else if (!isStated) return;
    if (ms === 0 && passage === "usual") return;
    const until = now + ms;
    if (passage === "usual" && this.#until !== undefined && until <= this.#until) return;
    this.#until = until;
    this.#reason = reason;
    this.#isStated = isStated;
    this.#changedAt = now;
  }

  /** A call ended that says nothing, as its client disconnected. */
  released(passage: Passage): void {
    if (passage === "trial") this.#hasTrial = false;
  }
}
