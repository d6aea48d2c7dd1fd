/** The thinking state that workers share, in a database that lives no longer than they do. */
import { join } from "node:path";
import { SharedStates } from "../conversations/shared-thinking-state.ts";
import type { States } from "../conversations/thinking-state.ts";
import type { Logger } from "../lib/process/log.ts";
import type { Clock } from "../lib/time/clock.ts";
import { openStateRepository } from "../store/sqlite/state-repository.ts";
import type { WorkerSettings } from "./worker.ts";

type SharedState = {
  readonly states: States;
  close(): void;
};

const maxStateBytes = 128 * 1024 ** 2;

/** @throws SQLite's errors and the file system's */
export function openSharedState({ folder }: WorkerSettings, clock: Clock, log: Logger): SharedState {
  const states = openStateRepository(join(folder, "states.db"), maxStateBytes);
  return { states: new SharedStates(states, clock, log), close: () => states.close() };
}
