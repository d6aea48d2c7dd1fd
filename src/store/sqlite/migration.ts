/** Schema migration of a data folder, and its dry run on a copy. */
import { Database } from "bun:sqlite";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { storing } from "../contract/storage-error.ts";
import { LossGuard } from "./loss-guard.ts";
import { ownVersion, schemaVersionOf } from "./migrations.ts";
import { databaseName, openStore } from "./store.ts";

type Migration = {
  /** The schema's version in the file; 0: there is no database yet. */
  readonly from: number;
  /** The one that this program works with. */
  readonly to: number;
  /** Duration, in milliseconds. */
  readonly milliseconds: number;
  /** Size of the file before the migration, in bytes. */
  readonly bytes: number;
};

/**
 * Migrates the database to this version's schema, as a start does.
 * @param now a monotonic reading in milliseconds
 * @throws StorageError
 */
export async function migrateData(folder: string, now: () => number): Promise<Migration> {
  const before = look(folder);
  const startedAt = now();
  await openStore(folder).close();
  return { ...before, milliseconds: now() - startedAt };
}

/**
 * Dry run: migrates a copy in the data folder and removes it; servers may run on the original.
 * @throws StorageError, as the migration itself would
 */
export async function dryRunMigration(folder: string, now: () => number): Promise<Migration> {
  const before = look(folder);
  if (before.from === 0) return { ...before, milliseconds: 0 };
  const copied = mkdtempSync(join(folder, "dry-run-"));
  try {
    const path = join(folder, databaseName);
    storing(path, () => copy(path, join(copied, databaseName)));
    return { ...before, milliseconds: (await migrateData(copied, now)).milliseconds };
  } finally {
    rmSync(copied, { recursive: true, force: true });
  }
}

function look(folder: string): Omit<Migration, "milliseconds"> {
  const path = join(folder, databaseName);
  const to = ownVersion;
  const guard = new LossGuard(folder, path);
  if (guard.isNew) return { from: 0, to, bytes: 0 };
  const from = storing(path, () =>
    withReader(path, (database) => {
      guard.checkOpened(database);
      return schemaVersionOf(database, path);
    }),
  );
  return { from, to, bytes: statSync(path).size };
}

/** A consistent snapshot of what is committed, while others write. Source: https://www.sqlite.org/lang_vacuum.html */
function copy(path: string, target: string): void {
  withReader(path, (database) => database.run("vacuum into ?", [target]));
}

function withReader<T>(path: string, read: (database: Database) => T): T {
  const database = new Database(path, { readonly: true });
  try {
    return read(database);
  } finally {
    database.close();
  }
}
