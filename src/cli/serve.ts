/** `troupe serve`: the server, with a configuration that it can read again. */
import { resolve } from "node:path";
import { buildInfo } from "../build-info.ts";
import type { Config } from "../config/config.ts";
import { predecessorVariable } from "../config/settings.ts";
import type { Io } from "../lib/io.ts";
import type { Logger } from "../lib/log.ts";
import { Notifier } from "../lib/notify.ts";
import { formatFault } from "../lib/yaml.ts";
import { type Context, type ExitCode, loadFrom, withConfig } from "./context.ts";

/** What a running server can't change. */
const fixed = ["listen", "data", "personas", "tiers", "shutdown", "log"] as const satisfies readonly (keyof Config)[];

export function serve(context: Context): Promise<ExitCode> {
  return withConfig(context, async (config) => {
    // What only a server needs is not loaded for the other commands.
    const { runServer } = await import("../surfaces/run-server.ts");
    const { io } = context;
    const predecessor = Number(io.env[predecessorVariable] || Number.NaN);
    return runServer(config, {
      build: buildInfo,
      io: { ...serverIo(io), ...(Number.isInteger(predecessor) && { predecessor }) },
      notifier: new Notifier(io.env, io.processes.id),
      reload: async (log) => reload(context, config, log),
      watched: () => filesBehind(context),
    });
  });
}

/** What a loading of the configuration reads or looks for. */
function filesBehind({ io, flags }: Context): string[] {
  const paths = new Set<string>();
  const readFile = (path: string) => {
    paths.add(resolve(io.cwd, path));
    return io.readFile(path);
  };
  loadFrom({ flags, io: { ...io, readFile } });
  return [...paths];
}

function serverIo({ stderr, env, onSignal, processes }: Io) {
  return {
    logSink: stderr,
    say: (text: string) => void stderr.write(text),
    isTerminal: stderr.isTerminal,
    behindForwardProxy: ["HTTP_PROXY", "HTTPS_PROXY"].some((name) => env[name] || env[name.toLowerCase()]),
    onSignal,
    processes,
  };
}

function reload(context: Context, running: Config, log: Logger): Config | undefined {
  const loaded = loadFrom(context);
  if ("faults" in loaded) {
    for (const fault of loaded.faults) log.error("the configuration is at fault", { at: formatFault(fault) });
    return undefined;
  }
  for (const warning of loaded.warnings) log.warn("the configuration", { at: formatFault(warning) });
  const waiting = fixed.filter((key) => !Bun.deepEquals(loaded.config[key], running[key]));
  if (waiting.length > 0) log.warn("some changes need a restart", { keys: waiting.join(", ") });
  return loaded.config;
}
