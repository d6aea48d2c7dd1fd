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

type FilesIn = {
  /** As they were named, or from there. */
  readonly files: readonly string[];
  /** True for a single file that was named itself. */
  readonly isOne: boolean;
};

/** As they were named, by their absolute paths. */
type Found = Map<string, string>;

/** @param given files, folders and globs, from `cwd` @throws CommandError where one of them names nothing */
export function filesIn(cwd: string, given: readonly string[]): FilesIn {
  const files: Found = new Map();
  let isOne = given.length === 1;
  for (const one of given) {
    const kind = kindOf(resolve(cwd, one));
    if (kind === "folder") addFolder(cwd, one, files);
    else if (kind === undefined && isGlob.test(one)) addMatches(cwd, one, files);
    else {
      add(cwd, files, one);
      continue;
    }
    isOne = false;
  }
  return { files: [...files.values()], isOne };
}

/** @returns undefined where there is nothing */
function kindOf(path: string): "folder" | "file" | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found && (found.isDirectory() ? "folder" : "file");
}

/** Those below it that may be of a format, in order of their names. Links to folders are not followed. */
function addFolder(cwd: string, folder: string, files: Found): void {
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
        add(cwd, files, path);
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

function addMatches(cwd: string, glob: string, files: Found): void {
  // Links to files count, which the library does not take for such.
  const named = [...new Bun.Glob(glob).scanSync({ cwd, onlyFiles: false })].toSorted();
  const found = named.filter((path) => kindOf(resolve(cwd, path)) === "file");
  if (found.length === 0) throw new CommandError(`${glob} names no file.`);
  for (const path of found) if (!about.test(basename(path))) add(cwd, files, path);
}

/** A file that is named twice comes in once. */
function add(cwd: string, files: Found, path: string): void {
  const place = resolve(cwd, path);
  if (!files.has(place)) files.set(place, path);
  if (files.size > maxFiles) throw new CommandError(`These are more than ${maxFiles} files: import a part of them.`);
}
