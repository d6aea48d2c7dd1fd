/** A worker: one of several processes that serve the same ports from one data folder, and its channel to the supervisor. */

import type { WorkerStatus, Workers, WorkersCalls, WorkersPools } from "../call/services.ts";
import type { Config } from "../config/config.ts";
import type { Parent, Signal } from "../lib/process/io.ts";
import type { Snapshot } from "../lib/process/metrics.ts";
import type { Clock } from "../lib/time/clock.ts";
import type { PoolView } from "../upstream/pool/pools.ts";
import type { OpenCalls, OpenCallsQuestion } from "../usage/ledger/open-calls.ts";

/** Settings that need a restart. */
export const fixedSettings = [
  "listen",
  "data",
  "store",
  "coordination",
  "personas",
  "workers",
  "tiers",
  "shutdown",
  "log",
] as const satisfies readonly (keyof Config)[];

type FixedSettings = Partial<Pick<Config, (typeof fixedSettings)[number]>>;

/** The settings that the supervisor gives a worker at its start, in an environment variable. */
export type WorkerSettings = {
  /** From 1. */
  readonly index: number;
  readonly workers: number;
  /** Holds what the workers share while they run. */
  readonly folder: string;
  /** Workers of the parent process listen on the ports already and hand off to these. */
  readonly isUpgrade: boolean;
  /** The values of the supervisor's start, so that a worker that is restarted later does not differ from the others. */
  readonly fixed: FixedSettings;
};

type Answers = {
  readonly metrics: string;
  readonly status: WorkerStatus;
  readonly calls: WorkersCalls;
  readonly pools: WorkersPools;
};
type Question = keyof Answers;

/** Reads of a worker what is asked of all of them. */
export type WorkerReads = {
  readonly snapshot: () => Snapshot;
  readonly calls: (asked: OpenCallsQuestion) => OpenCalls;
  readonly pools: () => readonly PoolView[];
};

export type ToSupervisor =
  | { readonly kind: "listening" }
  | { readonly kind: "read"; readonly id: number; readonly value: unknown }
  | { readonly kind: "question"; readonly id: number; readonly about: Exclude<Question, "calls"> }
  | { readonly kind: "question"; readonly id: number; readonly about: "calls"; readonly asked: OpenCallsQuestion };

export type ToWorker =
  /** @property again for a worker that may have missed the first one, as it was starting */
  | { readonly kind: "signal"; readonly name: Signal; readonly again?: true }
  | {
      readonly kind: "read";
      readonly id: number;
      readonly about: keyof WorkerReads;
      readonly asked: readonly unknown[];
    }
  | { readonly kind: "answer"; readonly id: number; readonly answer: unknown };

const answerTimeoutMs = 3_000;

export function fixedSettingsOf(config: Config): FixedSettings {
  return Object.fromEntries(fixedSettings.flatMap((key) => (config[key] === undefined ? [] : [[key, config[key]]])));
}

/** The configuration of a worker: limits for the whole server are divided among the workers. */
export function workerConfig(settings: WorkerSettings, config: Config): Config {
  const { limits } = config;
  const concurrentRequests = Math.ceil(limits.concurrentRequests / settings.workers);
  return { ...config, ...settings.fixed, limits: { ...limits, concurrentRequests } };
}

export class WorkerChannel implements Workers {
  readonly settings: WorkerSettings;
  readonly #parent: Parent;
  readonly #clock: Clock;
  readonly #handlers = new Map<Signal, Set<() => void>>();
  readonly #pending = new Map<number, (answer: unknown) => void>();
  #lastId = 0;
  #reads: WorkerReads | undefined;
  #isStopping = false;
  #isOrphaned = false;

  constructor(settings: WorkerSettings, parent: Parent, clock: Clock) {
    this.settings = settings;
    this.#parent = parent;
    this.#clock = clock;
    parent.onMessage((message) => this.#onMessage(message as ToWorker));
    // Without its supervisor nobody would stop or restart this worker.
    parent.onDisconnect(() => {
      this.#isOrphaned = true;
      if (!this.#isStopping) this.#signal("SIGTERM");
    });
  }

  /** Signals come through the supervisor: a terminal or a service manager may send the system's to all processes at once. */
  onSignal(name: Signal, run: () => void): () => void {
    const handlers = this.#handlers.get(name) ?? new Set();
    this.#handlers.set(name, handlers.add(run));
    // The supervisor exited during the start.
    if (this.#isOrphaned && name === "SIGTERM") run();
    return () => void handlers.delete(run);
  }

  /** Reports to the supervisor that this worker serves. @param reads what the supervisor asks for */
  listening(reads: WorkerReads): void {
    this.#reads = reads;
    this.#send({ kind: "listening" });
  }

  /** @returns undefined when the supervisor does not answer in time */
  ask<Q extends Question>(about: Q, asked?: OpenCallsQuestion): Promise<Answers[Q] | undefined> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve) => {
      const settle = (answer: unknown) => {
        cancelTimer();
        this.#pending.delete(id);
        resolve(answer as Answers[Q] | undefined);
      };
      const cancelTimer = this.#clock.setTimer(answerTimeoutMs, () => settle(undefined));
      this.#pending.set(id, settle);
      this.#send({ kind: "question", id, about, ...(asked && { asked }) } as ToSupervisor);
    });
  }

  #onMessage(message: ToWorker): void {
    switch (message.kind) {
      case "signal":
        if (message.again !== true || !this.#isStopping) this.#signal(message.name);
        break;
      case "answer":
        this.#pending.get(message.id)?.(message.answer);
        break;
      case "read": {
        const { id, about, asked } = message;
        const value = (this.#reads?.[about] as ((...asked: readonly unknown[]) => unknown) | undefined)?.(...asked);
        if (value !== undefined) this.#send({ kind: "read", id, value });
      }
    }
  }

  #signal(name: Signal): void {
    this.#isStopping ||= name !== "SIGHUP";
    for (const run of this.#handlers.get(name) ?? []) run();
  }

  #send(message: ToSupervisor): void {
    this.#parent.send(message);
  }
}
