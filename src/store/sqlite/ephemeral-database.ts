/**
 * A database shared by running processes whose content need not survive them, so writes don't wait for the disk.
 */
import { Database } from "bun:sqlite";
import { closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { retryOnBusy } from "./retry-on-busy.ts";

/** How long processes that start at once wait for each other. */
const openingBusyMs = 10_000;
/** Another process holds the lock for some ten microseconds: trying again at once is quicker than any sleep. */
const eagerTries = 200;
const maxTries = eagerTries + 250;

export type EphemeralDatabase = {
  readonly database: Database;
  /** Runs `work` while no other process reads or writes, as one transaction. @throws SQLite's errors */
  exclusively<T>(work: () => T): T;
};

/**
 * Opens it, or makes it for this user only.
 * @param schema made where it is not there
 * @param maxBytes beyond it writes fail with SQLITE_FULL
 * @throws SQLite's errors and the file system's
 */
export function openEphemeralDatabase(path: string, schema: string, maxBytes?: number): EphemeralDatabase {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  closeSync(openSync(path, "a", 0o600));
  const database = new Database(path, { strict: true, readwrite: true, create: true });
  database.run(`pragma busy_timeout = ${openingBusyMs}`);
  retryOnBusy(() => database.run("pragma journal_mode = wal"), openingBusyMs);
  database.run("pragma synchronous = off");
  database.run("pragma journal_size_limit = 4194304");
  retryOnBusy(() => database.run(schema), openingBusyMs);
  if (maxBytes !== undefined) database.run(`pragma max_page_count = ${Math.floor(maxBytes / 4096)}`);
  database.run("pragma busy_timeout = 0");
  const begin = database.prepare("begin immediate");
  const commit = database.prepare("commit");
  return {
    database,
    exclusively: (work) => {
      lock(begin);
      try {
        const result = work();
        commit.run();
        return result;
      } catch (error) {
        if (database.inTransaction) database.run("rollback");
        throw error;
      }
    },
  };
}

function lock(begin: { run(): unknown }): void {
  for (let tries = 1; ; tries += 1) {
    try {
      begin.run();
      return;
    } catch (error) {
      if ((error as { code?: string }).code !== "SQLITE_BUSY" || tries >= maxTries) throw error;
      if (tries > eagerTries) Bun.sleepSync(1);
    }
  }
}
