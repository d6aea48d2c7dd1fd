/** The file of one persona in the folder: found, read, and replaced whole or not at all. */

import { constants } from "node:fs";
import { chmod, chown, mkdir, open, readdir, realpath, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";
import { sha256Of } from "../../lib/text/sha256.ts";
import { ApiError } from "../../protocols/errors.ts";
import { builtinFiles, builtinText } from "../builtin.ts";
import { nameProblem } from "../persona.ts";
import { isTestName } from "../suites/find.ts";
import { readStart } from "./read-file.ts";

export type SourceFile = {
  /** As errors name it. */
  readonly path: string;
  /** The file that a link leads to. */
  readonly real: string;
  readonly text: string;
  /** The SHA-256 of its bytes, in hexadecimal digits. */
  readonly hash: string;
};

/** Refuses to replace what is not the file that was edited. */
export const changedMeanwhile = (path: string): ApiError =>
  ApiError.personaChanged(`${path} has changed since it was read; nothing was saved.`);

/** Passes on what was refused. @returns the error of the file system, with the path that it is about */
const notWritable = (path: string, error: unknown): ApiError =>
  error instanceof ApiError
    ? error
    : ApiError.personaNotWritable(`${path} can't be written: ${(error as Error).message}.`, error);

/** What is no UTF-8 is shown all the same, as the finding at its file says what it is. */
const lenient = new TextDecoder();
const extension = /\.ya?ml$/i;
/** After so long what another process began is taken for left behind. */
const staleMs = 30_000;

/** @returns why no file of the folder can be that persona's, as a sentence without its subject */
export function idProblem(id: string): string | undefined {
  const [namespace = "", name = "", ...rest] = id.split("/");
  if (rest.length > 0) return "must be <namespace>/<name>";
  if (isTestName(`${name}.yaml`)) return "must not end as files of tests do";
  return nameProblem(namespace) ?? nameProblem(name);
}

/** Where a persona's file is, or would be. @param id that has no problem */
export async function sourcePathOf(folder: string, id: string): Promise<string> {
  const [namespace, name] = id.split("/") as [string, string];
  const names = await readdir(join(folder, namespace)).catch(() => [] as string[]);
  const found = names.find((one) => extension.test(one) && one.replace(extension, "") === name);
  return join(folder, namespace, found ?? `${name}.yaml`);
}

/** @returns undefined where there is no such file @throws the file system's errors but that */
export async function readSource(folder: string, id: string): Promise<SourceFile | undefined> {
  return readAt(await sourcePathOf(folder, id));
}

async function readAt(path: string): Promise<SourceFile | undefined> {
  try {
    const real = await realpath(path);
    const bytes = await readStart(real);
    return { path, real, text: lenient.decode(bytes), hash: sha256Of(bytes) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Whether the folder is missing, or has no file that could be a persona's. */
export async function isUnused(folder: string): Promise<boolean> {
  const namespaces = await readdir(folder).catch(() => [] as string[]);
  const seen = namespaces.filter((name) => nameProblem(name) === undefined);
  const files = await Promise.all(seen.map((name) => readdir(join(folder, name)).catch(() => [] as string[])));
  return !files.flat().some((name) => extension.test(name) && !isTestName(name));
}

/** Writes the personas of the executable into an unused folder, so that they stay in service beside the first file of its own. @throws ApiError */
export async function placeBuiltins(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
  } catch (error) {
    throw notWritable(folder, error);
  }
  for (const id of Object.keys(builtinFiles)) {
    await replaceSource(folder, id, builtinText(id), null).catch((error: ApiError) => {
      // Somebody else did the same.
      if (error.code !== "persona_changed") throw error;
    });
  }
}

/** Checks that what is written lies within the folder, whatever links lead there. @param target that `path` leads to @throws ApiError persona_not_writable */
async function assertInside(folder: string, path: string, target = path): Promise<void> {
  const root = await realpath(folder);
  const own = await realpath(dirname(target)).catch(() => undefined);
  if (own !== undefined && own !== root && !own.startsWith(root + sep))
    throw ApiError.personaNotWritable(`${path} is a link that leads out of the folder of personas.`);
}

/** Replaces the file of a persona, or makes it; as `replaceAt` does. */
export const replaceSource = async (folder: string, id: string, text: string, ifHash: string | null): Promise<void> =>
  replaceAt(folder, await sourcePathOf(folder, id), text, ifHash);

/**
 * Replaces a file of the folder, or makes it. A reader finds the old text or the new one, whole, also where the machine stops. The unfinished
 * file begins with a dot, which whoever watches the folder passes over, and keeps other processes from writing the same one meanwhile.
 * @param ifHash of the text that was edited; null: there was none
 * @throws ApiError persona_changed or persona_not_writable
 */
export async function replaceAt(folder: string, path: string, text: string, ifHash: string | null): Promise<void> {
  try {
    await assertInside(folder, path);
    const found = await readAt(path);
    const target = found?.real ?? path;
    await assertInside(folder, path, target);
    if (found === undefined) await mkdir(dirname(target), { recursive: true });
    await assertInside(folder, path, target);
    const unfinished = join(dirname(target), `.${basename(target)}.saving`);
    const file = await claim(unfinished, path);
    try {
      await file.writeFile(text);
      await keepOwner(unfinished, target);
      await file.sync();
      if (((await readAt(path))?.hash ?? null) !== ifHash) throw changedMeanwhile(path);
      await rename(unfinished, target);
      await syncFolder(dirname(target));
    } finally {
      await file.close();
      await rm(unfinished, { force: true });
    }
  } catch (error) {
    throw notWritable(path, error);
  }
}

/** Makes the unfinished file, where nobody else has one. */
async function claim(unfinished: string, path: string) {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  for (let tries = 1; ; tries += 1) {
    try {
      return await open(unfinished, flags, 0o644);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      const found = await stat(unfinished).catch(() => undefined);
      if (tries > 1 || (found !== undefined && Date.now() - found.mtimeMs < staleMs))
        throw ApiError.personaChanged(`${path} is being saved by somebody else; nothing was saved.`);
      // One that is gone by now was somebody's who is done: what stands there next is another's, and stays.
      if (found !== undefined) await rm(unfinished, { force: true });
    }
  }
}

/** The new file has the mode of the old one, and its owner where the process may give files away. */
async function keepOwner(unfinished: string, target: string): Promise<void> {
  const old = await stat(target).catch(() => undefined);
  if (old === undefined) return;
  await chown(unfinished, old.uid, old.gid).catch(() => {});
  await chmod(unfinished, old.mode & 0o7777);
}

/** So that the new name outlives a machine that stops; some file systems can't. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY);
  await folder.sync().catch(() => {});
  await folder.close();
}
