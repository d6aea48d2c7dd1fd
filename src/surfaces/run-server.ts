/** `troupe serve`: from the configuration to the exit code. */
import type { BuildInfo } from "../build-info.ts";
import type { Config } from "../config/config.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { createLogger, type Logger, type LogSink } from "../lib/log.ts";
import { RunningServer } from "./server.ts";

export type StopSignal = "SIGTERM" | "SIGINT" | "SIGHUP";

/** What a server needs of its process. */
export type ServerIo = {
  /** Where the log goes. */
  readonly logSink: LogSink;
  /** Writes beside the log, to the person who sits there. */
  say(text: string): void;
  /** Whether a person reads it. */
  readonly isTerminal: boolean;
  readonly behindForwardProxy: boolean;
  /** @returns how to stop listening */
  onSignal(signal: StopSignal, run: () => void): () => void;
};

export type RunOptions = {
  readonly io: ServerIo;
  readonly build: BuildInfo;
  readonly clock?: Clock;
  /** Reads the configuration anew. @returns undefined when it is at fault, after having said so in the log */
  readonly reload: (log: Logger) => Promise<Config | undefined>;
};

/** Answers until it is told to stop. @returns the exit code; 128 and the signal's number where a second one cut it short */
export async function runServer(config: Config, options: RunOptions): Promise<number> {
  const { io, build, clock = systemClock } = options;
  const log = createLogger(io.logSink, {
    level: config.log.level,
    pretty: config.log.format === "pretty" || (config.log.format === "auto" && io.isTerminal),
    now: () => clock.now(),
  });
  try {
    const server = await RunningServer.start(config, {
      build,
      clock,
      log,
      behindForwardProxy: io.behindForwardProxy,
    });
    welcome(server, log, io);
    return await untilStopped(server, config, log, options);
  } catch (error) {
    log.error("could not start", { error: error instanceof Error ? error.message : error });
    return 1;
  } finally {
    await log.flush();
  }
}

function welcome({ services, addresses }: RunningServer, log: Logger, { isTerminal, say }: ServerIo): void {
  const { build, personas, live, firstKey } = services;
  const providers = live.accounts.list().filter(({ provider }) => provider.kind === "remote");
  log.info("listening", {
    addresses: addresses.join(" "),
    version: build.version,
    personas: personas.list().length,
    providers: providers.map(({ account }) => account.name).join(",") || "none (builtin/eliza answers)",
  });
  if (firstKey === undefined) return;
  const file = `${live.config.data}/first-key`;
  log.info("made the first API key", { file, tier: firstKey.key.tier });
  // The log hides keys wherever they slip in; this one is meant to be seen, once, by whoever sits there.
  if (isTerminal) say(`\n  Your API key: ${firstKey.secret}\n  (kept in ${file})\n\n`);
}

async function untilStopped(server: RunningServer, config: Config, log: Logger, options: RunOptions): Promise<number> {
  const { io } = options;
  const cut = Promise.withResolvers<number>();
  const told = Promise.withResolvers<void>();
  let signals = 0;
  const stop = (name: StopSignal, number: number) => () => {
    signals += 1;
    log.info(signals === 1 ? "stopping: what runs may end" : "stopping at once", {
      signal: name,
      pending: server.pending,
    });
    if (signals === 1) told.resolve();
    else cut.resolve(128 + number);
  };
  const offs = [
    io.onSignal("SIGTERM", stop("SIGTERM", 15)),
    io.onSignal("SIGINT", stop("SIGINT", 2)),
    io.onSignal("SIGHUP", () => void reload(server, log, options)),
  ];
  try {
    await told.promise;
    const drained = server.stop(config.shutdown.drainSeconds).then((lost) => {
      log.info("stopped", { cut: lost });
      return 0;
    });
    return await Promise.race([drained, cut.promise]);
  } finally {
    for (const off of offs) off();
  }
}

async function reload(server: RunningServer, log: Logger, options: RunOptions): Promise<void> {
  const config = await options.reload(log);
  if (config === undefined) {
    log.error("the configuration was not reloaded; the one in force stays");
    return;
  }
  server.reload(config);
  log.info("configuration reloaded", { providers: config.providers.map(({ name }) => name).join(",") });
}
