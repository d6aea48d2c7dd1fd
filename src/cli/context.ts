/** What every command is given, and what it does with a configuration that is at fault. */
import type { Config } from "../config/config.ts";
import { type Flags, type LoadedConfig, type LoadResult, loadConfig } from "../config/load.ts";
import type { Io } from "../lib/io.ts";
import { type Fault, formatFault } from "../lib/yaml.ts";
import { providers } from "../providers/registry.ts";

export type Context = { readonly io: Io; readonly flags: Flags };

/** A command's exit code: 0 done, 1 failed. Wrong usage, which is 2, never reaches a command. */
export type ExitCode = number;

/** A reason to stop that the person at the terminal can act on; no fault of the program. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

export function loadFrom({ io, flags }: Context): LoadResult {
  const { env, cwd, machine } = io;
  const isFolder = (path: string) => io.isFolder(path);
  return loadConfig({ flags, env, cwd, isFolder, machine, readFile: (path) => io.readFile(path) }, providers);
}

/** Loads the configuration for a command that needs nothing else of it than to be right. */
export async function withConfig(
  context: Context,
  run: (config: Config, loaded: LoadedConfig) => ExitCode | Promise<ExitCode>,
): Promise<ExitCode> {
  const loaded = loadFrom(context);
  if ("faults" in loaded) {
    printFaults(context.io, loaded.faults);
    return 1;
  }
  printFaults(context.io, loaded.warnings, "warning: ");
  return run(loaded.config, loaded);
}

export function printFaults({ stderr }: Pick<Io, "stderr">, faults: readonly Fault[], prefix = ""): void {
  for (const fault of faults) stderr.write(`${prefix}${formatFault(fault)}\n`);
}

export function printJson({ stdout }: Pick<Io, "stdout">, value: unknown): void {
  stdout.write(`${JSON.stringify(value, null, 2)}\n`);
}
