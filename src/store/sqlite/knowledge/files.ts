/** Finds the files of a collection: Markdown and text that a glob names, and that lies inside the personas' folder. */
import { readdirSync, realpathSync, statSync } from "node:fs";
import { join, sep } from "node:path";
import type { Collection } from "../../contract/knowledge.ts";

export type CollectionFile = {
  /** Relative to the collection's folder, with `/`. */
  readonly name: string;
  /** Without links. */
  readonly path: string;
};

const extension = /\.(?:md|markdown|mdx|txt|text)$/i;
/** Dot files, editors' backups and lock files, as among personas. */
const ignored = /^[.~#]|[~#]$/;
const maxFiles = 5_000;
const maxDepth = 16;
/** Entries of folders that are looked at. */
const maxEntries = 100_000;

/** @returns a path that no file has, and that says what the text is */
export const pathOfText = (text: string): string => `text:${Bun.SHA256.hash(text, "hex")}`;

/** @param problems files that are left out are reported here */
export function filesOf({ root, folder, globs, texts }: Collection, problems: string[]): CollectionFile[] {
  if (texts !== undefined)
    return texts
      .map(({ file, text }) => ({ name: file, path: pathOfText(text) }))
      .sort((one, other) => (one.name < other.name ? -1 : 1));
  const inside = realPath(root);
  const start = realPath(folder);
  if (inside === undefined || start === undefined) return [];
  const patterns = globs.map((glob) => new Bun.Glob(glob.replace(/^(?:\.\/)+/, "")));
  const isDeep = globs.some((glob) => glob.includes("/"));
  const found: CollectionFile[] = [];
  const seen = new Set<string>();
  let entries = 0;
  const visit = (path: string, below: string, depth: number) => {
    if (seen.has(path) || depth > maxDepth) return;
    seen.add(path);
    for (const entry of entriesOf(path, problems)) {
      entries += 1;
      if (ignored.test(entry.name) || entries > maxEntries || found.length > maxFiles) continue;
      const name = below + entry.name;
      const own = join(path, entry.name);
      const isFileName = extension.test(name) && patterns.some((pattern) => pattern.match(name));
      if (entry.isFile()) {
        if (isFileName) found.push({ name, path: own });
      } else if (entry.isDirectory()) {
        if (isDeep) visit(own, `${name}/`, depth + 1);
      } else if (entry.isSymbolicLink() && (isFileName || isDeep)) {
        const target = realPath(own);
        if (target === undefined) continue;
        const { isFile, isFolder } = kindOf(target);
        if (!(isFile && isFileName) && !isFolder) continue;
        if (!target.startsWith(inside + sep)) problems.push(`${own} leads out of ${root}, and is not read`);
        else if (isFile) found.push({ name, path: target });
        else visit(target, `${name}/`, depth + 1);
      }
    }
  };
  visit(start, "", 0);
  if (start !== inside && !start.startsWith(inside + sep)) {
    problems.push(`${folder} leads out of ${root}, and is not read`);
    return [];
  }
  if (found.length > maxFiles || entries > maxEntries) {
    problems.push(`${folder}: ${globs.join(", ")} name more than ${maxFiles} files, so that some are left out`);
  }
  return found.slice(0, maxFiles).sort((one, other) => (one.name < other.name ? -1 : 1));
}

function entriesOf(path: string, problems: string[]) {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch (error) {
    problems.push(`${path} can't be read: ${(error as Error).message}`);
    return [];
  }
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

function kindOf(path: string): { isFile: boolean; isFolder: boolean } {
  const found = statSync(path, { throwIfNoEntry: false });
  return { isFile: found?.isFile() === true, isFolder: found?.isDirectory() === true };
}
