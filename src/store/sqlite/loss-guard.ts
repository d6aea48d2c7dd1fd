/**
 * Tells a database that was lost from one that never was. A data folder whose database is missing, empty or cut short would
 * else pass for a new one: a new first key, no old ones, and what could have been saved overwritten.
 *
 * What tells is a file beside the database, made once the first key is safely on the disk and never removed, and `first-key`.
 */
import type { Database } from "bun:sqlite";
import { closeSync, existsSync, openSync, readSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { writePrivately } from "../../lib/write-privately.ts";
import { StorageError } from "../storage-error.ts";
import { versionOf } from "./migrations.ts";

const markName = "troupe.db.made";
export const firstKeyName = "first-key";

const markText = `Troupe made a database in this folder, and keys in it. As long as this file is here, a start that finds the database
missing, empty or damaged stops and says so, instead of making a new one. See "Storage" in docs/troubleshooting.md.
`;

const advice =
  "restore a backup with 'troupe data restore <file>', or begin anew, without the old keys, with 'troupe serve --new-database'";

export class LossGuard {
  readonly #folder: string;
  readonly #path: string;
  /** What tells that there was a database with keys; undefined: nothing does. */
  readonly #trace: string | undefined;
  #isMarked: boolean;
  /** Whether the file is shorter than it says of itself: cut, or a log was just being brought into it. */
  readonly isShort: boolean;
  /** Whether there is no database yet. */
  readonly isNew: boolean;

  /**
   * Looks at the files, before anything is opened: to close one later would give up SQLite's locks on it.
   * @param path of the database
   * @throws StorageError when there was a database, and its file is missing or empty
   */
  constructor(folder: string, path: string) {
    this.#folder = folder;
    this.#path = path;
    this.#isMarked = existsSync(join(folder, markName));
    // In this order: of a first start that is under way in another process, the database is there before these are.
    this.#trace = traceIn(folder, path);
    const bytes = bytesOf(path);
    this.isNew = bytes === 0;
    this.isShort = bytes > 0 && isShort(path);
    if (this.#trace !== undefined && this.isNew) {
      const state = existsSync(path) ? "is empty" : "is missing";
      throw new StorageError(
        "lost",
        path,
        `The database ${path} ${state}, but ${this.#trace} tells of keys: ${advice}.`,
      );
    }
  }

  /** Only reads. @throws StorageError when there are no tables any more, or they are another program's, or a newer version's */
  checkOpened(database: Database): void {
    if (this.#trace !== undefined && versionOf(database, this.#path) === 0)
      throw this.#emptied("has no tables, or no version");
  }

  /** @param hasKeys whether there is a key. @throws StorageError when there was one before */
  checkKeys(hasKeys: boolean): void {
    if (this.#trace !== undefined && !hasKeys) throw this.#emptied("has no keys");
  }

  /** Once a key is there: brings it to the disk, and leaves the mark. Without room for a mark it is left the next time. */
  mark(database: Database): void {
    if (this.#isMarked) return;
    try {
      // Or a power cut could take the key and leave the mark. Source: https://www.sqlite.org/pragma.html#pragma_wal_checkpoint
      database.query("pragma wal_checkpoint(passive)").get();
      writePrivately(join(this.#folder, markName), markText);
      this.#isMarked = true;
    } catch {
      // What it guards against is no worse than before.
    }
  }

  #emptied(state: string): StorageError {
    return new StorageError(
      "lost",
      this.#path,
      `The database ${this.#path} ${state}, but ${this.#trace} tells of keys: ${advice}.`,
    );
  }
}

/** Moves what tells of a lost database out of the way of a new one. */
export function forgetLost(folder: string): void {
  for (const name of [markName, firstKeyName]) {
    const path = join(folder, name);
    if (existsSync(path)) renameSync(path, `${path}.replaced`);
  }
}

function traceIn(folder: string, path: string): string | undefined {
  const named = [join(folder, markName), join(folder, firstKeyName)].find((file) => existsSync(file));
  // A log comes into being after the database's first page.
  return named ?? (bytesOf(`${path}-wal`) > 0 && bytesOf(path) === 0 ? `${path}-wal` : undefined);
}

const bytesOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

const headerBytes = 100;

/** Source: https://www.sqlite.org/fileformat2.html#the_database_header */
function isShort(path: string): boolean {
  const header = Buffer.alloc(headerBytes);
  const file = openSync(path, "r");
  try {
    if (readSync(file, header, 0, headerBytes, 0) < headerBytes) return true;
  } finally {
    closeSync(file);
  }
  const pageSize = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
  const countIsValid = header.readUInt32BE(24) === header.readUInt32BE(92);
  return countIsValid && bytesOf(path) < pageSize * header.readUInt32BE(28);
}
