/** Operations on a data folder: statistics, backup, restore, discarding a lost database, pruning. */
import { Database } from "bun:sqlite";
import { closeSync, copyFileSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { DataError } from "../contract/data-error.ts";
import { StorageError, storing } from "../contract/storage-error.ts";
import type { ConversationTotals, RunTotals } from "../contract/store.ts";
import type { OpenedStore } from "../open.ts";
import { type SweepCounts, type SweepRules, sweepStep } from "../sweeper.ts";
import { LivenessLock } from "./liveness-lock.ts";
import { renameMarkers } from "./loss-guard.ts";
import { migrate, schemaVersionOf } from "./migrations.ts";
import { databaseName, makeDataFolder, openStore, type SqliteStore } from "./store.ts";

type DataStats = {
  /** The database file, or the server's address. */
  readonly path: string;
  readonly schemaVersion: number;
  readonly bytes: number;
  readonly freeBytes: number;
  /** Bytes of the write-ahead log. */
  readonly logBytes: number;
  /** Servers that run on this folder now. */
  readonly servers: number;
  readonly keys: { readonly usable: number; readonly revoked: number; readonly expired: number };
  /** Answers kept under a service-request-id. */
  readonly answers: RunTotals;
  readonly conversations: ConversationTotals;
};

/** Scans every row: slow on a large database, and safe while servers run. */
export async function dataStats(store: OpenedStore, now: number): Promise<DataStats> {
  const { path, schemaVersion, maintenance } = store;
  const keys = await store.keys.list();
  const revoked = keys.filter(({ revokedAt }) => revokedAt !== null).length;
  const expired = keys.filter(
    ({ revokedAt, expiresAt }) => revokedAt === null && expiresAt !== null && expiresAt <= now,
  );
  const log = `${path}-wal`;
  return {
    path,
    schemaVersion,
    ...(await maintenance.size()),
    logBytes: existsSync(log) ? statSync(log).size : 0,
    servers: await maintenance.otherServers(),
    keys: { usable: keys.length - revoked - expired.length, revoked, expired: expired.length },
    answers: await maintenance.runTotals(),
    conversations: await maintenance.conversationTotals(),
  };
}

/**
 * Backs the database up into one new file of mode 0600, while servers run. The file appears under its name once it is complete and synced.
 * @throws DataError when there is such a file; StorageError
 */
export async function backUp({ maintenance }: SqliteStore, file: string): Promise<void> {
  if (existsSync(file)) throw new DataError(`${file} exists already; name another file.`);
  const unfinished = `${file}.unfinished`;
  createEmpty(unfinished);
  try {
    await maintenance.copyTo(unfinished);
    checkCopy(unfinished, file);
    flushToDisk(unfinished);
    renameSync(unfinished, file);
    flushToDisk(dirname(file));
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw error;
  }
}

/**
 * Replaces the database by a backup, once that passed an integrity check and was migrated to this version's schema.
 * @returns where the database that was there before is now, if there was one
 * @throws DataError when a server runs, or the file is none of ours; then nothing has changed. StorageError
 */
export async function restore(file: string, folder: string): Promise<string | undefined> {
  assertFile(file);
  return alone(folder, async () => {
    const incoming = join(folder, `${databaseName}.incoming`);
    try {
      createEmpty(incoming);
      reading(file, () => copyDatabase(file, incoming));
      checkCopy(incoming, file);
      assertKeys(incoming, file);
      flushToDisk(incoming);
      const replaced = await moveAway(join(folder, databaseName));
      renameSync(incoming, join(folder, databaseName));
      flushToDisk(folder);
      return replaced;
    } finally {
      rmSync(incoming, { force: true });
    }
  });
}

/**
 * Renames a damaged or lost database, and its marker files, so that the next start makes a new one.
 * @returns where what is left of it is now; undefined: it is intact, and was not changed
 * @throws DataError when a server runs, StorageError when it fails for another reason; then nothing has changed
 */
export async function discardLost(folder: string): Promise<string | undefined> {
  const path = join(folder, databaseName);
  if (!(await isLost(folder))) return undefined;
  return alone(folder, async () => {
    const replaced = await moveAway(path);
    renameMarkers(folder);
    return replaced ?? path;
  });
}

async function isLost(folder: string): Promise<boolean> {
  if (!existsSync(folder)) return false;
  try {
    const store = openStore(folder, { isTrial: true });
    try {
      await store.keys.list();
    } finally {
      await store.close();
    }
    return false;
  } catch (error) {
    if (error instanceof StorageError && (error.kind === "lost" || error.kind === "corrupt")) return true;
    throw error;
  }
}

/** Runs `work` under the folder's exclusive liveness lock; creates a missing folder. @throws DataError, StorageError */
async function alone<T>(folder: string, work: () => Promise<T>): Promise<T> {
  makeDataFolder(folder);
  const livenessLock = new LivenessLock(folder);
  try {
    if (livenessLock.others().length > 0) throw new DataError(`A server runs on ${folder}; stop it first.`);
    return await work();
  } finally {
    livenessLock.release();
  }
}

/** `bytes` is what the file shrank by. */
type Pruned = SweepCounts & { readonly bytes: number };

/**
 * Removes expired and deleted rows at once, and returns free pages to the file system. Servers may run meanwhile.
 * @throws StorageError
 */
export async function prune(
  { maintenance }: Pick<OpenedStore, "maintenance">,
  now: number,
  rules: SweepRules,
): Promise<Pruned> {
  const counts: SweepCounts = { answers: 0, turns: 0, ledger: 0, versions: 0, previews: 0, pages: 0 };
  const { bytes } = await maintenance.size();
  while (await sweepStep(maintenance, now, rules, counts, now));
  const shrink = () => maintenance.shrink(pagesPerStep);
  for (let freed = await shrink(); freed > 0; freed = await shrink()) counts.pages += freed;
  return { ...counts, bytes: Math.max(0, bytes - (await maintenance.size()).bytes) };
}

const pagesPerStep = 256;

function assertFile(file: string): void {
  const found = reading(file, () => statSync(file, { throwIfNoEntry: false }));
  if (found === undefined) throw new DataError(`There is no file ${file}.`);
  if (!found.isFile()) throw new DataError(`${file} is no file; name what 'troupe data backup' made.`);
}

/** @throws DataError in place of the file system's errors, StorageError */
function reading<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (typeof code !== "string" || error instanceof StorageError) throw error;
    throw new DataError(`${file} can't be copied (${code}): check its permissions, and the free space.`);
  }
}

