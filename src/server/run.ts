/** `troupe serve`: from the configuration to the exit code. */

import type { NewKey } from "../auth/keys.ts";
import { type BuildInfo, factsKeys } from "../build-info.ts";
import type { Config } from "../config/config.ts";
import type { LoadResult, OriginsOf } from "../config/load.ts";
import type { Environment } from "../config/variables.ts";
import { type ReadFiles, type Watch, watchFiles } from "../lib/files/file-watch.ts";
import type { Notifier } from "../lib/linux/sd-notify.ts";
import { returnMemoryWhenQuiet } from "../lib/process/garbage-collection.ts";
import type { Io, Signal } from "../lib/process/io.ts";
import { createLogger, type Logger, type LogSink, withFields } from "../lib/process/log.ts";
import { type Clock, systemClock } from "../lib/time/clock.ts";
import type { TelemetrySettings } from "../observability/otlp/settings.ts";
import { firstKeyName } from "../store/sqlite/loss-guard.ts";
import { openCalls } from "../usage/ledger/open-calls.ts";
import { RunningServer } from "./server.ts";
import { Upgrade } from "./upgrade.ts";
import type { WorkerChannel } from "./worker.ts";

/** The process as a server needs it. */
export type ServerIo = Pick<Io, "onSignal" | "processes"> & {
  /** The destination of the log. */
  readonly logSink: LogSink;
  /** Writes to the terminal, outside the log. */
  say(text: string): void;
  /** True if the log goes to a terminal. */
  readonly isTerminal: boolean;
  readonly behindForwardProxy: boolean;
  /** Variables, for credentials of providers without a key. */
  readonly env: Environment;
  /** The process id of the parent that hands off to this process, in an upgrade. */
  readonly parentId?: number;
};

export type RunOptions = {
  readonly io: ServerIo;
  readonly build: BuildInfo;
  readonly clock?: Clock;
  /** Present in a worker. */
  readonly workerChannel?: WorkerChannel;
  /** Reports to the service manager. */
  readonly notifier: Notifier;
  /** The destination of traces and metrics; absent: there is none. */
  readonly telemetry?: TelemetrySettings;
  /** Reads the configuration anew. @returns undefined when it is invalid; the errors are logged */
  readonly reload: (log: Logger) => Promise<Config | undefined>;
  readonly originsOf: OriginsOf;
  /** Reads the configuration as its files are now, without taking it over. */
  readonly readConfiguration: () => LoadResult;
  /** The files that the configuration was last read from; a change of one triggers a reload. */
  readonly watchedFiles: () => ReadFiles;
};

/** Serves until it is stopped. @returns the exit code; 128 and the signal's number where a second signal forced the stop */
export async function runServer(config: Config, options: RunOptions): Promise<number> {
  const { io, build, clock = systemClock, workerChannel } = options;
  const log = logFor(config, io, clock, workerChannel?.settings.index);
  // Before the server listens: whoever saw it answer may stop it.
  const early = new EarlyStop(io, clock);
  const start = async () => {
    const server = await RunningServer.start(config, {
      build,
      clock,
      log,
      behindForwardProxy: io.behindForwardProxy,
      env: io.env,
      originsOf: options.originsOf,
      readConfiguration: options.readConfiguration,
      factsKeys,
      isUpgrade: workerChannel?.settings.isUpgrade ?? io.parentId !== undefined,
      ...(workerChannel && { workerChannel }),
      ...(options.telemetry && { telemetry: options.telemetry }),
    });
    // Ready means all of it; the gateway answers before.
    await server.services.loading;
    return server;
  };
  return untilLogged(log, async () => {
    const server = await Promise.race([start(), early.forced]);
    if (typeof server === "number") return server;
    // The executable begins with code that is compiled later: `build.ts`. What runs from here on runs again and again.
    Bun.unsafe.setJITPolicy(1);
    logStartup(server, log, io);
    void logLostAliases(server, log, options);
    return new ServerProcess(server, log, clock, options).run(early);
  });
}

type StopSignal = readonly [signal: "SIGTERM" | "SIGINT", number: number];

const stopSignals: readonly StopSignal[] = [
  ["SIGTERM", 15],
  ["SIGINT", 2],
];

/** How long a server that is stopped may go on starting until it can drain. */
const startMs = 5_000;

