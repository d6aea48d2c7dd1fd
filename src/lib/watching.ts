/** What watching files and watching folders have in common. */
import { type FSWatcher, watch } from "node:fs";
import type { Clock } from "./clock.ts";

/** For what no event tells: network file systems, links to elsewhere, a machine out of watches. */
export const pollMs = 30_000;

/**
 * @param settleMs for how long no event may have come: a save is several
 * @param look called after each burst of events, and every 30 s anyway
 */
export function lookWhenSettled(settleMs: number, look: () => void, clock: Clock): { touch(): void; close(): void } {
  let cancelTimer = () => {};
  let cancelPoll = () => {};
  const lookNow = () => {
    cancelTimer();
    look();
  };
  const poll = () => {
    cancelPoll = clock.setTimer(pollMs, () => {
      poll();
      lookNow();
    });
  };
  poll();
  return {
    touch() {
      cancelTimer();
      cancelTimer = clock.setTimer(settleMs, lookNow);
    },
    close() {
      cancelTimer();
      cancelPoll();
    },
  };
}

/** @returns no watcher where the system gives none: the poll remains */
export function beginWatch(folder: string, recursive: boolean, onEvent: (name: string | null) => void): FSWatcher[] {
  try {
    const watcher = watch(folder, { recursive }, (_, name) => onEvent(name));
    watcher.on("error", () => watcher.close());
    return [watcher];
  } catch {
    return [];
  }
}
