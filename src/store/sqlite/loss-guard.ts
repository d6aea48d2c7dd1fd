/**
 * Detects that a database was lost. A data folder whose database is missing, empty or truncated would otherwise be initialised as a
 * new one: another first key, none of the old ones, and recoverable data overwritten.
 *
 * The evidence is a marker file beside the database, written once the first key is durable and never removed, and `first-key`.
 */
import type { Database } from "bun:sqlite";
import { closeSync, existsSync, openSync, readSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { writePrivately } from "../../lib/files/write-privately.ts";
import { StorageError } from "../contract/storage-error.ts";
import { schemaVersionOf } from "./migrations.ts";

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
  /** The file that proves a database with keys; undefined: there is none. */
  readonly #trace: string | undefined;
  #isMarked: boolean;
  /** True if the file is shorter than its header says: truncated, or a checkpoint was interrupted. */
  readonly isShort: boolean;
  /** True if there is no database yet. */
  readonly isNew: boolean;

  /**
   * Inspects the files before SQLite opens them: closing a descriptor later would release SQLite's POSIX locks on the file.
   * @param path of the database
   * @throws StorageError when there was a database, and its file is missing or empty
   */
  constructor(folder: string, path: string) {
    this.#folder = folder;
    this.#path = path;
    this.#isMarked = existsSync(join(folder, markName));
    // In this order: during another process's first start the database exists before these files do.
    this.#trace = traceIn(folder, path);
    const bytes = bytesOf(path);
    this.isNew = bytes === 0;
    this.isShort = bytes > 0 && isShort(path);
    if (this.#trace !== undefined && this.isNew) throw this.#lost(existsSync(path) ? "is empty" : "is missing");
  }

  /** Read-only. @throws StorageError when the tables are gone, another program's, or a newer version's */
  checkOpened(database: Database): void {
    if (this.#trace !== undefined && schemaVersionOf(database, this.#path) === 0)
      throw this.#lost("has no tables, or no version");
  }

  /** @param hasKeys whether there is a key. @throws StorageError when there was one before */
  checkKeys(hasKeys: boolean): void {
    if (this.#trace !== undefined && !hasKeys) throw this.#lost("has no keys");
  }

  /** Checkpoints the first key to disk, then writes the marker file. Retried at the next start where that fails. */
  mark(database: Database): void {
    if (this.#isMarked) return;
    try {
      // Else a power failure could lose the key and keep the marker. Source: https://www.sqlite.org/pragma.html#pragma_wal_checkpoint
      database.query("pragma wal_checkpoint(passive)").get();
      writePrivately(join(this.#folder, markName), markText);
      this.#isMarked = true;
    } catch {
      // The guard is weaker until the next start; nothing else depends on it.
    }
  }

  #lost(state: string): StorageError {
    return new StorageError(
      "lost",
      this.#path,
      `The database ${this.#path} ${state}, but ${this.#trace} shows that there were keys: ${advice}.`,
    );
  }
}

/** Renames the marker files of a lost database, so that a new one may be made. */
export function renameMarkers(folder: string): void {
  for (const name of [markName, firstKeyName]) {
    const path = join(folder, name);
    if (existsSync(path)) renameSync(path, `${path}.replaced`);
  }
}

function traceIn(folder: string, path: string): string | undefined {
  const named = [join(folder, markName), join(folder, firstKeyName)].find((file) => existsSync(file));
  // SQLite creates the write-ahead log after the database's first page.
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
