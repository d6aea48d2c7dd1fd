/**
 * Several processes ("workers") that serve one port from one data folder, as one of them sees it. The supervisor, which
 * started them, is the only one it talks to.
 */
import type { Config } from "../config/config.ts";
import type { WorkerStatus, Workers } from "../http/services.ts";
import type { Clock } from "../lib/clock.ts";
import type { Parent, Signal } from "../lib/io.ts";
import type { Snapshot } from "../observability/metrics-sum.ts";

/** What a running server can't change. */
export const fixedSettings = [
  "listen",
  "data",
  "personas",
  "workers",
  "tiers",
  "shutdown",
  "log",
] as const satisfies readonly (keyof Config)[];

type FixedSettings = Partial<Pick<Config, (typeof fixedSettings)[number]>>;

/** Which worker it is. Travels in an environment variable. */
export type WorkerSlot = {
  /** From 1. */
  readonly index: number;
  readonly workers: number;
  /** For what the workers share while they run. */
  readonly folder: string;
  /** Others listen on the port already, and are to be succeeded. */
  readonly isUpgrade: boolean;
  /** As they were when the supervisor started: a worker that is started later must not differ from the others. */
  readonly fixed: FixedSettings;
};

type Answers = { readonly metrics: string; readonly status: WorkerStatus };
type Question = keyof Answers;

export type ToSupervisor =
  | { readonly kind: "listening" }
  | { readonly kind: "snapshot"; readonly id: number; readonly snapshot: Snapshot }
  | { readonly kind: "question"; readonly id: number; readonly about: Question };

export type ToWorker =
  | { readonly kind: "signal"; readonly name: Signal }
  | { readonly kind: "snapshot"; readonly id: number }
  | { readonly kind: "answer"; readonly id: number; readonly answer: unknown };

const answerWithinMs = 3_000;

export function fixedSettingsOf(config: Config): FixedSettings {
  return Object.fromEntries(fixedSettings.flatMap((key) => (config[key] === undefined ? [] : [[key, config[key]]])));
}

/** The configuration as a worker has it. What bounds the memory of all is divided among them. */
export function workerConfig(slot: WorkerSlot, config: Config): Config {
  const { limits } = config;
  const concurrentRequests = Math.ceil(limits.concurrentRequests / slot.workers);
  return { ...config, ...slot.fixed, limits: { ...limits, concurrentRequests } };
}

export class WorkerChannel implements Workers {
  readonly slot: WorkerSlot;
  readonly #parent: Parent;
  readonly #clock: Clock;
  readonly #listeners = new Map<Signal, Set<() => void>>();
  readonly #waiting = new Map<number, (answer: unknown) => void>();
  #questions = 0;
  #takeSnapshot: (() => Promise<Snapshot>) | undefined;
  #isTold = false;
  #isAlone = false;

  constructor(slot: WorkerSlot, parent: Parent, clock: Clock) {
    this.slot = slot;
    this.#parent = parent;
    this.#clock = clock;
    parent.onMessage((message) => void this.#hear(message as ToWorker));
    // Without its supervisor a worker would never be told to stop, nor be restarted.
    parent.onGone(() => {
      this.#isAlone = true;
      if (!this.#isTold) this.#signal("SIGTERM");
    });
  }

  /** In place of the operating system's signals, which a terminal or a service manager may send to all processes at once. */
  onSignal(name: Signal, run: () => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(run));
    // It happened during the start.
    if (this.#isAlone && name === "SIGTERM") run();
    return () => void listeners.delete(run);
  }

  /** Tells that requests are answered from now on, and lets them be counted. */
  listening(takeSnapshot: () => Promise<Snapshot>): void {
    this.#takeSnapshot = takeSnapshot;
    this.#send({ kind: "listening" });
  }

  /** @returns undefined when the supervisor does not answer in time */
  ask<Q extends Question>(about: Q): Promise<Answers[Q] | undefined> {
    this.#questions += 1;
    const id = this.#questions;
    return new Promise((resolve) => {
      const settle = (answer: unknown) => {
        off();
        this.#waiting.delete(id);
        resolve(answer as Answers[Q] | undefined);
      };
      const off = this.#clock.setTimer(answerWithinMs, () => settle(undefined));
      this.#waiting.set(id, settle);
      this.#send({ kind: "question", id, about });
    });
  }

  async #hear(message: ToWorker): Promise<void> {
    switch (message.kind) {
      case "signal":
        return this.#signal(message.name);
      case "answer":
        return this.#waiting.get(message.id)?.(message.answer);
      case "snapshot": {
        const snapshot = await this.#takeSnapshot?.();
        if (snapshot !== undefined) this.#send({ kind: "snapshot", id: message.id, snapshot });
      }
    }
  }

  #signal(name: Signal): void {
    this.#isTold ||= name !== "SIGHUP";
    for (const run of this.#listeners.get(name) ?? []) run();
  }

  #send(message: ToSupervisor): void {
    this.#parent.send(message);
  }
}
