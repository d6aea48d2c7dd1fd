/** `troupe serve`: from the configuration to the exit code. */

import type { NewKey } from "../auth/keys.ts";
import type { BuildInfo } from "../build-info.ts";
import type { Config } from "../config/config.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { watchFiles } from "../lib/file-watch.ts";
import type { Child, Io, Signal } from "../lib/io.ts";
import type { Notifier } from "../lib/linux/sd-notify.ts";
import { createLogger, type Logger, type LogSink, withFields } from "../lib/log.ts";
import type { TelemetrySettings } from "../observability/otlp/settings.ts";
import { RunningServer } from "./server.ts";
import { startNewProcess } from "./upgrade.ts";
import type { WorkerChannel } from "./worker.ts";

/** What a server needs of its process. */
export type ServerIo = Pick<Io, "onSignal" | "processes"> & {
  /** Where the log goes. */
  readonly logSink: LogSink;
  /** Writes beside the log, to the person who sits there. */
  say(text: string): void;
  /** Whether a person reads it. */
  readonly isTerminal: boolean;
  readonly behindForwardProxy: boolean;
  /** The process to take over from, which started this one. */
  readonly predecessor?: number;
};

export type RunOptions = {
  readonly io: ServerIo;
  readonly build: BuildInfo;
  readonly clock?: Clock;
  /** The processes that serve together with this one. */
  readonly workerChannel?: WorkerChannel;
  /** Who is told how it goes. */
  readonly notifier: Notifier;
  /** Where traces and metrics are sent; absent: nowhere. */
  readonly telemetry?: TelemetrySettings;
  /** Reads the configuration anew. @returns undefined when it is at fault, after having said so in the log */
  readonly reload: (log: Logger) => Promise<Config | undefined>;
  /** The files that the configuration came from at its latest reading; a change of one is a reason to read again. */
  readonly watched: () => readonly string[];
};

/** Answers until it is told to stop. @returns the exit code; 128 and the signal's number where a second one cut it short */
export async function runServer(config: Config, options: RunOptions): Promise<number> {
  const { io, build, clock = systemClock, workerChannel } = options;
  const log = logFor(config, io, clock, workerChannel?.slot.index);
  try {
    const server = await RunningServer.start(config, {
      build,
      clock,
      log,
      behindForwardProxy: io.behindForwardProxy,
      isUpgrade: workerChannel?.slot.isUpgrade ?? io.predecessor !== undefined,
      ...(workerChannel && { workerChannel }),
      ...(options.telemetry && { telemetry: options.telemetry }),
    });
    // Who waits for this process is told when all of it is there; the gateway answers before.
    await server.services.loading;
    welcome(server, log, io);
    return await new ServerProcess(server, log, clock, options).run();
  } catch (error) {
    log.error("could not start", { error: error instanceof Error ? error.message : error });
    return 1;
  } finally {
    await log.flush();
  }
}

function welcome({ services, addresses }: RunningServer, log: Logger, io: ServerIo): void {
  const { build, personas, live, firstKey, workers } = services;
  const providers = live.accounts.list().filter(({ provider }) => provider.kind === "remote");
  // Of several workers the supervisor tells, once for all.
  log[workers === undefined ? "info" : "debug"]("listening", {
    addresses: addresses.join(" "),
    version: build.version,
    personas: personas.list().length,
    providers: providers.map(({ account }) => account.name).join(",") || "none (builtin/eliza answers)",
  });
  if (firstKey !== undefined) tellFirstKey(firstKey, live.config, log, io);
}

