/** The machine's boot clock (CLOCK_BOOTTIME): monotonic, and the same in all processes. */
import { readFileSync } from "node:fs";
import { openLibc, ptr } from "./libc.ts";

export type MachineClock = {
  /** Names the boot that it counts from. */
  readonly boot: string;
  /** Milliseconds, those in which the machine was suspended included. No setting of the time moves it. */
  now(): number;
};

/** Source: clock_gettime(2) */
const bootTime = 7;

/** Looked for once. @returns undefined where the platform has none that is known here */
export function machineClock(): MachineClock | undefined {
  found ??= { clock: open() };
  return found.clock;
}

let found: { readonly clock: MachineClock | undefined } | undefined;

function open(): MachineClock | undefined {
  const libc = openLibc();
  if (libc === undefined) return undefined;
  const time = new BigInt64Array(2);
  // Seconds and nanoseconds as 32-bit words, low ones first, for no number of 64 bits to be made at each reading.
  const words = new Uint32Array(time.buffer);
  const place = ptr(time);
  try {
    // Source: random(4), boot_id
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return {
      boot,
      now: () => {
        libc.clock_gettime(bootTime, place);
        return (words[1]! * 2 ** 32 + words[0]!) * 1000 + words[2]! / 1e6;
      },
    };
  } catch {
    return undefined;
  }
}
