/** What every command is given, and what it does with a configuration that is invalid. */
import type { Config } from "../config/config.ts";
import { commandLine, type Flags, type LoadedConfig, type LoadResult, loadConfig } from "../config/load.ts";
import type { Io } from "../lib/io.ts";
import { type Diagnostic, formatDiagnostic } from "../lib/yaml/yaml.ts";
import { providers } from "../providers/registry.ts";

export type Context = { readonly io: Io; readonly flags: Flags };

/** A command's exit code: 0 done, 1 failed, 2 used wrongly. */
export type ExitCode = number;
export const usageError: ExitCode = 2;

/** A reason to stop that the person at the terminal can act on; no error of the program. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/** A command line that can't be meant as it stands; nothing was done. */
export class UsageError extends Error {
  override readonly name = "UsageError";
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
  if ("errors" in loaded) {
    printDiagnostics(context.io, loaded.errors);
    return codeOf(loaded.errors);
  }
  printDiagnostics(context.io, loaded.warnings, "warning: ");
  return run(loaded.config, loaded);
}

/** The exit code of an invalid configuration: what stands on the command line itself was used wrongly. */
export const codeOf = (errors: readonly Diagnostic[]): ExitCode =>
  errors.some(({ file }) => file === commandLine) ? usageError : 1;

export const errorsOf = (loaded: LoadResult): readonly Diagnostic[] => ("errors" in loaded ? loaded.errors : []);

export function printDiagnostics({ stderr }: Pick<Io, "stderr">, errors: readonly Diagnostic[], prefix = ""): void {
  for (const diagnostic of errors) stderr.write(`${prefix}${formatDiagnostic(diagnostic)}\n`);
}

export function printJson({ stdout }: Pick<Io, "stdout">, value: unknown): void {
  stdout.write(`${JSON.stringify(value, null, 2)}\n`);
}
