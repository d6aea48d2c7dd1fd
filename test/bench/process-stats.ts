/** What the kernel says of a process and its descendants. Linux only. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { clockSeconds } from "./system-clock.ts";

/** CPU seconds (user and system, ended threads too) of all the processes, to the nanosecond. */
export function cpuSeconds(pids: readonly number[]): number {
  // The clock of another process, as clock_getcpuclockid(3) names it: /proc/<pid>/stat knows only ticks of 10 ms.
  return pids.reduce((sum, pid) => sum + clockSeconds((~pid << 3) | 2), 0);
}

/** The process and all below it, as they are now. */
export function processTree(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  );
  return [pid, ...children.flatMap(processTree)];
}

/** How many files, sockets among them, a process may open; Bun raises its own limit to the hard one. */
export function maxOpenFiles(): number {
  const found = /^Max open files +\S+ +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
  return Number(found?.[1] ?? Number.POSITIVE_INFINITY);
}

function kilobytes(path: string, field: string): number {
  const found = new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(readFileSync(path, "utf8"));
  if (found === null) throw new Error(`${path} has no ${field}`);
  return Number(found[1]);
}

const sumBytes = (pids: readonly number[], file: string, field: string) =>
  pids.reduce((sum, pid) => sum + kilobytes(`/proc/${pid}/${file}`, field) * 1024, 0);

export const residentBytes = (pids: readonly number[]) => sumBytes(pids, "status", "VmRSS");
/** The highest `residentBytes` since the start or the last `forgetPeak`. */
export const peakBytes = (pids: readonly number[]) => sumBytes(pids, "status", "VmHWM");
/** Shared pages counted by their share. */
export const proportionalBytes = (pids: readonly number[]) => sumBytes(pids, "smaps_rollup", "Pss");

/** https://docs.kernel.org/filesystems/proc.html: 5 resets the peak. */
export function forgetPeak(pids: readonly number[]): void {
  for (const pid of pids) writeFileSync(`/proc/${pid}/clear_refs`, "5");
}
