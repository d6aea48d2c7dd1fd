/** Thinking state where several processes serve together: the next turn may land on another one. */

import type { Logger } from "../lib/process/log.ts";
import type { Clock } from "../lib/time/clock.ts";
import type { StateRepository } from "../store/sqlite/state-repository.ts";
import type { State, States } from "./thinking-state.ts";

/** A failure costs a model its thoughts on one call, and no more. */
export class SharedStates implements States {
  readonly isEmpty = false;
  readonly #rows: StateRepository;
  readonly #clock: Clock;
  readonly #log: Logger;

  constructor(rows: StateRepository, clock: Clock, log: Logger) {
    this.#rows = rows;
    this.#clock = clock;
    this.#log = log;
  }

  get(key: string): State | undefined {
    const text = this.#tried(() => this.#rows.get(key, this.#clock.now()));
    return text === undefined ? undefined : (JSON.parse(text) as State);
  }

  put(keys: readonly string[], state: State, expiresAt: number): void {
    this.#tried(() => this.#rows.put(keys, JSON.stringify(state), expiresAt, this.#clock.now()));
  }

  #tried<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.#log.warn("the workers' shared thinking state failed", { error });
      return undefined;
    }
  }
}