function createEmpty(path: string): void {
  try {
    rmSync(path, { force: true });
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    const { code } = error as { code?: string };
    throw new DataError(`${path} can't be written (${code}); name a file in a folder that you may write to.`);
  }
}

/** @param from is only read. A write-ahead log beside it holds commits that are not in the file yet. */
function copyDatabase(from: string, to: string): void {
  if (!existsSync(`${from}-wal`)) {
    copyFileSync(from, to);
    return;
  }
  storing(from, () => {
    using database = new Database(from, { readonly: true });
    database.run("vacuum into ?", [to]);
  });
}

/** Runs an integrity check and the migrations. @param name what it is a copy of. @throws StorageError, DataError */
function checkCopy(path: string, name: string): void {
  try {
    storing(name, () => {
      using database = new Database(path, { readwrite: true, create: false, strict: true });
      const found = database.query<{ integrity_check: string }, []>("pragma integrity_check(1)").get()?.integrity_check;
      if (found !== "ok") throw new DataError(`${name} is damaged (${found}); nothing was changed.`);
      if (schemaVersionOf(database, name) === 0) throw new DataError(`${name} is empty; it is no backup.`);
      migrate(database, name);
    });
  } catch (error) {
    // Its own advice is for a database in use: to restore a backup.
    if (!(error instanceof StorageError) || error.kind !== "corrupt") throw error;
    const { code = "" } = error.cause as { code?: string };
    const state = code === "SQLITE_NOTADB" ? "is no database" : "is damaged";
    throw new DataError(`${name} ${state} (${code}); nothing was changed. Take another backup.`);
  }
}

/** Refuses a backup without keys: a start would take it for a database that lost them. @throws DataError */
function assertKeys(path: string, name: string): void {
  storing(name, () => {
    using database = new Database(path, { readonly: true });
    if (database.query("select 1 from keys limit 1").get() === null)
      throw new DataError(`${name} holds no keys; it is a backup of nothing.`);
  });
}

/** Renames the old database with its log to `*.replaced`, which the next restore overwrites. */
async function moveAway(path: string): Promise<string | undefined> {
  // An orphaned log is moved too: SQLite would replay it into the next database.
  if (!databaseParts.some((part) => existsSync(path + part))) return undefined;
  try {
    // Checkpoints its log into the file; one that can't be opened is moved as it is.
    if (existsSync(path)) await openStore(dirname(path), { isTrial: true }).close();
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
  }
  for (const part of databaseParts) {
    rmSync(`${path}.replaced${part}`, { force: true });
    if (existsSync(path + part)) renameSync(path + part, `${path}.replaced${part}`);
  }
  return `${path}.replaced`;
}

const databaseParts = ["", "-wal", "-shm"];

function flushToDisk(path: string): void {
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
