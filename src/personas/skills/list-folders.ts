/** Lists the folders that a glob names, and the files in them: never what lies outside of the folder of personas, whatever links lead there. */
import { readdir, realpath, stat } from "node:fs/promises";
import { join, sep } from "node:path";
import { globMatches } from "../../lib/text/glob.ts";
import type { PartialText } from "../file/includes.ts";
import { maxDepth, maxFiles, maxSkills } from "./schema.ts";

/** Why there is no list, as a sentence without its subject. */
class Unlisted extends Error {}

/** Files of editors and systems. */
const ignored = /^[.~#]|[~#]$|^(?:__pycache__|node_modules)$/;

/** @param root a real path @param glob of folders within it @returns a line for each folder, which ends in "/", and for each of its files */
export async function listFolders(root: string, glob: string): Promise<PartialText> {
  try {
    const folders = await foldersOf(root, glob.split("/"));
    if (folders.length > maxSkills)
      throw new Unlisted(`names ${folders.length} folders; a persona has at most ${maxSkills} skills`);
    const lines: string[] = [];
    for (const folder of folders) lines.push(`${folder}/`, ...(await filesOf(root, folder)));
    return { text: lines.join("\n") };
  } catch (error) {
    if (error instanceof Unlisted) return { problem: error.message };
    throw error;
  }
}

async function foldersOf(root: string, [part, ...more]: readonly string[], within = ""): Promise<string[]> {
  if (part === undefined) return [within];
  const names = part.includes("*") ? (await namesIn(root, within)).filter((name) => globMatches(part, name)) : [part];
  const found: string[] = [];
  for (const name of names) {
    const path = within === "" ? name : `${within}/${name}`;
    if ((await kindOf(root, path)) === "folder") found.push(...(await foldersOf(root, more, path)));
  }
  return found;
}

async function filesOf(root: string, folder: string): Promise<string[]> {
  const files: string[] = [];
  const walk = async (path: string, depth: number) => {
    for (const name of await namesIn(root, path)) {
      const one = `${path}/${name}`;
      const kind = await kindOf(root, one);
      if (kind === "file") files.push(one);
      else if (kind === "folder" && depth === maxDepth)
        throw new Unlisted(`has '${one}', which is more than ${maxDepth} folders deep`);
      else if (kind === "folder") await walk(one, depth + 1);
      if (files.length > maxFiles) throw new Unlisted(`has '${folder}' with more than ${maxFiles} files`);
    }
  };
  await walk(folder, 1);
  return files;
}

const namesIn = async (root: string, path: string): Promise<string[]> =>
  (await readdir(join(root, path)).catch(() => [] as string[])).filter((name) => !ignored.test(name)).sort();

/** @throws Unlisted for a link that leads out */
async function kindOf(root: string, path: string): Promise<"file" | "folder" | undefined> {
  const real = await realpath(join(root, path)).catch(() => undefined);
  if (real === undefined) return undefined;
  if (!real.startsWith(`${root}${sep}`))
    throw new Unlisted(`has '${path}', a link that leads out of the folder of personas`);
  const found = await stat(real);
  return found.isFile() ? "file" : found.isDirectory() ? "folder" : undefined;
}