export function tellFirstKey(firstKey: NewKey, config: Config, log: Logger, { isTerminal, say }: ServerIo): void {
  const file = `${config.data}/first-key`;
  log.info("made the first API key", { file, tier: firstKey.key.tier });
  // The log hides keys wherever they slip in; this one is meant to be seen, once, by whoever sits there.
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

type Ending = "stopped" | "succeeded";

/** Waits on a running server: hears signals, sees changed files, and tells the service manager. */
class ServerProcess {
  readonly #server: RunningServer;
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #options: RunOptions;
  readonly #ending = Promise.withResolvers<Ending>();
  readonly #cut = Promise.withResolvers<number>();
  /** Reloads run one after another. */
  #reloading: Promise<void> = Promise.resolve();
  #stopWatching = () => {};
  #told = false;
  #successor: Child | undefined;

  constructor(server: RunningServer, log: Logger, clock: Clock, options: RunOptions) {
    this.#server = server;
    this.#log = log;
    this.#clock = clock;
    this.#options = options;
  }

  /** @returns the exit code */
  async run(): Promise<number> {
    const { io, notifier } = this.#options;
    const on = (signal: Signal, run: () => void) => io.onSignal(signal, run);
    const offs = [
      on("SIGTERM", () => this.#stop("SIGTERM", 15)),
      on("SIGINT", () => this.#stop("SIGINT", 2)),
      on("SIGHUP", () => this.#reload()),
      on("SIGUSR2", () => this.#startNewProcess()),
      on("SIGUSR1", () => this.#handOff()),
      notifier.keepAlive(this.#clock),
      () => this.#stopWatching(),
    ];
    this.#watch();
    // The service manager hears of a successor from the process that it knows.
    const { metrics } = this.#server.services;
    this.#options.workerChannel?.listening(() => metrics.snapshot());
    if (io.predecessor === undefined) notifier.ready(this.#status);
    else io.processes.signal(io.predecessor, "SIGUSR1");
    try {
      return await Promise.race([this.#end(await this.#ending.promise), this.#cut.promise]);
    } finally {
      for (const off of offs) off();
    }
  }

  async #end(how: Ending): Promise<number> {
    const { drainSeconds } = this.#server.services.live.config.shutdown;
    if (how === "stopped") this.#options.notifier.stopping();
    const lost = await (how === "stopped" ? this.#server.stop(drainSeconds) : this.#server.handOff(drainSeconds));
    this.#log.info("stopped", { cut: lost });
    return 0;
  }

  #stop(signal: Signal, number: number): void {
    const { pending } = this.#server;
    this.#log.info(this.#told ? "stopping at once" : "stopping: what runs may end", { signal, pending });
    if (this.#told) this.#cut.resolve(128 + number);
    this.#told = true;
    this.#ending.resolve("stopped");
  }

  #reload(): void {
    this.#reloading = this.#reloading.then(async () => {
      this.#options.notifier.reloading();
      await this.#readAgain();
      this.#options.notifier.ready(this.#status);
      this.#watch();
    });
  }

  async #readAgain(): Promise<void> {
    const config = await this.#options.reload(this.#log);
    try {
      if (config === undefined) throw new Error("the configuration is at fault");
      const changed = this.#server.reload(config);
      this.#log.info("configuration reloaded", { changed: changed.join(", ") || "nothing" });
    } catch (error) {
      this.#log.error("the configuration was not reloaded; the one in force stays", {
        error: (error as Error).message,
      });
    }
    await this.#server.services.rereadPersonas();
  }

  /** Certificates are among the files, whatever the settings say of them. */
  #watch(): void {
    this.#stopWatching();
    this.#stopWatching = watchFiles(this.#options.watched(), () => this.#reload(), this.#clock);
  }

  #startNewProcess(): void {
    this.#successor ??= startNewProcess(this.#options.io.processes, this.#log, {
      mayStart: !this.#told,
      isEnding: () => this.#told,
      lost: () => {
        this.#successor = undefined;
      },
    });
  }

  #handOff(): void {
    // A worker is told by its supervisor, which started the successor.
    if ((this.#successor === undefined && this.#options.workerChannel === undefined) || this.#told) return;
    this.#told = true;
    if (this.#successor !== undefined) this.#options.notifier.mainProcess(this.#successor.id);
    this.#log.info("the successor takes over; what runs here may end", {
      process: this.#successor?.id,
      pending: this.#server.pending,
    });
    this.#ending.resolve("succeeded");
  }

  get #status(): string {
    return `Serving at ${this.#server.addresses.join(" ")}`;
  }
}
