/** Reads a file of another program as personas, as they would be written. */
import { statSync } from "node:fs";
import { basename, dirname, extname, resolve } from "node:path";
import { printable } from "../../lib/text/printable.ts";
import { importFile } from "../../personas/exchange/importers/all.ts";
import type { Imported, Omission } from "../../personas/exchange/importers/draft.ts";
import { ImportError, ImportedFile } from "../../personas/exchange/importers/source.ts";
import { CommandError, UsageError } from "../context.ts";
import { acceptableDraft, draftFilesOf, fileName, usualModels } from "./draft-files.ts";
import { filesBeside } from "./files-beside.ts";
import type { NewFile } from "./place-files.ts";

export type ImportOptions = {
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

export type Made = { readonly id: string; readonly files: readonly NewFile[]; readonly omitted: readonly Omission[] };

/**
 * @param folder of the personas
 * @param taken ids that others of the same import have; gets those of this file
 * @throws CommandError; ImportError for a file that can be none
 */
export async function readPersonas(
  cwd: string,
  file: string,
  folder: string,
  options: ImportOptions,
  taken: Set<string>,
): Promise<{ readonly format: string; readonly made: Made[] }> {
  const path = resolve(cwd, file);
  const source = new ImportedFile(basename(file), await readBytes(path, file), filesBeside(path));
  const { format, personas } = read(source, file, options.format);
  if (options.name !== undefined && personas.length > 1)
    throw new UsageError(`--name names one persona, and ${file} has ${personas.length}.`);
  return { format, made: makeAll(personas, folder, options, fallbackName(path), taken) };
}

/** Many prompts are files of one name, each in a folder of its own. */
const ofFolders = /^(?:system|prompt|instructions|agent|skill)$/i;

function fallbackName(path: string): string {
  const name = basename(path, extname(path));
  return ofFolders.test(name) ? basename(dirname(path)) : name;
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

/** The message of the error is what is wrong, its cause the importer's own. */
function read(source: ImportedFile, file: string, format: string | undefined) {
  try {
    return importFile(source, format);
  } catch (error) {
    if (!(error instanceof ImportError)) throw error;
    const message = printable([file, error.place, error.message].filter((part) => part !== "").join(": "));
    throw Object.assign(new CommandError(message), { cause: error });
  }
}

function makeAll(
  personas: readonly Imported[],
  folder: string,
  options: ImportOptions,
  fallback: string,
  taken: Set<string>,
): Made[] {
  const ids = new Set(taken);
  const made = personas.map(acceptableDraft).map((imported) => {
    const name = options.name ?? (fileName(imported.name) || fileName(fallback) || "imported");
    let id = `${options.namespace}/${name}`;
    for (let next = 2; ids.has(id); next++) id = `${options.namespace}/${name.slice(0, 60)}-${next}`;
    ids.add(id);
    const models = options.model ?? imported.draft.model ?? usualModels;
    return { id, files: draftFilesOf(imported, id, folder, models), omitted: imported.omitted };
  });
  for (const { id } of made) taken.add(id);
  return made;
}

export const personaJson = ({ id, files, omitted }: Made) => ({
  id,
  files: files.map(({ path }) => path),
  not_carried_over: omitted,
});
