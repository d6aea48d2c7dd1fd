/**
 * Whether anything was committed to a database since one last looked, by whatever process, at the cost of reading memory.
 *
 * Connections to a database in WAL mode share an index of its log, a file in memory. Its header holds the number of
 * commits, and a checksum over all that was written: by comparing it SQLite itself finds out whether others have written,
 * and a commit is one the moment it stands there. So whatever can be read of another's writing is seen here, and
 * whoever is killed at whatever moment leaves nothing unseen. Source: https://www.sqlite.org/walformat.html
 */
import type { Database } from "bun:sqlite";
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { makeFile } from "../../lib/mapped-file.ts";

const headerBytes = 48;
/** The header's first number, in all versions of SQLite so far. */
const knownFormat = 3007000;

/** The indexes that this process has mapped. */
const open = new Set<string>();

export class CommitWatch {
  readonly #path: string;
  readonly #inode: bigint;
  readonly #header: Uint32Array;
  readonly #seen = new Uint32Array(headerBytes / 4);

  private constructor(path: string, inode: bigint, header: Uint32Array) {
    this.#path = path;
    this.#inode = inode;
    this.#header = header;
  }

  /**
   * To be called before the database is opened: a process that closes any descriptor of a file loses all its locks on it,
   * SQLite's too, and mapping a file opens and closes it. Source: https://www.sqlite.org/howtocorrupt.html, section 2.2
   * @param database its path
   * @returns undefined where files can't be mapped, or where this process has the database open already
   */
  static begin(database: string): CommitWatch | undefined {
    const path = `${resolve(database)}-shm`;
    if (open.has(path)) return undefined;
    try {
      makeFile(path, new Uint8Array(headerBytes));
      const inode = inodeOf(path);
      const { buffer, byteOffset } = Bun.mmap(path, { shared: true });
      const watch = new CommitWatch(path, inode, new Uint32Array(buffer, byteOffset, headerBytes / 4));
      open.add(path);
      return watch;
    } catch {
      return undefined;
    }
  }

  /** Whether this is the index that the database uses, in a form that is known. */
  follows(database: Database): boolean {
    const mode = database.query<{ journal_mode: string }, []>("pragma journal_mode").get();
    // The first reading begins the index.
    database.query("select 1 from sqlite_schema").get();
    return mode?.journal_mode === "wal" && this.#header[0] === knownFormat && inodeOf(this.#path) === this.#inode;
  }

  /**
   * True once for all commits since the last call, and where the log was begun anew. What is read of the database after it
   * is not older than they are.
   */
  sawCommit(): boolean {
    const header = this.#header;
    const seen = this.#seen;
    let same = true;
    for (let at = 0; at < seen.length; at += 1) {
      const found = header[at]!;
      if (seen[at] === found) continue;
      seen[at] = found;
      same = false;
    }
    return !same;
  }

  /** When the database is closed. */
  end(): void {
    open.delete(this.#path);
  }
}

const inodeOf = (path: string): bigint => statSync(path, { bigint: true }).ino;
