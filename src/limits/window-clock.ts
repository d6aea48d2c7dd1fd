/**
 * The time that windows of rate limits run on. It lives in a file beside them, so that it goes on over restarts, and no setting
 * of the wall clock moves it:
 *
 * - While the machine runs it is the machine's own clock, for all processes, whenever they start.
 * - After a reboot only the wall clock is left to tell how long the machine was away. It is believed where it went forward.
 *   Where it went back no time has passed: whoever had used up a limit waits a minute at most.
 * - Where there is no machine's clock, every start of a process is taken for a reboot.
 *
 * So a window is never shorter than 60 s unless the wall clock was set forward while the machine was down.
 */
import type { Clock } from "../lib/clock.ts";
import { mapFile, replaceFile } from "../lib/mapped-file.ts";

const format = 0x5457_4331;
/** How often the file hears of the time. It is what a next boot goes on from. */
const noteEveryMs = 100;
/** Beyond all times that a date can have the file is damaged. */
const maxMs = 8.64e15;

/** The numbers of the file. */
const formatAt = 0;
const bootAt = 1;
/** This time minus the machine's clock. */
const offsetAt = 2;
/** The latest reading that was noted. */
const latestAt = 3;
/** The wall clock minus this time, as it was then. */
const skewAt = 4;
const numbers = 8;

/**
 * To be called by one process at a time.
 * @returns a reading in milliseconds, near Unix time, that never goes back while the machine runs
 * @throws the file system's errors
 */
export function openWindowClock(path: string, clock: Clock): () => number {
  const machine = clock.machine ?? { boot: crypto.randomUUID(), now: () => clock.monotonic() };
  const boot = Bun.hash.xxHash32(machine.boot);
  const old = read(path);
  const goesOn = old?.[bootAt] === boot && machine.now() + old[offsetAt]! >= old[latestAt]! - noteEveryMs;
  if (!goesOn) replaceFile(path, begin(old, boot, machine.now(), clock.now()));
  const file = read(path)!;
  const offset = file[offsetAt]!;
  let noted = Number.NEGATIVE_INFINITY;
  return () => {
    const now = machine.now() + offset;
    if (now >= noted + noteEveryMs) {
      noted = now;
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
