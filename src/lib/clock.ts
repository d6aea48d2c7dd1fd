/** Time and identity, handed to whatever needs them, so that a test can hold both still. */
import { type MachineClock, machineClock } from "./machine-clock.ts";

export interface Clock {
  /** Unix time in milliseconds. */
  now(): number;
  /** A monotonic reading in milliseconds, for durations. */
  monotonic(): number;
  /** The same for all processes of the machine; absent where there is no such clock. */
  readonly machine?: MachineClock | undefined;
  /** 32 lower-case hexadecimal characters, unique, sorting by time of birth. */
  newId(): string;
  /** Calls back once after `ms`. @returns a function that calls it off */
  after(ms: number, run: () => void): () => void;
}

/** Asking for its bytes, as a buffer that somebody must collect, costs a busy server 0.7 µs more. */
function withoutDashes(uuid: string): string {
  return uuid.slice(0, 8) + uuid.slice(9, 13) + uuid.slice(14, 18) + uuid.slice(19, 23) + uuid.slice(24);
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  get machine() {
    return machineClock();
  },
  newId: () => withoutDashes(Bun.randomUUIDv7()),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

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
  after(ms: number, run: () => void): () => void {
    const timer = { at: this.#now + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }
  /** Moves time on and runs what falls due, in order of its time. */
  advance(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const due = this.#timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#timers = this.#timers.filter((other) => other !== due);
      this.#now = Math.max(this.#now, due.at);
      due.run();
    }
    this.#now = end;
  }
}
