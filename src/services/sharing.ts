/** What workers share besides the store, in files that live no longer than they do. */
import { join } from "node:path";
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import { openStateRows } from "../store/state-rows.ts";
import { openTakeRows } from "../store/take-rows.ts";
import type { Seat } from "./crew.ts";
import type { Limiter } from "./rate-limiter.ts";
import type { States } from "./replay-memory.ts";
import { SharedLimiter } from "./shared-limiter.ts";
import { SharedStates } from "./shared-states.ts";

export type Sharing = {
  readonly callerLimits: Limiter;
  readonly anonymousLimits: Limiter;
  readonly states: States;
  close(): void;
};

/** Of windows of addresses, which anybody can invent; some 500,000 takes. Keys' windows need no bound. */
const mostAnonymousBytes = 32 * 1024 ** 2;
const mostStateBytes = 128 * 1024 ** 2;

/** @throws SQLite's errors and the file system's */
export function openSharing({ folder, workers: sharers }: Seat, clock: Clock, log: Logger): Sharing {
  const callers = openTakeRows(join(folder, "callers.db"));
  const addresses = openTakeRows(join(folder, "addresses.db"), mostAnonymousBytes);
  const states = openStateRows(join(folder, "states.db"), mostStateBytes);
  const options = { clock, log, sharers };
  return {
    callerLimits: new SharedLimiter(callers, options),
    anonymousLimits: new SharedLimiter(addresses, options),
    states: new SharedStates(states, clock, log),
    close() {
      for (const rows of [callers, addresses, states]) rows.close();
    },
  };
}
