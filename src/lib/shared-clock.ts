/** One monotonic clock for all processes of a machine. */
import type { Clock } from "./clock.ts";
import { type Libc, openLibc, ptr } from "./libc.ts";

const monotonicClock = 1;
const readings = 16;

/**
 * A process' own monotonic clock counts from the process' start. It is the same clock, so that the distance to the
 * machine's is measured once: to within the time between two readings, which is far below a microsecond.
 * @returns a monotonic reading in milliseconds, comparable between processes; without a C library, the process' own
 */
export function sharedMonotonic(clock: Clock): () => number {
  const libc = openLibc();
  if (libc === undefined) return () => clock.monotonic();
  let best = { width: Number.POSITIVE_INFINITY, offset: 0 };
  for (let count = 0; count < readings; count += 1) {
    const before = clock.monotonic();
    const machine = machineMonotonic(libc);
    const after = clock.monotonic();
    const width = after - before;
    if (width < best.width) best = { width, offset: machine - (before + after) / 2 };
  }
  return () => clock.monotonic() + best.offset;
}

function machineMonotonic(libc: Libc): number {
  const time = new BigInt64Array(2);
  libc.clock_gettime(monotonicClock, ptr(time));
  return Number(time[0]) * 1000 + Number(time[1]) / 1e6;
}
