import type { Clock } from "../../src/lib/time/clock.ts";

/** A clock that stands still until a test moves it with `advance`. */
export class ManualClock implements Clock {
  #now: number;
  #ids = 0;
  #timers: { at: number; run: () => void }[] = [];

  constructor(startMs = 1_700_000_000_000) {
    this.#now = startMs;
  }
  now(): number {
    return this.#now;
  }
  monotonic(): number {
    return this.#now;
  }
  newId(): string {
    this.#ids += 1;
    return this.#ids.toString(16).padStart(32, "0");
  }
  setTimer(ms: number, run: () => void): () => void {
    const timer = { at: this.#now + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }
  /** The same as `advance`, but lets what a timer began come to rest before the next one runs. */
  async advanceSlowly(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (let next = this.#nextBy(end); next !== undefined; next = this.#nextBy(end)) {
      this.advance(Math.max(0, next.at - this.#now));
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.advance(end - this.#now);
  }
  /** Moves time on and runs what falls due, in order of its time. */
  advance(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const due = this.#nextBy(end);
      if (due === undefined) break;
      this.#timers = this.#timers.filter((other) => other !== due);
      this.#now = Math.max(this.#now, due.at);
      due.run();
    }
    this.#now = end;
  }
  #nextBy(end: number) {
    return this.#timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
  }
}
