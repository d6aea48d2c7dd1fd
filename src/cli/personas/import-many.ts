/** Imports many files: each whole or not at all, and one table of what came in and what did not. */
import { printable } from "../../lib/text/printable.ts";
import { UnknownFormat } from "../../personas/exchange/importers/all.ts";
import { CommandError, type Context, type ExitCode } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";
import { type ImportOptions, type Made, personaJson, readPersonas } from "./import-file.ts";
import { placeFiles, schemaFiles } from "./place-files.ts";

/** `error`: why the file did not come in. `isOther`: it is of none of the formats, which in a folder is no fault. */
type Row = { readonly file: string } & (
  | { readonly format: string; readonly made: readonly Made[] }
  | { readonly error: string; readonly isOther: boolean }
);

/** @param folder of the personas @returns 1 where a file did not come in that is of a known format, or none did */
export async function importFiles(
  context: Context,
  files: readonly string[],
  folder: string,
  options: ImportOptions,
): Promise<ExitCode> {
  const taken = new Set<string>();
  const rows: Row[] = [];
  for (const file of files) rows.push(await importOne(context, file, folder, options, taken));
  const written = rows.flatMap((row) => ("made" in row ? row.made : []));
  if (options.dryRun !== true && written.length > 0) placeFiles(schemaFiles(folder), true);
  if (options.json) printJson(context.io, { written: options.dryRun !== true, files: rows.map(rowJson) });
  else print(context, rows, written.length);
  return written.length === 0 || rows.some((row) => "error" in row && !row.isOther) ? 1 : 0;
}

async function importOne(
  { io }: Context,
  file: string,
  folder: string,
  options: ImportOptions,
  taken: Set<string>,
): Promise<Row> {
  try {
    const { format, made } = await readPersonas(io.cwd, file, folder, options, taken);
    if (options.dryRun !== true)
      placeFiles(
        made.flatMap((one) => one.files),
        options.force === true,
      );
    return { file, format, made };
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    const isOther = error.cause instanceof UnknownFormat;
    const message = isOther ? "is of no format that is known here" : error.message;
    return { file, error: message.startsWith(`${file}: `) ? message.slice(file.length + 2) : message, isOther };
  }
}

const maxShown = 100;
const cell = (text: string) => {
  const line = printable(text.replace(/\s+/g, " ").trim());
  return line.length > maxShown ? `${line.slice(0, maxShown - 1)}…` : line;
};

function print({ io }: Context, rows: readonly Row[], count: number): void {
  const cells = rows.flatMap((row) => {
    if ("error" in row) return [[cell(row.file), undefined, undefined, cell(row.error)]];
    return row.made.map(({ id, omitted }) => {
      const places = omitted.map(({ place }) => place).join(", ");
      return [cell(row.file), row.format, id, places === "" ? undefined : cell(`not carried over: ${places}`)];
    });
  });
  io.stdout.write(formatTable(["file", "format", "persona", "note"], cells));
  const failed = rows.filter((row) => "error" in row).length;
  io.stderr.write(
    `${count} ${count === 1 ? "persona" : "personas"} of ${rows.length - failed} files${failed === 0 ? "" : `; ${failed} did not come in`}.\n`,
  );
}

function rowJson(row: Row) {
  if ("error" in row) return { file: row.file, error: row.error };
  return { file: row.file, format: row.format, personas: row.made.map(personaJson) };
}
