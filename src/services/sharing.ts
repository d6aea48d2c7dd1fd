/** What workers share besides the store and the rate limits, in files that live no longer than they do. */
import { join } from "node:path";
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import { openStateRows } from "../store/state-rows.ts";
import type { Seat } from "./crew.ts";
import type { States } from "./replay-memory.ts";
import { SharedStates } from "./shared-states.ts";

export type Sharing = {
  readonly states: States;
  close(): void;
};

const mostStateBytes = 128 * 1024 ** 2;

/** @throws SQLite's errors and the file system's */
export function openSharing({ folder }: Seat, clock: Clock, log: Logger): Sharing {
  const states = openStateRows(join(folder, "states.db"), mostStateBytes);
  return { states: new SharedStates(states, clock, log), close: () => states.close() };
}