/** Signals that come while a server starts: the first one waits until it can drain, a second one, or a start that takes long, ends it at once. */
class EarlyStop {
  readonly #came: StopSignal[] = [];
  readonly #forced = Promise.withResolvers<number>();
  readonly #cancels: (() => void)[];

  constructor({ onSignal }: Pick<ServerIo, "onSignal">, clock: Clock) {
    this.#cancels = stopSignals.map((stop) =>
      onSignal(stop[0], () => {
        const force = () => this.#forced.resolve(128 + stop[1]);
        if (this.#came.push(stop) > 1) force();
        else this.#cancels.push(clock.setTimer(startMs, force));
      }),
    );
  }

  /** Settles with the exit code. */
  get forced(): Promise<number> {
    return this.#forced.promise;
  }

  /** Ends this. @returns the signals that came */
  take(): readonly StopSignal[] {
    for (const cancel of this.#cancels) cancel();
    return this.#came;
  }
}

/** Runs a server, and logs why it could not start. @returns the exit code, once the log is written */
export async function untilLogged(log: Logger, run: () => Promise<number>): Promise<number> {
  try {
    return await run();
  } catch (error) {
    log.error("could not start", { error: error instanceof Error ? error.message : error });
    return 1;
  } finally {
    await log.flush();
  }
}

function logStartup({ services, urls }: RunningServer, log: Logger, io: ServerIo): void {
  const { build, personas, live, firstKey, workers } = services;
  const providers = live.accounts.list().filter(({ provider }) => provider.kind === "remote");
  // For workers the supervisor logs this once.
  log[workers === undefined ? "info" : "debug"]("listening", {
    addresses: urls.join(" "),
    version: build.version,
    personas: personas.list().length,
    providers: providers.map(({ account }) => account.name).join(",") || "none (builtin/eliza answers)",
  });
  if (firstKey !== undefined) announceFirstKey(firstKey, live.config, log, io);
}

/** What `troupe check` calls an error, and no server can refuse to start for: a persona that an alias names may come back. */
async function logLostAliases(
  { services }: RunningServer,
  log: Logger,
  { originsOf, workerChannel }: Pick<RunOptions, "originsOf" | "workerChannel">,
): Promise<void> {
  const { config } = services.live;
  // For workers the first one says it.
  if (Object.keys(config.aliases).length === 0 || (workerChannel?.settings.index ?? 1) > 1) return;
  // Imported late: it loads the YAML library.
  const { lostAliases } = await import("../operate/checks/unknown-names.ts");
  const { errors, warnings } = lostAliases(services.personas.list(), { config, origins: originsOf(config) });
  for (const at of errors) log.error("an alias leads nowhere", { at });
  for (const at of warnings) log.warn("an alias leads nowhere yet", { at });
}

export function announceFirstKey(firstKey: NewKey, config: Config, log: Logger, { isTerminal, say }: ServerIo): void {
  const file = `${config.data}/${firstKeyName}`;
  log.info("made the first API key", { file, tier: firstKey.key.tier });
  // The log redacts keys; this one is shown once, to a person at the terminal.
  if (isTerminal) say(`\n  Your API key: ${firstKey.secret}\n  (kept in ${file})\n\n`);
}

/** @param worker its number among several */
export function logFor(config: Config, io: ServerIo, clock: Clock, worker?: number): Logger {
  const log = createLogger(io.logSink, {
    level: config.log.level,
    pretty: config.log.format === "pretty" || (config.log.format === "auto" && io.isTerminal),
    now: () => clock.now(),
  });
  return worker === undefined ? log : withFields(log, { worker });
}

/** Logged at the first and at the second signal. */
export const stopMessages = {
  first: "draining: requests under way may finish",
  second: "stopping at once: requests under way are aborted",
};

type Ending = "stopped" | "handed off";

/** A running server as a process: signals, changed files, the service manager, and the exit code. */
class ServerProcess {
  readonly #server: RunningServer;
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #options: RunOptions;
  readonly #ending = Promise.withResolvers<Ending>();
  readonly #forced = Promise.withResolvers<number>();
  /** Reloads run one after another. */
  #reloading: Promise<void> = Promise.resolve();
  #fileWatch: Watch | undefined;
  #isStopping = false;
  readonly #upgrade: Upgrade;

