/**
 * `workers`: this process serves nothing itself. It starts the processes that do, starts anew those that end, passes on
 * what it is told, and adds up what they count.
 */

import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Keys, type NewKey } from "../auth/keys.ts";
import type { Config, ListenerConfig } from "../config/config.ts";
import { parentVariable, workerVariable } from "../config/settings.ts";
import type { WorkerStatus } from "../http/services.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import type { Child, Signal, Worker } from "../lib/io.ts";
import type { Logger } from "../lib/log.ts";
import { Metrics } from "../observability/metrics.ts";
import { MetricsSum, type Snapshot } from "../observability/metrics-sum.ts";
import { LivenessLock } from "../store/sqlite/liveness-lock.ts";
import { openStore } from "../store/sqlite/store.ts";
import { readCertificate } from "./certificate.ts";
import { addressText, assertFree, connectionDrainSeconds } from "./listener.ts";
import { logFor, type RunOptions, tellFirstKey } from "./run.ts";
import { startNewProcess } from "./upgrade.ts";
import { fixedSettingsOf, type ToSupervisor, type ToWorker, type WorkerSlot } from "./worker.ts";

/** After a worker ended, the next is started after this time, doubled with each one that ended soon. */
const minPauseMs = 100;
const maxPauseMs = 30_000;
/** Having listened for so long, a worker counts as one that works. */
const provenMs = 10_000;
/** How often the workers' counts are asked for, so that few are lost with one that is killed. */
const askEveryMs = 10_000;
/** A worker that has missed so many questions one after another hangs, and is replaced. */
const maxMissed = 6;
const snapshotWithinMs = 1_000;
/** For closing files, after the time that running answers have. */
const closingMs = 10_000;

export type SupervisorOptions = Pick<RunOptions, "io" | "build" | "clock" | "notifier">;

/** One worker's place. */
type Post = {
  readonly index: number;
  worker: Worker | undefined;
  listensSince: number | undefined;
  /** Ends in a row, each soon after its start. */
  failures: number;
  missed: number;
};

/** Serves by workers until it is told to stop. @returns the exit code, as of a server that is alone */
export async function runSupervisor(config: Config, options: SupervisorOptions): Promise<number> {
  const { io, clock = systemClock } = options;
  const log = logFor(config, io, clock);
  try {
    const listen = settledAddresses(config.listen, io.predecessor !== undefined);
    const firstKey = prepareData(config, clock);
    using shared = new SharedFolder(config.data);
    return await new Supervisor({ ...config, listen }, shared.path, log, clock, options).run(firstKey);
  } catch (error) {
    log.error("could not start", { error: error instanceof Error ? error.message : error });
    return 1;
  } finally {
    await log.flush();
  }
}

/** With the ports that every worker is to take. @throws about an address or a certificate that can't be had */
function settledAddresses(listen: readonly ListenerConfig[], isUpgrade: boolean): readonly ListenerConfig[] {
  return listen.map((listener) => {
    const { address, tls } = listener;
    if (tls !== undefined) readCertificate(tls);
    const isTaken = isUpgrade && !(address.kind === "tcp" && address.port === 0);
    return isTaken ? listener : { ...listener, address: assertFree(address) };
  });
}

/** Once, before any worker looks. @throws StorageError */
function prepareData(config: Config, clock: Clock): NewKey | undefined {
  const store = openStore(config.data);
  try {
    return new Keys(store.keys, clock, config.tiers).ensureFirstKey(join(config.data, "first-key"));
  } finally {
    store.close();
  }
}

/** For what the workers share while they run; gone with this process, or found by the next one. */
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
    this.#livenessLock.leave();
  }
}

class Supervisor {
  readonly #config: Config;
  readonly #folder: string;
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #options: SupervisorOptions;
  readonly #posts: readonly Post[];
  readonly #metrics: Metrics;
  readonly #sum = new MetricsSum();
  readonly #ended = Promise.withResolvers<number>();
  readonly #snapshotsAwaited = new Map<number, (worker: number, snapshot: Snapshot) => void>();
  readonly #offs = new Set<() => void>();
  #questions = 0;
  #restarts = 0;
  /** All have listened once. */
  #isUp = false;
  #isStopping = false;
  /** What a second signal makes of the exit code. */
  #code = 0;
  #successor: Child | undefined;

