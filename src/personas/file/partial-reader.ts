/** Reads partials from a folder of personas: each once for a reading of the folder, and none that lies outside. */
import { realpath } from "node:fs/promises";
import { join, sep } from "node:path";
import type { ParsedPersona, PersonaDraft } from "../persona.ts";
import { listFolders } from "../skills/list-folders.ts";
import type { Partials, PartialText } from "./includes.ts";
import { maxFileBytes, readStart, reasonOf, utf8 } from "./read-file.ts";

export class PartialReader implements Partials {
  readonly #root: string;
  #realRoot: Promise<string> | undefined;
  readonly #read = new Map<string, PartialText & { readonly hash: string }>();

  constructor(root: string) {
    this.#root = root;
  }

  find(path: string): PartialText | undefined {
    return this.#read.get(path);
  }

  nameOf(path: string): string {
    return join(this.#root, path);
  }

  /** Characters of a partial; 0 where it has no text. */
  sizeOf(path: string): number {
    const read = this.#read.get(path);
    return read !== undefined && "text" in read ? read.text.length : 0;
  }

  /** Reads those that were not read yet. @returns the hash of each, or its problem */
  async load(paths: Iterable<string>): Promise<string[]> {
    const all = [...paths];
    const unread = all.filter((path) => !this.#read.has(path));
    await Promise.all(unread.map(async (path) => void this.#read.set(path, await this.#load(path))));
    return all.map((path) => this.#read.get(path)!.hash);
  }

  async #load(path: string): Promise<PartialText & { readonly hash: string }> {
    const read = await this.#textOf(path);
    return "text" in read ? { ...read, hash: Bun.SHA256.hash(read.text, "hex") } : { ...read, hash: read.problem };
  }

  async #textOf(path: string): Promise<PartialText> {
    try {
      this.#realRoot ??= realpath(this.#root);
      if (path.endsWith("/")) return await listFolders(await this.#realRoot, path.slice(0, -1));
      // The file that a link leads to is the one that is read.
      const real = await realpath(join(this.#root, path));
      if (!real.startsWith(`${await this.#realRoot}${sep}`))
        return { problem: "is a link that leads out of the folder of personas" };
      const bytes = await readStart(real);
      if (bytes.length > maxFileBytes) return { problem: `is larger than ${maxFileBytes / 1024} KiB` };
      return { text: utf8.decode(bytes) };
    } catch (error) {
      const isBinary = (error as { code?: string }).code === "ERR_ENCODING_INVALID_ENCODED_DATA";
      return { problem: `can't be read: ${reasonOf(error)}`, ...(isBinary && { isBinary }) };
    }
  }
}

/** Puts a draft's includes in place, reading those that it needs. */
export async function resolveDraft(
  draft: PersonaDraft,
  partials: Partials & { load(paths: readonly string[]): Promise<unknown> },
): Promise<ParsedPersona & { readonly uses: readonly string[] }> {
  for (;;) {
    const resolved = draft.resolve(partials);
    if (!("missing" in resolved)) return resolved;
    await partials.load(resolved.missing);
  }
}
