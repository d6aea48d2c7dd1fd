/** The commits by which versions of a persona came into a folder that is a git checkout. */
import { dirname } from "node:path";
import type { Partials, PartialText } from "../../personas/file/includes.ts";
import { resolveDraft } from "../../personas/file/partial-reader.ts";
import { personaFileWith } from "../../personas/file/schema.ts";
import { draftPersona } from "../../personas/persona.ts";
import { optionSchemas } from "../../providers/options.ts";
import { providers } from "../../providers/registry.ts";

/** Commits that are looked at, the newest first. */
const maxCommits = 100;

export type Commit = { readonly hash: string; readonly subject: string };

/**
 * Reads the persona as it was at each commit of its file and of the partials that it has now.
 * @param file of the persona, absolute @param folder of all personas @returns by version the first commit that has it; none where there is no git
 */
export async function commitsOf(id: string, file: string, folder: string): Promise<ReadonlyMap<string, Commit>> {
  const found = new Map<string, Commit>();
  const root = git(dirname(file), "rev-parse", "--show-prefix")?.trim();
  if (root === undefined) return found;
  const schema = personaFileWith(optionSchemas(providers));
  const now = draftPersona(await Bun.file(file).text(), file, id, schema);
  const uses = "errors" in now ? [] : (await resolveDraft(now, new CommittedPartials(folder, undefined))).uses;
  const name = file.slice(folder.length + 1);
  const lines = git(folder, "log", `--max-count=${maxCommits}`, "--format=%h%x09%s", "--", name, ...uses) ?? "";
  for (const line of lines.split("\n").filter((one) => one !== "")) {
    const [hash = "", subject = ""] = line.split("\t");
    const text = committed(folder, hash, name);
    const draft = text === undefined ? undefined : draftPersona(text, file, id, schema);
    if (draft === undefined || "errors" in draft) continue;
    const made = await resolveDraft(draft, new CommittedPartials(folder, hash));
    // Older ones come later.
    if ("persona" in made) found.set(made.persona.version, { hash, subject });
  }
  return found;
}

/** Partials as they were at a commit. */
class CommittedPartials implements Partials {
  readonly #folder: string;
  readonly #hash: string | undefined;
  readonly #read = new Map<string, PartialText>();

  /** @param hash undefined: as they are now */
  constructor(folder: string, hash: string | undefined) {
    this.#folder = folder;
    this.#hash = hash;
  }

  find(path: string): PartialText | undefined {
    return this.#read.get(path);
  }

  nameOf(path: string): string {
    return path;
  }

  async load(paths: readonly string[]): Promise<void> {
    for (const path of paths) {
      const now = () =>
        Bun.file(`${this.#folder}/${path}`)
          .text()
          .catch(() => undefined);
      const text = this.#hash === undefined ? await now() : committed(this.#folder, this.#hash, path);
      this.#read.set(path, text === undefined ? { problem: "is not there" } : { text });
    }
  }
}

const committed = (folder: string, hash: string, path: string): string | undefined =>
  git(folder, "show", `${hash}:./${path}`);

/** @returns undefined where git fails, or is not there */
function git(folder: string, ...parts: string[]): string | undefined {
  try {
    const { stdout, success } = Bun.spawnSync(["git", "-C", folder, "--no-optional-locks", ...parts], {
      stderr: "ignore",
    });
    return success ? stdout.toString() : undefined;
  } catch {
    return undefined;
  }
}
