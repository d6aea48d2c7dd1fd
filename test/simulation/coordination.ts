/** Valkey or Redis: rate windows behind a network of their own. */

import { windowMs } from "../../src/limits/limiter.ts";
import { goodForMs, type StoredWindows } from "../../src/store/contract/windows.ts";
import { ModelWindows } from "../helpers/model-windows.ts";
import type { Machine } from "./machine.ts";
import type { Mutation } from "./mutations.ts";
import { Network, type Weather } from "./network.ts";
import type { World } from "./world.ts";

/** As the client's own. */
const deadlineMs = 200;

export class ModelledCoordination {
  readonly network: Network;
  readonly windows: ModelWindows;
  /** When it lost what windows it had, or the latest of it. */
  readonly losses: number[] = [];
  readonly #world: World;
  readonly #broken: ReadonlySet<Mutation>;

  constructor(world: World, weather: Weather, broken: ReadonlySet<Mutation>) {
    this.#world = world;
    this.#broken = broken;
    this.network = new Network(world, "coordination", weather);
    this.windows = new ModelWindows(() => world.now + 7_654_321, windowMs + goodForMs, broken);
  }

  restart(awayMs: number): void {
    this.network.restart(awayMs);
  }

  /** @returns how to restart with what it has now: another server, with an old copy of its data */
  copy(): (awayMs: number) => void {
    const goBack = this.windows.copy();
    return (awayMs) => {
      this.#world.note("coordination", "comes back with an old copy");
      this.restart(awayMs);
      goBack();
      if (!this.#broken.has("old-copies-are-believed")) this.windows.life += "@";
      this.losses.push(this.#world.now);
    };
  }

  /** A restart that keeps nothing. */
  lose(awayMs: number): void {
    this.#world.note("coordination", "loses all it knows");
    this.restart(awayMs);
    this.windows.wipe();
    this.losses.push(this.#world.now);
  }

  #ask<T>(machine: Machine, work: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const cancelTimer = machine.setTimer(deadlineMs, () => reject(new Error("no answer in time")));
    this.network.ask(
      machine,
      () => ({ value: work() }),
      (answer) => {
        cancelTimer();
        if (answer === undefined) reject(new Error("the connection broke"));
        else resolve(answer.value);
      },
    );
    return promise;
  }

  /** What a node asks. */
  client(machine: Machine): StoredWindows {
    const ask = <T>(work: () => T) => this.#ask(machine, work);
    const { windows } = this;
    return {
      hit: (caller, limit, id) => ask(() => windows.hitNow(caller, limit, [[id, 0]])),
      add: (caller, hits) => ask(() => windows.hitNow(caller, -1, hits)),
      tidy: async () => {},
      close: async () => {},
    };
  }
}
