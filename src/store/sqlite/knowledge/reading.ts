/** Reads the files of one change: looks at them, finds those that may differ from what is indexed, and sees whether they change meanwhile. */
import type { Database } from "bun:sqlite";
import { readFileSync, type Stats, statSync } from "node:fs";
import type { Collection } from "../../contract/knowledge.ts";
import { type CollectionFile, filesOf, pathOfText } from "./files.ts";

const maxFileBytes = 4 * 1024 * 1024;
/** A file that changed so shortly before it was read may change again within the same time stamp. */
const racyMs = 2_000;

type Wanted = { readonly id: string; readonly files: readonly CollectionFile[] };
type Seen = { readonly stamp: string; readonly changedAt: number };
/** The files as they stood. */
type Look = {
  readonly wanted: readonly Wanted[];
  readonly seen: ReadonlyMap<string, Seen>;
  readonly problems: string[];
};
type FileRow = { path: string; stamp: string; read_at: number };
export type KnowledgeFile = {
  readonly path: string;
  readonly hash: string;
  readonly stamp: string;
  readonly bytes: number;
  readonly text: string;
};

/** Reads those files alone that are new or may differ from what is indexed. */
export class KnowledgeReading {
  indexed = 0;
  removed = 0;
  readonly #collections: readonly Collection[];
  readonly #pause: () => Promise<void>;
  readonly #known: ReadonlyMap<string, FileRow>;
  /** Of collections that bring their files along, by the paths that stand for them. */
  readonly #texts: ReadonlyMap<string, string>;
  readonly #unreadable = new Map<string, string>();
  #look: Look = { wanted: [], seen: new Map(), problems: [] };

  /** @param pause lets others have their turn */
  constructor(database: Database, collections: readonly Collection[], pause: () => Promise<void>) {
    const rows = database.query<FileRow, []>("select path, stamp, read_at from files").all();
    this.#known = new Map(rows.map((row) => [row.path, row]));
    this.#collections = collections;
    const texts = collections.flatMap((one) => one.texts ?? []);
    this.#texts = new Map(texts.map(({ text }) => [pathOfText(text), text]));
    this.#pause = pause;
  }

  /** The files of each collection, of the latest look. */
  get wanted(): readonly Wanted[] {
    return this.#look.wanted;
  }

  /** Files that can't be read, as sentences. */
  get problems(): readonly string[] {
    const unread = [...this.#unreadable].filter(([path]) => this.#look.seen.has(path));
    return [
      ...new Set([...this.#look.problems, ...unread.map(([path, reason]) => `${path} can't be read: ${reason}`)]),
    ];
  }

  isKept(path: string): boolean {
    return this.#look.seen.has(path) && !this.#unreadable.has(path);
  }

  /**
   * Looks at the files. What was read between two looks that see the same stood there all at once.
   * @returns the paths that are new or were written since the look before; undefined where all stands as it did then
   */
  async look(): Promise<readonly string[] | undefined> {
    const before = this.#look;
    const problems: string[] = [];
    const wanted = this.#collections.map((collection) => ({ id: collection.id, files: filesOf(collection, problems) }));
    await this.#pause();
    const seen = new Map<string, Seen>();
    for (const { path } of wanted.flatMap(({ files }) => files)) {
      if (this.#texts.has(path)) {
        seen.set(path, { stamp: path, changedAt: Number.NEGATIVE_INFINITY });
        continue;
      }
      const found = statSync(path, { throwIfNoEntry: false });
      if (found?.isFile()) seen.set(path, { stamp: stampOf(found), changedAt: found.ctimeMs });
    }
    this.#look = { wanted, seen, problems };
    if (Bun.deepEquals([before.wanted, before.seen], [wanted, seen])) return undefined;
    return [...seen].flatMap(([path, { stamp }]) => (before.seen.get(path)?.stamp === stamp ? [] : path));
  }

  /** True if the file is new, or was written since it was indexed, be it with the same bytes. */
  hasChanged(path: string): boolean {
    const found = this.#look.seen.get(path)!;
    const known = this.#known.get(path);
    if (known?.stamp === found.stamp && found.changedAt < known.read_at - racyMs) return false;
    return this.read(path) !== undefined;
  }

  /** @returns undefined where it can't be read, which is a problem: the index goes without it */
  read(path: string): KnowledgeFile | undefined {
    this.#unreadable.delete(path);
    const own = this.#texts.get(path);
    if (own !== undefined) return { path, hash: path, stamp: path, bytes: Buffer.byteLength(own), text: own };
    try {
      const found = statSync(path);
      if (found.size > maxFileBytes) throw new Error(`it is larger than ${maxFileBytes / 1_048_576} MiB`);
      const bytes = readFileSync(path);
      const hash = Bun.SHA256.hash(bytes, "hex");
      return { path, hash, stamp: stampOf(found), bytes: bytes.length, text: utf8.decode(bytes) };
    } catch (error) {
      this.#unreadable.set(path, reasonOf(error));
      return undefined;
    }
  }
}

/** What changes with every write to a file. */
const stampOf = ({ ino, size, mtimeMs, ctimeMs }: Stats): string => `${ino} ${size} ${mtimeMs} ${ctimeMs}`;

const utf8 = new TextDecoder("utf-8", { fatal: true });

function reasonOf(error: unknown): string {
  const { code, message } = error as { code?: string; message: string };
  return code === "ERR_ENCODING_INVALID_ENCODED_DATA" ? "it is not UTF-8" : (code ?? message);
}
