/** `troupe personas import`: files of other programs become personas. */
import { join, relative, resolve } from "node:path";
import { type Context, type ExitCode, keyless, UsageError, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { checkName } from "./draft-files.ts";
import { omissionsText } from "./export.ts";
import { type ImportOptions, type Made, personaJson, readPersonas } from "./import-file.ts";
import { importFiles } from "./import-many.ts";
import { filesIn } from "./import-paths.ts";
import { type NewFile, placeFiles, schemaFiles } from "./place-files.ts";

/** @param given files, folders, and globs over files */
export function importPersona(context: Context, given: readonly string[], options: ImportOptions): Promise<ExitCode> {
  return withConfig(
    context,
    async (config) => {
      const { cwd } = context.io;
      checkName("--namespace", options.namespace);
      if (options.name !== undefined) checkName("--name", options.name);
      const folder = options.out === undefined ? config.personas.folder : resolve(cwd, options.out);
      const { files, isOne } = filesIn(cwd, given);
      if (!isOne) {
        if (options.name !== undefined) throw new UsageError("--name names one persona: import one file.");
        return importFiles(context, files, folder, options);
      }
      const { format, made } = await readPersonas(cwd, files[0]!, folder, options, new Set());
      if (options.dryRun !== true) {
        placeFiles(
          made.flatMap((one) => one.files),
          options.force === true,
        );
        placeFiles(schemaFiles(folder), true);
      }
      report(context, { format, made, isDry: options.dryRun === true, json: options.json === true });
      return 0;
    },
    keyless,
  );
}

type Report = {
  readonly format: string;
  readonly made: readonly Made[];
  readonly isDry: boolean;
  readonly json: boolean;
};

/** @returns a path as people at the folder of the command call it */
const shownPath = (cwd: string, path: string): string =>
  relative(cwd, path).startsWith("..") ? path : join(relative(cwd, path));

function report({ io }: Context, { format, made, isDry, json }: Report): void {
  if (json) {
    printJson(io, { format, written: !isDry, personas: made.map(personaJson) });
    return;
  }
  for (const { id, files, omitted } of made) {
    if (isDry) io.stdout.write(files.map(textOf).join(""));
    else io.stdout.write(`${id}: ${files.map(({ path }) => shownPath(io.cwd, path)).join(", ")}\n`);
    io.stderr.write(omissionsText(omitted));
  }
}

const textOf = ({ path, content }: NewFile) =>
  typeof content === "string" ? `# ${path}\n${content}\n` : `# ${path}: ${content.length} bytes\n\n`;
