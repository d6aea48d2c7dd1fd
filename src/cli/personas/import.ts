/** `troupe personas import`: a file of another program becomes a persona. */
import { statSync } from "node:fs";
import { basename, extname, join, relative, resolve } from "node:path";
import { printable } from "../../lib/printable.ts";
import { importFile } from "../../personas/importers/all.ts";
import type { Imported, Omission } from "../../personas/importers/draft.ts";
import { ImportError, SourceFile } from "../../personas/importers/source.ts";
import { CommandError, type Context, type ExitCode, keyless, UsageError, withConfig } from "../context.ts";
import { printJson } from "../print-json.ts";
import { acceptableDraft, checkName, fileName, filesOf, usualModels } from "./draft-files.ts";
import { omissionsText } from "./export.ts";
import { filesBeside } from "./files-beside.ts";
import { type NewFile, placeFiles, schemaFiles } from "./place-files.ts";

type Options = {
  readonly format?: string;
  readonly namespace: string;
  readonly name?: string;
  readonly model?: string[];
  readonly out?: string;
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly json?: boolean;
};

const maxBytes = 64 * 1024 * 1024;

type Made = { readonly id: string; readonly files: readonly NewFile[]; readonly omitted: readonly Omission[] };

export function importPersona(context: Context, file: string, options: Options): Promise<ExitCode> {
  return withConfig(
    context,
    async (config) => {
      const { cwd } = context.io;
      checkName("--namespace", options.namespace);
      if (options.name !== undefined) checkName("--name", options.name);
      const path = resolve(cwd, file);
      const source = new SourceFile(basename(file), await readBytes(path, file), filesBeside(path));
      const { format, personas } = read(source, file, options.format);
      if (options.name !== undefined && personas.length > 1) {
        throw new UsageError(`--name names one persona, and ${file} has ${personas.length}.`);
      }
      const folder = options.out === undefined ? config.personas.folder : resolve(cwd, options.out);
      const made = makeAll(personas, folder, options, basename(file, extname(file)));
      const files = made.flatMap((one) => one.files);
      if (options.dryRun !== true) {
        placeFiles(files, options.force === true);
        placeFiles(schemaFiles(folder), true);
      }
      report(context, { format, made, isDry: options.dryRun === true, json: options.json === true });
      return 0;
    },
    keyless,
  );
}

async function readBytes(path: string, file: string): Promise<Uint8Array> {
  try {
    const found = statSync(path);
    if (!found.isFile()) throw new CommandError(`${file} is no file.`);
    if (found.size > maxBytes) throw new CommandError(`${file} is larger than ${maxBytes / 1024 / 1024} MiB.`);
    return await Bun.file(path).bytes();
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`${file} can't be read: ${(error as Error).message}`);
  }
}

function read(source: SourceFile, file: string, format: string | undefined) {
  try {
    return importFile(source, format);
  } catch (error) {
    if (!(error instanceof ImportError)) throw error;
    throw new CommandError(printable([file, error.place, error.message].filter((part) => part !== "").join(": ")));
  }
}

function makeAll(personas: readonly Imported[], folder: string, options: Options, fallback: string): Made[] {
  const ids = new Set<string>();
  return personas.map(acceptableDraft).map((imported) => {
    const name = options.name ?? (fileName(imported.name) || fileName(fallback) || "imported");
    let id = `${options.namespace}/${name}`;
    for (let next = 2; ids.has(id); next++) id = `${options.namespace}/${name.slice(0, 60)}-${next}`;
    ids.add(id);
    const models = options.model ?? imported.draft.model ?? usualModels;
    return { id, files: filesOf(imported, id, folder, models), omitted: imported.omitted };
  });
}

type Report = {
  readonly format: string;
  readonly made: readonly Made[];
  readonly isDry: boolean;
  readonly json: boolean;
};

function report({ io }: Context, { format, made, isDry, json }: Report): void {
  const pathOf = (path: string) => (relative(io.cwd, path).startsWith("..") ? path : join(relative(io.cwd, path)));
  if (json) {
    const personas = made.map(({ id, files, omitted }) => ({
      id,
      files: files.map(({ path }) => path),
      not_carried_over: omitted,
    }));
    printJson(io, { format, written: !isDry, personas });
    return;
  }
  for (const { id, files, omitted } of made) {
    if (isDry) io.stdout.write(files.map(textOf).join(""));
    else io.stdout.write(`${id}: ${files.map(({ path }) => pathOf(path)).join(", ")}\n`);
    io.stderr.write(omissionsText(omitted));
  }
}

const textOf = ({ path, content }: NewFile) =>
  typeof content === "string" ? `# ${path}\n${content}\n` : `# ${path}: ${content.length} bytes\n\n`;
