/**
 * The supervisor of `workers`: serves no requests itself. It starts the workers, restarts those that exit, forwards signals to
 * them, and sums up their metrics.
 */

import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Keys, type NewKey } from "../auth/keys.ts";
import type { WorkerStatus, WorkersCalls, WorkersPools } from "../call/services.ts";
import type { Config, ListenerConfig } from "../config/config.ts";
import { parentVariable, workerVariable } from "../config/settings.ts";
import { readCertificate } from "../lib/http/certificate.ts";
import type { Signal, Worker } from "../lib/process/io.ts";
import type { Logger } from "../lib/process/log.ts";
import type { SampledTable, Snapshot } from "../lib/process/metrics.ts";
import { type Clock, systemClock } from "../lib/time/clock.ts";
import { Metrics } from "../observability/metrics.ts";
import { MetricsSum } from "../observability/metrics-sum.ts";
import { openStoreFor } from "../store/open.ts";
import { LivenessLock } from "../store/sqlite/liveness-lock.ts";
import { firstKeyName } from "../store/sqlite/loss-guard.ts";
import { joinOpenCalls, type OpenCallsQuestion } from "../usage/ledger/open-calls.ts";
import { assertFree, connectionDrainSeconds, formatUrl } from "./listener.ts";
import { announceFirstKey, logFor, type RunOptions, stopMessages, untilLogged } from "./run.ts";
import { Upgrade } from "./upgrade.ts";
import { fixedSettingsOf, type ToSupervisor, type ToWorker, type WorkerReads, type WorkerSettings } from "./worker.ts";

/** Backoff before a worker is restarted, doubled with each early exit in a row. */
const minBackoffMs = 100;
const maxBackoffMs = 30_000;
/** An exit within this time after the worker began to listen is an early one. */
const stableMs = 10_000;
/** Between two snapshots of the workers' metrics: what was counted since the last one is lost with a worker that is killed. */
const snapshotIntervalMs = 10_000;
/** A worker that misses so many snapshots in a row hangs, and is replaced. */
const maxMissedSnapshots = 6;
const snapshotTimeoutMs = 1_000;
/** For closing files, after the drain timeout. */
const closeTimeoutMs = 10_000;

type SupervisorOptions = Pick<RunOptions, "io" | "build" | "clock" | "notifier">;

/** A worker slot: its current process, and how the latest ones have done. */
type Slot = {
  readonly index: number;
  worker: Worker | undefined;
  listensSince: number | undefined;
  earlyExits: number;
  missedSnapshots: number;
};

/** Serves by workers until it is stopped. @returns the exit code, as that of a single process */
export async function runSupervisor(config: Config, options: SupervisorOptions): Promise<number> {
  const { io, clock = systemClock } = options;
  const log = logFor(config, io, clock);
  return untilLogged(log, async () => {
    const listen = resolvePorts(config.listen, io.parentId !== undefined);
    const firstKey = await prepareData(config, clock, log);
    using shared = new SharedFolder(config.data);
    return await new Supervisor({ ...config, listen }, shared.path, log, clock, options).run(firstKey);
  });
}

/** The listeners with the ports that all workers use. @throws the system's error for an address, or an Error about a certificate */
function resolvePorts(listen: readonly ListenerConfig[], isUpgrade: boolean): readonly ListenerConfig[] {
  return listen.map((listener) => {
    const { address, tls } = listener;
    if (tls !== undefined) readCertificate(tls);
    const isTaken = isUpgrade && !(address.kind === "tcp" && address.port === 0);
    return isTaken ? listener : { ...listener, address: assertFree(address) };
  });
}

/** Opens store and data folder once, before any worker does. @throws StorageError */
async function prepareData(config: Config, clock: Clock, log: Logger): Promise<NewKey | undefined> {
  const store = await openStoreFor(config, log);
  try {
    return await new Keys(store.keys, clock, config.tiers).ensureFirstKey(join(config.data, firstKeyName));
  } finally {
    await store.close();
  }
}

/** A folder for what the workers share while they run; removed at the exit, or after a crash by the next supervisor. */
class SharedFolder implements Disposable {
  readonly path: string;
  readonly #livenessLock: LivenessLock;

