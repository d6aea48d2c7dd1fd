/** `troupe serve`: the server, with a configuration that it can read again. */
import { resolve } from "node:path";
import { buildInfo } from "../../build-info.ts";
import type { Config } from "../../config/config.ts";
import type { LoadedConfig } from "../../config/load.ts";
import { parentVariable, workerVariable } from "../../config/settings.ts";
import { digestOf } from "../../lib/files/file-watch.ts";
import { isBehindForwardProxy } from "../../lib/http/forward-proxy.ts";
import { Notifier } from "../../lib/linux/sd-notify.ts";
import type { Io } from "../../lib/process/io.ts";
import { inWholeLines, type Logger } from "../../lib/process/log.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { formatDiagnostic } from "../../lib/yaml/yaml.ts";
import { type TelemetrySettings, telemetrySettings } from "../../observability/otlp/settings.ts";
import type { ServerIo } from "../../server/run.ts";
import {
  fixedSettings,
  fixedSettingsOf,
  WorkerChannel,
  type WorkerSettings,
  workerConfig,
} from "../../server/worker.ts";
import { CommandError, type Context, type ExitCode, loadFrom, withConfig } from "../context.ts";
import { assertSqlite } from "./storage.ts";

export type ServeOptions = {
  /** True if a database that is lost or damaged gives way to a new one. */
  readonly newDatabase?: boolean;
};

export function serve(given: Context, { newDatabase }: ServeOptions = {}): Promise<ExitCode> {
  const files = new Map<string, string>();
  const context = recordingFiles(given, files);
  const origins = new WeakMap<Config, LoadedConfig["origins"]>();
  return withConfig(context, async (config, loaded) => {
    origins.set(config, loaded.origins);
    // The server is not loaded for the other commands.
    const { runServer } = await import("../../server/run.ts");
    const { io } = context;
    const workerChannel = workerChannelOf(io);
    const telemetry = telemetryFrom(io);
    const isFirst = workerChannel === undefined && !io.env[parentVariable];
    // A process that this one starts later is to stop at a database that is lost while it runs.
    if (newDatabase && isFirst) await giveUp(io, config);
    const options = {
      build: buildInfo,
      io: serverIo(io, workerChannel),
      notifier: new Notifier(io.env, io.processes.id),
      reload: async (log: Logger) => {
        files.clear();
        const found = reload(context, config, log);
        if (found === undefined) return undefined;
        // What needs a restart stays as it was, but for the certificates of addresses that are listened at.
        const own =
          workerChannel === undefined
            ? { ...found.config, ...fixedSettingsOf(config), listen: found.config.listen }
            : workerConfig(workerChannel.settings, found.config);
        origins.set(own, found.origins);
        return own;
      },
      originsOf: (one: Config) => origins.get(one) ?? loaded.origins,
      readConfiguration: () => loadFrom(given),
      watchedFiles: () => new Map(files),
      ...(telemetry && { telemetry }),
    };
    if (workerChannel !== undefined)
      return runServer(workerConfig(workerChannel.settings, config), { ...options, workerChannel });
    if (config.workers === 1) return runServer(config, options);
    const { runSupervisor } = await import("../../server/supervisor.ts");
    return runSupervisor(config, options);
  });
}

async function giveUp({ stderr }: Io, config: Config): Promise<void> {
  assertSqlite(config, "--new-database is for the data folder's database");
  const { data } = config;
  const { discardLost } = await import("../../store/sqlite/data-folder.ts");
  const left = await discardLost(data);
  if (left !== undefined)
    stderr.write(`warning: a new database takes the place of the one that was lost, ${left}; no old key opens it.\n`);
}

function telemetryFrom({ env }: Io): TelemetrySettings | undefined {
  try {
    return telemetrySettings(env);
  } catch (error) {
    throw new CommandError(`environment: ${(error as Error).message}`);
  }
}

/** @returns undefined where this process is no worker */
function workerChannelOf({ env, processes, onSignal }: Io): WorkerChannel | undefined {
  const settings = env[workerVariable];
  if (!settings || processes.parent === undefined) return undefined;
  // Ignored here: the supervisor receives them too and forwards them.
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"] as const) onSignal(signal, () => {});
  return new WorkerChannel(JSON.parse(settings) as WorkerSettings, processes.parent, systemClock);
}

/** The same context; every file that is read, or looked for, is added to `files`, by its path with its digest. */
function recordingFiles({ io, flags }: Context, files: Map<string, string>): Context {
  const readFile = (path: string) => {
    const at = resolve(io.cwd, path);
    // One that can't be read stands there as well: it may be readable later.
    files.set(at, digestOf(undefined));
    const content = io.readFile(path);
    files.set(at, digestOf(content));
    return content;
  };
  return { flags, io: { ...io, readFile } };
}

function serverIo({ stderr, env, onSignal, processes }: Io, workerChannel: WorkerChannel | undefined): ServerIo {
  const parentId = Number(env[parentVariable] || Number.NaN);
  return {
    logSink: workerChannel === undefined ? stderr : inWholeLines(stderr),
    say: (text: string) => void stderr.write(text),
    isTerminal: stderr.isTerminal,
    behindForwardProxy: isBehindForwardProxy(env),
    env,
    onSignal: workerChannel === undefined ? onSignal : (signal, run) => workerChannel.onSignal(signal, run),
    processes,
    ...(Number.isInteger(parentId) && { parentId }),
  };
}

function reload(context: Context, running: Config, log: Logger): LoadedConfig | undefined {
  const loaded = loadFrom(context);
  if ("errors" in loaded) {
    for (const diagnostic of loaded.errors)
      log.error("the configuration is invalid", { at: formatDiagnostic(diagnostic) });
    return undefined;
  }
  for (const warning of loaded.warnings) log.warn("the configuration", { at: formatDiagnostic(warning) });
  const waiting = fixedSettings.filter((key) => !Bun.deepEquals(loaded.config[key], running[key]));
  if (waiting.length > 0) log.warn("some changes need a restart", { keys: waiting.join(", ") });
  return loaded;
}
