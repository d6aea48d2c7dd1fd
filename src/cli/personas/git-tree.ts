/**
 * The folder of personas as a commit has it, read from git's objects: `git ls-tree` names the files, and one `git cat-file --batch` gives
 * them. The working tree and the index are left alone, and nothing is fetched. Source: https://git-scm.com/docs/git-cat-file
 */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { printable } from "../../lib/text/printable.ts";
import { CommandError } from "../context.ts";

export type Base = {
  /** As it was given. */
  readonly ref: string;
  /** The commit that is compared with. */
  readonly commit: string;
  /** True where the ref has gone on since: the commit is the one that both have in common. */
  readonly isForkPoint: boolean;
};

/** Files that personas, their partials, knowledge and tests are never in. They stand there by their names alone: a skill says which it has. */
const pictures = /\.(?:png|jpe?g|webp|gif|avif|pdf|zip)$/i;
const maxFileBytes = 16 * 1024 * 1024;
const maxTotalBytes = 256 * 1024 * 1024;

/**
 * Finds the commit that a branch is compared with: where it left the other one, as a review of a branch is of its own commits alone.
 * @param folder of personas @throws CommandError, each case in its own words
 */
export function baseOf(folder: string, ref: string): Base {
  const inside = git(folder, ["rev-parse", "--is-inside-work-tree"]);
  if (!inside.success) {
    if (/not a git repository/i.test(inside.error))
      throw new CommandError(`${folder} is in no git repository, so that there is no commit to compare with.`);
    throw new CommandError(`git can't read the repository of ${folder}: ${inside.error}`);
  }
  const isShallow = git(folder, ["rev-parse", "--is-shallow-repository"]).out.trim() === "true";
  const named = printable(ref);
  const deeper = "This clone is shallow: fetch its whole history ('git fetch --unshallow', or 'fetch-depth: 0' in CI)";
  const found = commitOf(folder, ref);
  if (found === undefined) {
    const guess = commitOf(folder, `origin/${ref}`) === undefined ? "" : ` Did you mean 'origin/${named}'?`;
    const advice = guess === "" && isShallow ? ` ${deeper}, or fetch that branch.` : guess;
    throw new CommandError(`'${named}' names no commit of this repository.${advice}`);
  }
  if (commitOf(folder, "HEAD") === undefined) return { ref, commit: found, isForkPoint: false };
  const fork = git(folder, ["merge-base", "HEAD", found]).out.trim();
  if (fork === "" && isShallow) throw new CommandError(`Where this branch left '${named}' is not known. ${deeper}.`);
  const commit = fork === "" ? found : fork;
  return { ref, commit, isForkPoint: commit !== found };
}

const commitOf = (folder: string, ref: string): string | undefined => {
  const { success, out } = git(folder, ["rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`]);
  return success ? out.trim() : undefined;
};

/**
 * Writes the folder as the commit has it.
 * @param into an empty folder of its own, outside of the working tree @returns false where the commit has no such folder @throws CommandError
 */
export async function writeTree(folder: string, commit: string, into: string): Promise<boolean> {
  const prefix = git(folder, ["rev-parse", "--show-prefix"]).out.replace(/\n$/, "");
  const listed = git(folder, ["ls-tree", "-r", "-z", "-l", "--full-tree", commit, ...(prefix === "" ? [] : [prefix])]);
  if (!listed.success) throw new CommandError(`git can't list the files of ${commit.slice(0, 12)}: ${listed.error}`);
  // Links come last, so that nothing is written through one.
  const files = listed.out
    .split("\0")
    .flatMap((line) => entryOf(line, prefix))
    .sort((one, other) => Number(one.isLink) - Number(other.isLink));
  // git checks none out, and has them in its objects all the same.
  const outside = files.find(({ path }) => path.split("/").includes(".."));
  if (outside !== undefined)
    throw new CommandError(`At ${commit.slice(0, 12)} '${printable(outside.path)}' leads out of the folder.`);
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  if (total > maxTotalBytes)
    throw new CommandError(`The folder has more than ${maxTotalBytes / 1_048_576} MiB at ${commit.slice(0, 12)}.`);
  if (files.length === 0) return false;
  const read = files.filter(({ isNamedOnly }) => !isNamedOnly);
  const texts = await objectsOf(
    folder,
    read.map(({ object }) => object),
  );
  const textOf = new Map(read.map(({ path }, at) => [path, texts[at]!]));
  const made = new Set<string>();
  for (const { path, isLink } of files) {
    const text = textOf.get(path) ?? noText;
    const file = join(into, path);
    const parent = dirname(file);
    if (!made.has(parent)) mkdirSync(parent, { recursive: true });
    made.add(parent);
    if (isLink) symlinkSync(Buffer.from(text).toString(), file);
    else writeFileSync(file, text);
  }
  return true;
}

type Entry = {
  readonly path: string;
  readonly object: string;
  readonly isLink: boolean;
  readonly bytes: number;
  readonly isNamedOnly: boolean;
};

/** No UTF-8. */
const noText = Uint8Array.of(0xff);

/** @param line `<mode> <type> <object> <size>\t<path>` */
function entryOf(line: string, prefix: string): Entry[] {
  const [, mode, type, object, size, path] = /^(\d+) (\w+) ([0-9a-f]+) +(\S+)\t([\s\S]+)$/.exec(line) ?? [];
  if (path === undefined || type !== "blob") return [];
  const isLink = mode === "120000";
  const isNamedOnly = !isLink && (pictures.test(path) || Number(size) > maxFileBytes);
  return [
    { path: path.slice(prefix.length), object: object!, isLink, bytes: isNamedOnly ? 1 : Number(size), isNamedOnly },
  ];
}

/** @returns the contents of objects, in their order */
async function objectsOf(folder: string, objects: readonly string[]): Promise<Uint8Array[]> {
  const asked = Bun.spawn(["git", "-C", folder, "cat-file", "--batch"], {
    env: environment(),
    stdin: Buffer.from(objects.map((one) => `${one}\n`).join("")),
    stderr: "ignore",
  });
  const answer = await new Response(asked.stdout).bytes();
  const found: Uint8Array[] = [];
  for (let at = 0; found.length < objects.length; ) {
    const end = answer.indexOf(10, at);
    const [object, type, size] = Buffer.from(answer.subarray(at, Math.max(at, end)))
      .toString()
      .split(" ");
    if (end < 0 || type !== "blob")
      throw new CommandError(
        `git has no object ${object === "" ? objects[found.length] : object} here: this clone is partial; fetch it whole.`,
      );
    found.push(answer.subarray(end + 1, end + 1 + Number(size)));
    at = end + 2 + Number(size);
  }
  return found;
}

/** Nothing is fetched, and nobody is asked. */
const environment = () => ({ ...Bun.env, GIT_NO_LAZY_FETCH: "1", GIT_TERMINAL_PROMPT: "0", LC_ALL: "C" });

/** @throws CommandError where there is no git */
function git(folder: string, parts: readonly string[]): { success: boolean; out: string; error: string } {
  try {
    const { stdout, stderr, success } = Bun.spawnSync(["git", "-C", folder, "--no-optional-locks", ...parts], {
      env: environment(),
    });
    const [error = ""] = stderr
      .toString()
      .replace(/^fatal: /, "")
      .split("\n");
    return { success, out: stdout.toString(), error: printable(error.trim()) };
  } catch {
    throw new CommandError("git is not installed, and the report reads the other side from it.");
  }
}
