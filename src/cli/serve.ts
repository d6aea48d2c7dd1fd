/** `troupe serve`: the server, with a configuration that it can read again. */
import { resolve } from "node:path";
import { buildInfo } from "../build-info.ts";
import type { Config } from "../config/config.ts";
import { predecessorVariable, workerVariable } from "../config/settings.ts";
import { systemClock } from "../lib/clock.ts";
import { isBehindForwardProxy } from "../lib/forward-proxy.ts";
import type { Io } from "../lib/io.ts";
import { inWholeLines, type Logger } from "../lib/log.ts";
import { Notifier } from "../lib/notify.ts";
import { formatFault } from "../lib/yaml.ts";
import { Crew, configAt, fixedSettings, type Seat } from "../services/crew.ts";
import { type TelemetrySettings, telemetrySettings } from "../services/telemetry-settings.ts";
import type { ServerIo } from "../surfaces/run-server.ts";
import { CommandError, type Context, type ExitCode, loadFrom, withConfig } from "./context.ts";

export type ServeOptions = {
  /** Whether a database that is lost or damaged gives way to a new one. */
  readonly newDatabase?: boolean;
};

export function serve(given: Context, { newDatabase }: ServeOptions = {}): Promise<ExitCode> {
  const files = new Set<string>();
  const context = noting(given, files);
  return withConfig(context, async (config) => {
    // What only a server needs is not loaded for the other commands.
    const { runServer } = await import("../surfaces/run-server.ts");
    const { io } = context;
    const crew = crewOf(io);
    const telemetry = telemetryFrom(io);
    const isFirst = crew === undefined && !io.env[predecessorVariable];
    // What is started later, by this process, is to stop at a database that is lost while it runs.
    if (newDatabase && isFirst) await giveUp(io, config);
    const options = {
      build: buildInfo,
      io: serverIo(io, crew),
      notifier: new Notifier(io.env, io.processes.id),
      reload: async (log: Logger) => {
        files.clear();
        return reload(context, config, log, crew);
      },
      watched: () => [...files],
      ...(telemetry && { telemetry }),
    };
    if (crew !== undefined) return runServer(configAt(crew.seat, config), { ...options, crew });
    if (config.workers === 1) return runServer(config, options);
    const { runSupervisor } = await import("../surfaces/supervisor.ts");
    return runSupervisor(config, options);
  });
}

async function giveUp({ stderr }: Io, { data }: Config): Promise<void> {
  const { giveUpLost } = await import("../services/data.ts");
  const left = giveUpLost(data);
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

/** undefined: this process is not one of several workers. */
function crewOf({ env, processes, onSignal }: Io): Crew | undefined {
  const seat = env[workerVariable];
  if (!seat || processes.parent === undefined) return undefined;
  // Ignored: the supervisor gets them too, and says what they mean.
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"] as const) onSignal(signal, () => {});
  return new Crew(JSON.parse(seat) as Seat, processes.parent, systemClock);
}

/** The same context, but what is read or looked for is noted. */
function noting({ io, flags }: Context, files: Set<string>): Context {
  const readFile = (path: string) => {
    files.add(resolve(io.cwd, path));
    return io.readFile(path);
  };
  return { flags, io: { ...io, readFile } };
}

function serverIo({ stderr, env, onSignal, processes }: Io, crew: Crew | undefined): ServerIo {
  const predecessor = Number(env[predecessorVariable] || Number.NaN);
  return {
    logSink: crew === undefined ? stderr : inWholeLines(stderr),
    say: (text: string) => void stderr.write(text),
    isTerminal: stderr.isTerminal,
    behindForwardProxy: isBehindForwardProxy(env),
    onSignal: crew === undefined ? onSignal : (signal, run) => crew.onSignal(signal, run),
    processes,
    ...(Number.isInteger(predecessor) && { predecessor }),
  };
}

function reload(context: Context, running: Config, log: Logger, crew: Crew | undefined): Config | undefined {
  const loaded = loadFrom(context);
  if ("faults" in loaded) {
    for (const fault of loaded.faults) log.error("the configuration is at fault", { at: formatFault(fault) });
    return undefined;
  }
  for (const warning of loaded.warnings) log.warn("the configuration", { at: formatFault(warning) });
  const waiting = fixedSettings.filter((key) => !Bun.deepEquals(loaded.config[key], running[key]));
  if (waiting.length > 0) log.warn("some changes need a restart", { keys: waiting.join(", ") });
  return crew === undefined ? loaded.config : configAt(crew.seat, loaded.config);
}
