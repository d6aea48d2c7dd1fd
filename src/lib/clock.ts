/** Time and identity, handed to whatever needs them, so that a test can hold both still. */
import { type MachineClock, machineClock } from "./linux/machine-clock.ts";

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
  setTimer(ms: number, run: () => void): () => void;
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
  setTimer: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};
