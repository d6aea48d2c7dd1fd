/**
 * Tracks which processes serve from a data folder. Each locks a file of its own, which the operating system unlocks when the
 * process ends, however it ends. So dead processes are distinguished from slow ones without clocks and heartbeats.
 */
import { Database } from "bun:sqlite";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { asStorageError, StorageError } from "../contract/storage-error.ts";

const folderName = "running";
const suffix = ".lock";

export class LivenessLock {
  /** Names this process; never used again by another one. */
  readonly id: string;
  readonly #folder: string;
  /** Holds the lock for as long as this object is reachable. */
  readonly #lock: Database;

  /** Takes the lock. @throws StorageError */
  constructor(dataFolder: string) {
    this.#folder = join(dataFolder, folderName);
    const id = crypto.randomUUID();
    const path = join(this.#folder, id + suffix);
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      closeSync(openSync(path, "wx", 0o600));
      this.#lock = lockFile(path, 1_000);
    } catch (error) {
      const message = `${this.#folder} can't be used (${(error as { code?: string }).code}); check its owner and permissions.`;
      const meaning = asStorageError(error, path);
      throw meaning instanceof StorageError ? meaning : new StorageError("unusable", path, message, error);
    }
    this.id = id;
    // Another process may have taken the file for a dead one's in the moment before it was locked.
    if (!existsSync(path)) throw new StorageError("busy", path, `${path} was removed by another process; try again.`);
  }

  /** True if the process of that name still runs. A file that can't be looked at counts as one that is held. */
  isAlive(id: string): boolean {
    const path = join(this.#folder, id + suffix);
    if (id === this.id) return true;
    if (!existsSync(path)) return false;
    try {
      lockFile(path, 0).close();
      return false;
    } catch {
      return true;
    }
  }

  /** The other live processes. Removes the lock files of dead ones. */
  others(): string[] {
    return processesIn(this.#folder).filter((id) => {
      if (id === this.id) return false;
      if (this.isAlive(id)) return true;
      rmSync(join(this.#folder, id + suffix), { force: true });
      return false;
    });
  }

  release(): void {
    this.#lock.close();
    rmSync(join(this.#folder, this.id + suffix), { force: true });
  }
}

function processesIn(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => (name.endsWith(suffix) ? [name.slice(0, -suffix.length)] : []));
}

/**
 * SQLite's own lock on an empty file; released by the operating system when the process ends, killed or not.
 * @param waitMs how long another process may hold it, which blocks this one
 * @returns what holds the lock until it is closed
 * @throws SQLite's errors
 */
export function lockFile(path: string, waitMs: number): Database {
  const database = new Database(path, { readwrite: true, create: false });
  try {
    database.run(`pragma busy_timeout = ${waitMs}`);
    database.run("pragma journal_mode = memory");
    database.run("begin exclusive");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}
