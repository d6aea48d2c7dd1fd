/** The files that a command line names: themselves, by their folders, or by globs that the shell left as they are. */
import { readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { CommandError } from "../context.ts";

const maxFiles = 10_000;
const isGlob = /[*?[{]/;

/** Endings of the formats that are imported, and files that are named for theirs. */
const importable = /\.(?:json|png|charx|ya?ml|md|markdown|mdc|prompt|prompty|modelfile)$|(?:^|[./-])modelfile(?:$|\.)/i;
/** About a folder, and no prompts. */
const about = /^(?:readme|license|licence|changelog|contributing|code_of_conduct|security)\b/i;

export type FilesIn = {
  /** As they were named, or from there. */
  readonly files: readonly string[];
  /** True for a single file that was named itself. */
  readonly isOne: boolean;
};

/** @param given files, folders and globs, from `cwd` @throws CommandError where one of them names nothing */
export function filesIn(cwd: string, given: readonly string[]): FilesIn {
  const files = new Set<string>();
  let isOne = given.length === 1;
  for (const one of given) {
    const kind = kindOf(resolve(cwd, one));
    if (kind === "folder") addFolder(cwd, one, files);
    else if (kind === undefined && isGlob.test(one)) addMatches(cwd, one, files);
    else {
      files.add(one);
      continue;
    }
    isOne = false;
  }
  return { files: [...files], isOne };
}

/** @returns undefined where there is nothing */
function kindOf(path: string): "folder" | "file" | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found && (found.isDirectory() ? "folder" : "file");
}

/** Those below it that may be of a format, in order of their names. Links to folders are not followed. */
function addFolder(cwd: string, folder: string, files: Set<string>): void {
  const before = files.size;
  const walk = (at: string) => {
    const entries = readdirSync(resolve(cwd, at), { withFileTypes: true });
    const names = new Set(entries.map(({ name }) => name));
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const { name } = entry;
      if (name.startsWith(".") || name === "node_modules") continue;
      const path = join(at, name);
      if (entry.isDirectory()) walk(path);
      // What stands beside a pattern's text is read with it.
      else if (importable.test(name) && !about.test(name) && !(name === "user.md" && names.has("system.md")))
        add(files, path);
    }
  };
  try {
    walk(folder);
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`${folder} can't be read: ${(error as Error).message}`);
  }
  if (files.size === before) throw new CommandError(`${folder} holds no file of a format that is known here.`);
}

function addMatches(cwd: string, glob: string, files: Set<string>): void {
  const found = [...new Bun.Glob(glob).scanSync({ cwd, onlyFiles: true })].toSorted();
  if (found.length === 0) throw new CommandError(`${glob} names no file.`);
  for (const path of found) if (!about.test(basename(path))) add(files, path);
}

function add(files: Set<string>, path: string): void {
  files.add(path);
  if (files.size > maxFiles) throw new CommandError(`These are more than ${maxFiles} files: import a part of them.`);
}
