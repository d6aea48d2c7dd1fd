/**
 * The exact sliding windows of several processes that serve together, in a database. For callers that anybody can invent,
 * as addresses are: what they take is bounded.
 */
import type { Clock } from "../lib/clock.ts";
import type { TakeRows } from "../store/take-rows.ts";
import { type Limiter, type Verdict, verdictOf, windowMs } from "./rate-limiter.ts";

/** With every so many takes the window of one other caller is looked at, so that the silent ones are forgotten. */
const takesPerVisit = 8;

/**
 * A take costs 13 µs (median of 50,000; a transaction of some four statements that waits for no disk), and several times
 * that where processes on too few cores do nothing but take.
 */
export class SharedLimiter implements Limiter {
  readonly #rows: TakeRows;
  readonly #clock: Clock;
  readonly #now: () => number;
  #visited = "";
  #takes = 0;

  /** @param now a monotonic reading in milliseconds, the same in all processes */
  constructor(rows: TakeRows, clock: Clock, now: () => number) {
    this.#rows = rows;
    this.#clock = clock;
    this.#now = now;
  }

  /** @throws SQLite's errors, as `peek` does */
  take(who: string, perMinute: number): Verdict {
    return this.#look(who, perMinute, true);
  }

  peek(who: string, perMinute: number): Verdict {
    return this.#look(who, perMinute, false);
  }

  #look(who: string, perMinute: number, takes: boolean): Verdict {
    try {
      return this.#rows.exclusively(() => this.#lookAlone(who, perMinute, takes));
    } catch (error) {
      // More callers than there is room for are the invented ones of a flood.
      if ((error as { code?: string }).code === "SQLITE_FULL") this.#rows.exclusively(() => this.#rows.forgetAll());
      throw error;
    }
  }

  /** While no other process looks. */
  #lookAlone(who: string, perMinute: number, takes: boolean): Verdict {
    const rows = this.#rows;
    // Read under the lock, so that times rise in the order of the takes.
    const now = this.#now();
    let first = rows.first(who);
    if (first !== undefined && first.at <= now - windowMs) {
      rows.forget(who, now - windowMs);
      first = rows.first(who);
    }
    const last = first && rows.last(who)!;
    const count = first === undefined ? 0 : last!.seq - first.seq + 1;
    const allowed = count < perMinute;
    const taken = { seq: (last?.seq ?? 0) + 1, at: Math.max(now, last?.at ?? now) };
    const pushes = allowed && takes;
    if (pushes) rows.add(who, taken);
    if (takes) this.#visitNext(now);
    const oldest = first ?? (pushes ? taken : undefined);
    const window = {
      count: count + (pushes ? 1 : 0),
      at: (index: number) => (index === 0 ? oldest?.at : rows.at(who, oldest!.seq + index)),
    };
    return verdictOf(window, perMinute, allowed, now, this.#clock.now());
  }

  #visitNext(now: number): void {
    this.#takes += 1;
    if (this.#takes % takesPerVisit !== 0) return;
    const who = this.#rows.callerAfter(this.#visited);
    this.#visited = who ?? "";
    if (who !== undefined) this.#rows.forget(who, now - windowMs);
  }
}