  constructor(dataFolder: string) {
    this.#livenessLock = new LivenessLock(dataFolder);
    const above = join(dataFolder, "workers");
    this.path = join(above, this.#livenessLock.id);
    mkdirSync(this.path, { recursive: true, mode: 0o700 });
    for (const id of readdirSync(above)) {
      if (!this.#livenessLock.isAlive(id)) rmSync(join(above, id), { recursive: true, force: true });
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
    this.#livenessLock.release();
  }
}

class Supervisor {
  readonly #config: Config;
  readonly #folder: string;
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #options: SupervisorOptions;
  readonly #slots: readonly Slot[];
  readonly #metrics: Metrics;
  readonly #sum = new MetricsSum();
  readonly #ended = Promise.withResolvers<number>();
  /** What is asked of all workers, by its number. */
  readonly #pending = new Map<number, (worker: number, value: unknown) => void>();
  readonly #cancels = new Set<() => void>();
  #lastId = 0;
  #restarts = 0;
  /** All have listened once. */
  #isUp = false;
  #isStopping = false;
  /** What its workers are stopped by. */
  #stopSignal: Signal = "SIGTERM";
  /** The exit code, which a second signal or a worker changes. */
  #code = 0;
  readonly #upgrade: Upgrade;

  constructor(config: Config, folder: string, log: Logger, clock: Clock, options: SupervisorOptions) {
    this.#config = config;
    this.#folder = folder;
    this.#log = log;
    this.#clock = clock;
    this.#options = options;
    this.#slots = Array.from({ length: config.workers }, (_, at) => ({
      index: at + 1,
      worker: undefined,
      listensSince: undefined,
      earlyExits: 0,
      missedSnapshots: 0,
    }));
    const { io, notifier } = options;
    this.#upgrade = new Upgrade({ processes: io.processes, log, notifier, isStopping: () => this.#isStopping });
    this.#metrics = new Metrics(options.build);
    this.#metrics.sample(supervisorMetrics, () => this.#status);
  }

