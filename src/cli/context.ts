/** The context of every command, and how an invalid configuration is reported. */
import type { Config } from "../config/config.ts";
import { commandLine, type Flags, type LoadedConfig, type LoadResult, loadConfig } from "../config/load.ts";
import type { Io } from "../lib/process/io.ts";
import { type Diagnostic, formatDiagnostic } from "../lib/yaml/yaml.ts";
import { providers } from "../providers/registry.ts";

export type Context = { readonly io: Io; readonly flags: Flags };

/** A command's exit code: 0 done, 1 failed, 2 used wrongly. */
export type ExitCode = number;
export const usageError: ExitCode = 2;

/** An error that the user can act on: only its message is printed. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/** A wrong command line; nothing was done. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** @param keyless see `ConfigInput` */
export function loadFrom({ io, flags }: Context, keyless = false): LoadResult {
  const { env, cwd, machine } = io;
  return loadConfig({ flags, env, cwd, machine, keyless, readFile: (path) => io.readFile(path) }, providers);
}

/** `keyless`: the command calls nobody, so that variables with keys need not be set. */
type Need = { readonly keyless?: boolean };
export const keyless: Need = { keyless: true };

/** Runs a command with a valid configuration, or reports the errors. */
export async function withConfig(
  context: Context,
  run: (config: Config, loaded: LoadedConfig) => ExitCode | Promise<ExitCode>,
  { keyless }: Need = {},
): Promise<ExitCode> {
  const loaded = loadFrom(context, keyless);
  if ("errors" in loaded) {
    printDiagnostics(context.io, loaded.errors);
    return codeOf(loaded.errors);
  }
  printDiagnostics(context.io, loaded.warnings, "warning: ");
  return run(loaded.config, loaded);
}

/** The exit code of an invalid configuration: errors on the command line are usage errors. */
export const codeOf = (errors: readonly Diagnostic[]): ExitCode =>
  errors.some(({ file }) => file === commandLine) ? usageError : 1;

export const errorsOf = (loaded: LoadResult): readonly Diagnostic[] => ("errors" in loaded ? loaded.errors : []);

export function printDiagnostics({ stderr }: Pick<Io, "stderr">, errors: readonly Diagnostic[], prefix = ""): void {
  for (const diagnostic of errors) stderr.write(`${prefix}${formatDiagnostic(diagnostic)}\n`);
}
