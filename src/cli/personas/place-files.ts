/** Puts files into a folder of personas: each whole or not at all, and none over another unless that is wanted. */
import {
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { schemaFile } from "../../personas/file/persona-yaml.ts";
import { personaJsonSchema } from "../../personas/file/schema.ts";
import { testJsonSchema } from "../../personas/suites/schema.ts";
import { optionSchemas } from "../../providers/options.ts";
import { providers } from "../../providers/registry.ts";
import { CommandError } from "../context.ts";

export type NewFile = { readonly path: string; readonly content: string | Uint8Array };

/**
 * Writes the files in their order. All of them are looked for first, so that nothing is written where one is in the way.
 * @throws CommandError
 */
export function placeFiles(files: readonly NewFile[], force: boolean): void {
  const taken = files.filter(({ path }) => existsSync(path)).map(({ path }) => path);
  if (taken.length > 0 && !force) {
    throw new CommandError(
      `${taken.join(", ")} ${taken.length === 1 ? "exists" : "exist"}; nothing was written. --force replaces.`,
    );
  }
  try {
    for (const { path, content } of files) placeFile(path, content, force);
  } catch (error) {
    throw error instanceof CommandError
      ? error
      : new CommandError(`This can't be written: ${(error as Error).message}`);
  }
}

/** The unfinished file begins with a dot, which a server that watches the folder passes over. */
function placeFile(path: string, content: string | Uint8Array, force: boolean): void {
  mkdirSync(dirname(path), { recursive: true });
  const unfinished = join(dirname(path), `.${basename(path)}.${process.pid}`);
  try {
    writeFileSync(unfinished, content, { flag: "wx", flush: true });
    if (force) renameSync(unfinished, path);
    else linkWhereFree(unfinished, path);
  } finally {
    rmSync(unfinished, { force: true });
  }
}

/** Some file systems have no hard links: there the file is copied, which is refused where one is in the way all the same. */
function linkWhereFree(from: string, path: string): void {
  try {
    linkSync(from, path);
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "EEXIST") throw new CommandError(`${path} exists. --force replaces it.`);
    copyFileSync(from, path, constants.COPYFILE_EXCL);
  }
}

/** @param folder of the personas @returns the schemas' files, where they are missing or of another version; what others put there stays */
export function schemaFiles(folder: string): NewFile[] {
  const ours = [
    { name: schemaFile, schema: personaJsonSchema(optionSchemas(providers)), title: "A persona of Troupe" },
    { name: "persona-test.schema.json", schema: testJsonSchema(), title: "Tests of a persona of Troupe" },
  ];
  return ours.flatMap(({ name, schema, title }) => {
    const path = join(folder, name);
    const content = `${JSON.stringify(schema, null, 2)}\n`;
    const present = existsSync(path) ? readFileSync(path, "utf8") : undefined;
    const isOurs = present === undefined || present.includes(JSON.stringify(title));
    return isOurs && present !== content ? [{ path, content }] : [];
  });
}