  async run(firstKey: NewKey | undefined): Promise<number> {
    const { io, notifier } = this.#options;
    const on = (signal: Signal, run: () => void) => this.#cancels.add(io.onSignal(signal, run));
    on("SIGTERM", () => this.#stop("SIGTERM", 15));
    on("SIGINT", () => this.#stop("SIGINT", 2));
    on("SIGHUP", () => this.#broadcast({ kind: "signal", name: "SIGHUP" }));
    // The new process is a supervisor, with its own workers.
    on("SIGUSR2", () => this.#upgrade.start(!this.#isStopping && this.#isUp));
    on("SIGUSR1", () => this.#handOff());
    this.#cancels.add(notifier.keepAlive(this.#clock));
    if (firstKey !== undefined) announceFirstKey(firstKey, this.#config, this.#log, io);
    for (const slot of this.#slots) this.#start(slot);
    try {
      return await this.#ended.promise;
    } finally {
      for (const cancel of this.#cancels) cancel();
    }
  }

  #start(slot: Slot): void {
    const { processes, parentId } = this.#options.io;
    const settings: WorkerSettings = {
      index: slot.index,
      workers: this.#slots.length,
      folder: this.#folder,
      isUpgrade: parentId !== undefined && !this.#isUp,
      fixed: fixedSettingsOf(this.#config),
    };
    // The supervisor alone talks to the service manager and to a parent process.
    const env = { [workerVariable]: JSON.stringify(settings), [parentVariable]: "", NOTIFY_SOCKET: "" };
    const worker = processes.startWorker(env, (message) => {
      // Messages of a process that was replaced are dropped.
      if (slot.worker === worker) this.#onMessage(slot, message as ToSupervisor);
    });
    slot.worker = worker;
    slot.missedSnapshots = 0;
    void worker.ended.then((code) => this.#onExit(slot, code));
  }

  #onMessage(slot: Slot, message: ToSupervisor): void {
    switch (message.kind) {
      case "listening":
        slot.listensSince = this.#clock.monotonic();
        if (this.#isStopping) slot.worker?.send({ kind: "signal", name: this.#stopSignal, again: true });
        this.#onListening(slot);
        break;
      case "read":
        this.#pending.get(message.id)?.(slot.index, message.value);
        break;
      case "question":
        void this.#answer(slot, message);
    }
  }

  #onListening(slot: Slot): void {
    const { build, notifier, io } = this.#options;
    if (this.#isUp) {
      this.#log.info("worker restarted", { worker: slot.index, process: slot.worker?.id });
      notifier.status(this.#statusText);
      return;
    }
    if (this.#status.running < this.#slots.length) return;
    this.#isUp = true;
    this.#log.info("listening", {
      addresses: this.#addresses,
      version: build.version,
      workers: this.#slots.length,
      providers: this.#config.providers.map(({ name }) => name).join(",") || "none (builtin/eliza answers)",
    });
    if (io.parentId === undefined) notifier.ready(this.#statusText);
    else io.processes.signal(io.parentId, "SIGUSR1");
    this.#scheduleSnapshots();
  }

  #onExit(slot: Slot, code: number): void {
    const { index, worker, listensSince } = slot;
    slot.worker = undefined;
    slot.listensSince = undefined;
    this.#sum.retire(index);
    if (this.#isStopping) {
      if (listensSince !== undefined) this.#code ||= code;
      if (this.#slots.every((one) => one.worker === undefined)) this.#ended.resolve(this.#code);
      return;
    }
    this.#log.error("worker exited", { worker: index, process: worker?.id, code });
    if (!this.#isUp) {
      this.#code = 1;
      this.#isStopping = true;
      this.#killAll();
      if (this.#slots.every((one) => one.worker === undefined)) this.#ended.resolve(1);
      return;
    }
    const isStable = listensSince !== undefined && this.#clock.monotonic() - listensSince >= stableMs;
    slot.earlyExits = isStable ? 0 : slot.earlyExits + 1;
    this.#restarts += 1;
    this.#options.notifier.status(this.#statusText);
    const backoffMs = Math.min(maxBackoffMs, minBackoffMs * 2 ** Math.max(0, slot.earlyExits - 1));
    this.#setTimer(backoffMs, () => {
      if (!this.#isStopping) this.#start(slot);
    });
  }

  #stop(signal: Signal, number: number): void {
    this.#log.info(this.#isStopping ? stopMessages.second : stopMessages.first, { signal });
    if (this.#isStopping) {
      this.#code = 128 + number;
      this.#broadcast({ kind: "signal", name: signal });
      this.#setTimer(snapshotTimeoutMs, () => this.#killAll());
      return;
    }
    this.#options.notifier.stopping();
    this.#drain(signal, this.#config.shutdown.delaySeconds * 1000);
  }

  /** @param delayMs for how long workers go on before they stop listening */
  #drain(signal: Signal, delayMs: number): void {
    this.#isStopping = true;
    this.#stopSignal = signal;
    for (const { worker, listensSince } of this.#slots) {
      // A worker that is still starting may answer already, and drains; it can't hand anything off.
      if (listensSince === undefined && signal === "SIGUSR1") worker?.kill();
      else worker?.send({ kind: "signal", name: signal } satisfies ToWorker);
    }
    const maxMs = delayMs + this.#config.shutdown.drainSeconds * 1000 + closeTimeoutMs;
    this.#setTimer(maxMs, () => this.#killAll());
    if (this.#slots.every(({ worker }) => worker === undefined)) this.#ended.resolve(0);
  }

  #handOff(): void {
    if (!this.#upgrade.isUnderWay || this.#isStopping) return;
    this.#upgrade.handOff();
    this.#drain("SIGUSR1", connectionDrainSeconds(this.#config) * 1000);
  }

  #broadcast(message: ToWorker): void {
    for (const { worker } of this.#slots) worker?.send(message);
  }

  #killAll(): void {
    for (const { worker } of this.#slots) worker?.kill();
  }

  #scheduleSnapshots(): void {
    this.#setTimer(snapshotIntervalMs, () => void this.#checkWorkers());
  }

  /** Collects the workers' snapshots, and kills workers that missed too many of them. */
  async #checkWorkers(): Promise<void> {
    const answered = await this.#collectSnapshots();
    for (const slot of this.#slots) {
      slot.missedSnapshots = slot.listensSince === undefined || answered.has(slot.index) ? 0 : slot.missedSnapshots + 1;
      if (slot.missedSnapshots < maxMissedSnapshots) continue;
      this.#log.error("worker does not respond and is killed", { worker: slot.index, process: slot.worker?.id });
      slot.worker?.kill();
    }
    if (!this.#isStopping) this.#scheduleSnapshots();
  }

  async #answer(slot: Slot, question: ToSupervisor & { readonly kind: "question" }): Promise<void> {
    const { id, about } = question;
    const answer =
      about === "status"
        ? this.#status
        : about === "calls"
          ? await this.#collectCalls(question.asked)
          : about === "pools"
            ? await this.#collectPools()
            : await this.#renderMetrics();
    slot.worker?.send({ kind: "answer", id, answer } satisfies ToWorker);
  }

  async #collectPools(): Promise<WorkersPools> {
    return { workers: this.#slots.length, views: [...(await this.#collect("pools")).values()] };
  }

  async #collectCalls(asked: OpenCallsQuestion): Promise<WorkersCalls> {
    const answers = await this.#collect("calls", asked);
    const calls = joinOpenCalls([...answers.values()], asked.limit);
    return { ...calls, workers: this.#slots.length, answered: answers.size };
  }

  /** For a worker that does not answer in time its last snapshot counts. */
  async #renderMetrics(): Promise<string> {
    await this.#collectSnapshots();
    return this.#sum.render(this.#metrics.snapshot());
  }

  /** Asks the workers for snapshots. @returns those that answered in time */
  async #collectSnapshots(): Promise<ReadonlyMap<number, Snapshot>> {
    const answers = await this.#collect("snapshot");
    for (const [worker, snapshot] of answers) this.#sum.keep(worker, snapshot);
    return answers;
  }

  /** Asks all workers that listen. @returns the answers that came in time, by their workers' indexes */
  #collect<About extends keyof WorkerReads>(
    about: About,
    ...asked: Parameters<WorkerReads[About]>
  ): Promise<ReadonlyMap<number, ReturnType<WorkerReads[About]>>> {
    this.#lastId += 1;
    const id = this.#lastId;
    const slots = this.#slots.filter(({ listensSince }) => listensSince !== undefined);
    const answers = new Map<number, ReturnType<WorkerReads[About]>>();
    return new Promise((resolve) => {
      const settle = () => {
        cancelTimer();
        this.#pending.delete(id);
        resolve(answers);
      };
      const cancelTimer = this.#setTimer(snapshotTimeoutMs, settle);
      this.#pending.set(id, (worker, value) => {
        answers.set(worker, value as ReturnType<WorkerReads[About]>);
        if (answers.size === slots.length) settle();
      });
      if (slots.length === 0) settle();
      for (const { worker } of slots) worker?.send({ kind: "read", id, about, asked } satisfies ToWorker);
    });
  }

  /** A timer that is cancelled at the exit. */
  #setTimer(ms: number, run: () => void): () => void {
    const cancelTimer = this.#clock.setTimer(ms, () => {
      this.#cancels.delete(cancelTimer);
      run();
    });
    this.#cancels.add(cancelTimer);
    return () => {
      this.#cancels.delete(cancelTimer);
      cancelTimer();
    };
  }

  get #status(): WorkerStatus {
    const running = this.#slots.filter(({ listensSince }) => listensSince !== undefined).length;
    return { workers: this.#slots.length, running, restarts: this.#restarts };
  }

  get #addresses(): string {
    return this.#config.listen.map(formatUrl).join(" ");
  }

  get #statusText(): string {
    const { running, workers } = this.#status;
    return `Serving at ${this.#addresses} by ${running} of ${workers} workers`;
  }
}

const supervisorMetrics: SampledTable<() => WorkerStatus> = {
  troupe_workers: { help: "Workers that listen.", read: (status) => status().running },
  troupe_worker_restarts_total: {
    help: "Workers that ended and were replaced.",
    read: (status) => status().restarts,
  },
};
