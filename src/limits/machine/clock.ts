/**
 * The clock of rate limit windows: monotonic across processes and restarts, and independent of steps of the wall clock. Its
 * offset is stored in a file beside the windows.
 *
 * - While the machine runs it follows the machine's boot clock, in every process.
 * - After a reboot the wall clock shows for how long the machine was down, if it went forward. If it went back, no time has
 *   passed: a caller over its limit waits for a minute at most.
 * - Without a boot clock every start of a process counts as a reboot.
 *
 * So a window is never shorter than 60 s unless the wall clock was set forward while the machine was down.
 */

import { mapFile, replaceFile } from "../../lib/files/mapped-file.ts";
import type { Clock } from "../../lib/time/clock.ts";

const format = 0x5457_4331;
/** The interval at which the time is written to the file, for the next boot to continue from. */
const saveIntervalMs = 100;
/** The largest time of a Date: a file with larger numbers is damaged. */
const maxMs = 8.64e15;

/** Indexes of the file's numbers. */
const formatAt = 0;
const bootAt = 1;
/** This time minus the machine's clock. */
const offsetAt = 2;
/** The latest saved reading. */
const latestAt = 3;
/** The wall clock minus that reading. */
const skewAt = 4;
const numbers = 8;

/**
 * Must be called by one process at a time.
 * @returns a reading in milliseconds, near Unix time, that never goes back while the machine runs
 * @throws the file system's errors
 */
export function openWindowClock(path: string, clock: Clock): () => number {
  const machine = clock.machine ?? { boot: crypto.randomUUID(), now: () => clock.monotonic() };
  const boot = Bun.hash.xxHash32(machine.boot);
  const old = read(path);
  const goesOn = old?.[bootAt] === boot && machine.now() + old[offsetAt]! >= old[latestAt]! - saveIntervalMs;
  if (!goesOn) replaceFile(path, begin(old, boot, machine.now(), clock.now()));
  const file = read(path)!;
  const offset = file[offsetAt]!;
  let savedAt = Number.NEGATIVE_INFINITY;
  return () => {
    const now = machine.now() + offset;
    if (now >= savedAt + saveIntervalMs) {
      savedAt = now;
      file[latestAt] = Math.max(now, file[latestAt]!);
      file[skewAt] = clock.now() - now;
    }
    return now;
  };
}

function begin(old: Float64Array | undefined, boot: number, machineNow: number, wallNow: number): Uint8Array {
  const now = old === undefined ? wallNow : Math.max(old[latestAt]!, wallNow - old[skewAt]!);
  const file = new Float64Array(numbers);
  file.set([format, boot, now - machineNow, now, wallNow - now]);
  return new Uint8Array(file.buffer);
}

/** @returns undefined when it is not there, or damaged */
function read(path: string): Float64Array | undefined {
  const bytes = mapped(path);
  if (bytes?.byteLength !== numbers * 8) return undefined;
  const file = new Float64Array(bytes.buffer, bytes.byteOffset, numbers);
  return file[formatAt] === format && file.every((number) => Math.abs(number) < maxMs) ? file : undefined;
}

function mapped(path: string): Uint8Array | undefined {
  try {
    return mapFile(path);
  } catch {
    return undefined;
  }
}
