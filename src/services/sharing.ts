/** What workers share besides the store, in files that live no longer than they do. */
import { join } from "node:path";
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import { sharedMonotonic } from "../lib/shared-clock.ts";
import { openStateRows } from "../store/state-rows.ts";
import { openTakeRows } from "../store/take-rows.ts";
import type { Seat } from "./crew.ts";
import { GuardedLimiter } from "./guarded-limiter.ts";
import type { Limiter } from "./rate-limiter.ts";
import type { States } from "./replay-memory.ts";
import { SharedLimiter } from "./shared-limiter.ts";
import { SharedStates } from "./shared-states.ts";
import { SharedWindows } from "./shared-windows.ts";

export type Sharing = {
  readonly callerLimits: Limiter;
  readonly anonymousLimits: Limiter;
  readonly states: States;
  close(): void;
};

/** Some 500,000 takes. */
const mostAddressBytes = 32 * 1024 ** 2;
const mostStateBytes = 128 * 1024 ** 2;

/** @throws SQLite's errors and the file system's */
export function openSharing({ folder, workers: sharers }: Seat, clock: Clock, log: Logger): Sharing {
  const addresses = openTakeRows(join(folder, "addresses.db"), mostAddressBytes);
  const states = openStateRows(join(folder, "states.db"), mostStateBytes);
  const now = sharedMonotonic(clock);
  const guard = { clock, log, sharers };
  return {
    callerLimits: new GuardedLimiter(new SharedWindows(join(folder, "callers"), clock, now), guard),
    anonymousLimits: new GuardedLimiter(new SharedLimiter(addresses, clock, now), guard),
    states: new SharedStates(states, clock, log),
    close() {
      for (const rows of [addresses, states]) rows.close();
    },
  };
}