  constructor(config: Config, folder: string, log: Logger, clock: Clock, options: SupervisorOptions) {
    this.#config = config;
    this.#folder = folder;
    this.#log = log;
    this.#clock = clock;
    this.#options = options;
    this.#posts = Array.from({ length: config.workers }, (_, at) => ({
      index: at + 1,
      worker: undefined,
      listensSince: undefined,
      failures: 0,
      missed: 0,
    }));
    this.#metrics = new Metrics(options.build);
    this.#metrics.sample("troupe_workers", "Workers that listen.", () => this.#status.running);
    this.#metrics.sample("troupe_worker_restarts", "Workers that ended and were replaced.", () => this.#restarts);
  }

  async run(firstKey: NewKey | undefined): Promise<number> {
    const { io, notifier } = this.#options;
    const on = (signal: Signal, run: () => void) => this.#offs.add(io.onSignal(signal, run));
    on("SIGTERM", () => this.#stop("SIGTERM", 15));
    on("SIGINT", () => this.#stop("SIGINT", 2));
    on("SIGHUP", () => this.#tellAll({ kind: "signal", name: "SIGHUP" }));
    on("SIGUSR2", () => this.#startNewProcess());
    on("SIGUSR1", () => this.#handOff());
    this.#offs.add(notifier.keepAlive(this.#clock));
    if (firstKey !== undefined) tellFirstKey(firstKey, this.#config, this.#log, io);
    for (const post of this.#posts) this.#start(post);
    try {
      return await this.#ended.promise;
    } finally {
      for (const off of this.#offs) off();
    }
  }

  #start(post: Post): void {
    const { processes, predecessor } = this.#options.io;
    const slot: WorkerSlot = {
      index: post.index,
      workers: this.#posts.length,
      folder: this.#folder,
      isUpgrade: predecessor !== undefined && !this.#isUp,
      fixed: fixedSettingsOf(this.#config),
    };
    // The service manager and a predecessor are this process' to talk to.
    const env = { [workerVariable]: JSON.stringify(slot), [parentVariable]: "", NOTIFY_SOCKET: "" };
    const worker = processes.startWorker(env, (message) => {
      // Of one that has ended, nothing counts any more.
      if (post.worker === worker) this.#hear(post, message as ToSupervisor);
    });
    post.worker = worker;
    post.missed = 0;
    void worker.ended.then((code) => this.#left(post, code));
  }

  #hear(post: Post, message: ToSupervisor): void {
    switch (message.kind) {
      case "listening":
        post.listensSince = this.#clock.monotonic();
        this.#arrived(post);
        break;
      case "snapshot":
        this.#snapshotsAwaited.get(message.id)?.(post.index, message.snapshot);
        break;
      case "question":
        void this.#answer(post, message.id, message.about);
    }
  }

  #arrived(post: Post): void {
    const { build, notifier, io } = this.#options;
    if (this.#isUp) {
      this.#log.info("a worker was replaced", { worker: post.index, process: post.worker?.id });
      notifier.status(this.#statusText);
      return;
    }
    if (this.#status.running < this.#posts.length) return;
    this.#isUp = true;
    this.#log.info("listening", {
      addresses: this.#addresses,
      version: build.version,
      workers: this.#posts.length,
      providers: this.#config.providers.map(({ name }) => name).join(",") || "none (builtin/eliza answers)",
    });
    if (io.predecessor === undefined) notifier.ready(this.#statusText);
    else io.processes.signal(io.predecessor, "SIGUSR1");
    this.#askRegularly();
  }

  #left(post: Post, code: number): void {
    const { index, worker, listensSince } = post;
    post.worker = undefined;
    post.listensSince = undefined;
    this.#sum.retire(index);
    if (this.#isStopping) {
      if (listensSince !== undefined) this.#code ||= code;
      if (this.#posts.every((one) => one.worker === undefined)) this.#ended.resolve(this.#code);
      return;
    }
    this.#log.error("a worker ended", { worker: index, process: worker?.id, code });
    if (!this.#isUp) {
      this.#code = 1;
      this.#isStopping = true;
      this.#killAll();
      if (this.#posts.every((one) => one.worker === undefined)) this.#ended.resolve(1);
      return;
    }
    const proven = listensSince !== undefined && this.#clock.monotonic() - listensSince >= provenMs;
    post.failures = proven ? 0 : post.failures + 1;
    this.#restarts += 1;
    this.#options.notifier.status(this.#statusText);
    const pauseMs = Math.min(maxPauseMs, minPauseMs * 2 ** Math.max(0, post.failures - 1));
    this.#setTimer(pauseMs, () => {
      if (!this.#isStopping) this.#start(post);
    });
  }

  #stop(signal: Signal, number: number): void {
    this.#log.info(this.#isStopping ? "stopping at once" : "stopping: what runs may end", { signal });
    if (this.#isStopping) {
      this.#code = 128 + number;
      this.#tellAll({ kind: "signal", name: signal });
      this.#setTimer(snapshotWithinMs, () => this.#killAll());
      return;
    }
    this.#options.notifier.stopping();
    this.#drain(signal, 0);
  }

  /** @param connectionDrainMs how long workers wait before they stop listening */
  #drain(signal: Signal, connectionDrainMs: number): void {
    this.#isStopping = true;
    for (const { worker, listensSince } of this.#posts) {
      // One that is only starting would not hear it.
      if (listensSince === undefined) worker?.kill();
      else worker?.send({ kind: "signal", name: signal } satisfies ToWorker);
    }
    const maxMs = connectionDrainMs + this.#config.shutdown.drainSeconds * 1000 + closingMs;
    this.#setTimer(maxMs, () => this.#killAll());
    if (this.#posts.every(({ worker }) => worker === undefined)) this.#ended.resolve(0);
  }

  /** As of a server that is alone: the successor brings workers of its own. */
  #startNewProcess(): void {
    this.#successor ??= startNewProcess(this.#options.io.processes, this.#log, {
      mayStart: !this.#isStopping && this.#isUp,
      isEnding: () => this.#isStopping,
      lost: () => {
        this.#successor = undefined;
      },
    });
  }

  #handOff(): void {
    if (this.#successor === undefined || this.#isStopping) return;
    this.#options.notifier.mainProcess(this.#successor.id);
    this.#log.info("the successor takes over; what runs here may end", { process: this.#successor.id });
    this.#drain("SIGUSR1", connectionDrainSeconds * 1000);
  }

  #tellAll(message: ToWorker): void {
    for (const { worker } of this.#posts) worker?.send(message);
  }

  #killAll(): void {
    for (const { worker } of this.#posts) worker?.kill();
  }

  #askRegularly(): void {
    this.#setTimer(askEveryMs, async () => {
      const answered = await this.#refresh();
      for (const post of this.#posts) {
        post.missed = post.listensSince === undefined || answered.has(post.index) ? 0 : post.missed + 1;
        if (post.missed < maxMissed) continue;
        this.#log.error("a worker hangs and is replaced", { worker: post.index, process: post.worker?.id });
        post.worker?.kill();
      }
      if (!this.#isStopping) this.#askRegularly();
    });
  }

  async #answer(post: Post, id: number, about: "metrics" | "status"): Promise<void> {
    const answer = about === "status" ? this.#status : await this.#renderMetrics();
    post.worker?.send({ kind: "answer", id, answer } satisfies ToWorker);
  }

  /** Of a worker that does not answer in time, what it said last counts. */
  async #renderMetrics(): Promise<string> {
    await this.#refresh();
    return this.#sum.render(await this.#metrics.snapshot());
  }

  /** Asks the workers for their counts. @returns who answered in time */
  #refresh(): Promise<Set<number>> {
    this.#questions += 1;
    const id = this.#questions;
    const asked = this.#posts.filter(({ listensSince }) => listensSince !== undefined);
    const answered = new Set<number>();
    return new Promise((resolve) => {
      const settle = () => {
        off();
        this.#snapshotsAwaited.delete(id);
        resolve(answered);
      };
      const off = this.#setTimer(snapshotWithinMs, settle);
      this.#snapshotsAwaited.set(id, (worker, snapshot) => {
        answered.add(worker);
        this.#sum.keep(worker, snapshot);
        if (answered.size === asked.length) settle();
      });
      if (asked.length === 0) settle();
      for (const { worker } of asked) worker?.send({ kind: "snapshot", id } satisfies ToWorker);
    });
  }

  /** Called off when this process ends. */
  #setTimer(ms: number, run: () => void): () => void {
    const cancelTimer = this.#clock.setTimer(ms, () => {
      this.#offs.delete(cancelTimer);
      run();
    });
    this.#offs.add(cancelTimer);
    return () => {
      this.#offs.delete(cancelTimer);
      cancelTimer();
    };
  }

  get #status(): WorkerStatus {
    const running = this.#posts.filter(({ listensSince }) => listensSince !== undefined).length;
    return { workers: this.#posts.length, running, restarts: this.#restarts };
  }

  get #addresses(): string {
    return this.#config.listen.map(addressText).join(" ");
  }

  get #statusText(): string {
    const { running, workers } = this.#status;
    return `Serving at ${this.#addresses} by ${running} of ${workers} workers`;
  }
}