  constructor(server: RunningServer, log: Logger, clock: Clock, options: RunOptions) {
    this.#server = server;
    this.#log = log;
    this.#clock = clock;
    this.#options = options;
    const { io, notifier } = options;
    this.#upgrade = new Upgrade({ processes: io.processes, log, notifier, isStopping: () => this.#isStopping });
  }

  /** @returns the exit code */
  async run(early: EarlyStop): Promise<number> {
    const { io, notifier } = this.#options;
    const on = (signal: Signal, run: () => void) => io.onSignal(signal, run);
    const cancels = [
      ...stopSignals.map(([signal, number]) => on(signal, () => this.#stop(signal, number))),
      on("SIGHUP", () => this.#reload()),
      on("SIGUSR2", () => this.#upgrade.start(!this.#isStopping)),
      on("SIGUSR1", () => this.#handOff()),
      notifier.keepAlive(this.#clock),
      returnMemoryWhenQuiet(this.#clock),
      () => this.#fileWatch?.close(),
    ];
    const [came] = early.take();
    if (came !== undefined && !this.#isStopping) this.#stop(...came);
    this.#watch();
    const { services } = this.#server;
    const { metrics, ledger, clock } = services;
    this.#options.workerChannel?.listening({
      snapshot: () => metrics.snapshot(),
      calls: (asked) => openCalls(ledger.begun, asked, clock.now()),
      pools: () => services.pools.view(services.live.accounts),
    });
    // In an upgrade the parent process announces this one to the service manager.
    if (io.parentId === undefined) notifier.ready(this.#status);
    else io.processes.signal(io.parentId, "SIGUSR1");
    try {
      return await Promise.race([this.#end(await this.#ending.promise), this.#forced.promise]);
    } finally {
      for (const cancel of cancels) cancel();
    }
  }

  async #end(how: Ending): Promise<number> {
    const { delaySeconds, drainSeconds } = this.#server.services.live.config.shutdown;
    if (how === "stopped") {
      this.#options.notifier.stopping();
      await this.#server.announceStop(delaySeconds);
    }
    const aborted = await (how === "stopped" ? this.#server.stop(drainSeconds) : this.#server.handOff(drainSeconds));
    this.#log.info("stopped", { aborted });
    return 0;
  }

  #stop(signal: Signal, number: number): void {
    const { pending } = this.#server;
    this.#log.info(this.#isStopping ? stopMessages.second : stopMessages.first, { signal, pending });
    if (this.#isStopping) this.#forced.resolve(128 + number);
    this.#isStopping = true;
    this.#ending.resolve("stopped");
  }

  #reload(): void {
    this.#reloading = this.#reloading.then(async () => {
      this.#options.notifier.reloading();
      await this.#reloadConfig();
      this.#options.notifier.ready(this.#status);
      this.#watch();
    });
  }

  async #reloadConfig(): Promise<void> {
    const config = await this.#options.reload(this.#log);
    const { services } = this.#server;
    const at = this.#clock.now();
    try {
      if (config === undefined) throw new Error("the configuration is invalid");
      const changed = this.#server.reload(config);
      services.lastReload = { at, changed };
      this.#log.info("configuration reloaded", { changed: changed.join(", ") || "nothing" });
      if (changed.some((path) => path.startsWith("aliases"))) {
        void logLostAliases(this.#server, this.#log, this.#options);
      }
    } catch (error) {
      const { message } = error as Error;
      services.lastReload = { at, changed: [], error: message };
      this.#log.error("the configuration was not reloaded; the one in force stays", { error: message });
    }
    await services.rereadPersonas();
  }

  /** Certificates are among the files, whatever the settings say of them. */
  #watch(): void {
    this.#fileWatch?.close();
    this.#fileWatch = watchFiles(this.#options.watchedFiles(), () => this.#reload(), this.#clock);
  }

  #handOff(): void {
    // A worker gets SIGUSR1 from its supervisor, which started the new process.
    if ((!this.#upgrade.isUnderWay && this.#options.workerChannel === undefined) || this.#isStopping) return;
    this.#isStopping = true;
    this.#upgrade.handOff(this.#server.pending);
    this.#ending.resolve("handed off");
  }

  get #status(): string {
    return `Serving at ${this.#server.urls.join(" ")}`;
  }
}
