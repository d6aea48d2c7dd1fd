/** The kernel's clocks, which Bun doesn't show: of other processes, and one that all processes share. */
import { dlopen, ptr } from "bun:ffi";

const libc = ["libc.so.6", "libc.so"].flatMap((name) => {
  try {
    return [dlopen(name, { clock_gettime: { args: ["i32", "ptr"], returns: "i32" } }).symbols];
  } catch {
    return [];
  }
})[0];

const timespec = new BigInt64Array(2);

/** @param clock a clockid_t of clock_gettime(2) */
export function clockSeconds(clock: number): number {
  if (libc?.clock_gettime(clock, ptr(timespec)) !== 0) throw new Error(`no clock ${clock}: is its process gone?`);
  return Number(timespec[0]) + Number(timespec[1]) / 1e9;
}

const monotonic = 1;
const bootMilliseconds = clockSeconds(monotonic) * 1e3 - performance.now();

/** A time of `performance.now()` in microseconds since boot, the same clock in every process. */
export const sinceBootMicroseconds = (milliseconds: number) => (bootMilliseconds + milliseconds) * 1e3;
