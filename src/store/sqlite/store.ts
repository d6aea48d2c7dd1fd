/**
 * Store in one SQLite file in the data folder. Every method of its repositories is one prepared statement or
 * one synchronous transaction, so nothing can come between its parts.
 *
 * WAL with synchronous NORMAL: what was committed survives a killed process; a power cut may lose the last commits,
 * never the file. Source: https://www.sqlite.org/pragma.html#pragma_synchronous
 */
import { constants, Database } from "bun:sqlite";
import { closeSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { asFolderError, asOpeningError, damaged, StorageError, storing } from "../contract/storage-error.ts";
import type { KeyRow, Maintenance, RunRepository, Store } from "../contract/store.ts";
import type { Appended, LedgerRepository } from "../contract/usage.ts";
import { alertRepository } from "../sql/alert-repository.ts";
import { auditRepository } from "../sql/audit-repository.ts";
import { budgetRows } from "../sql/budget-rows.ts";
import { afterChanges, budgetChanges, keyChanges } from "../sql/changes.ts";
import { factsRepository } from "../sql/facts-repository.ts";
import { insertKey, keyRepository, keyValues } from "../sql/key-repository.ts";
import { personaVersionRepository } from "../sql/persona-version-repository.ts";
import { previewRepository, removeEndedPreviews } from "../sql/preview-repository.ts";
import type { RunRecords } from "../sql/run-records.ts";
import { sessionRepository } from "../sql/session-repository.ts";
import { movedTables } from "../sql/tables.ts";
import { testRunRepository } from "../sql/test-run-repository.ts";
import { variantRepository } from "../sql/variant-repository.ts";
import { asynchronous, type Synchronous } from "./asynchronous.ts";
import { reservations } from "./budget-repository.ts";
import { Checkpointer } from "./checkpointer.ts";
import { sqliteConversations } from "./conversation-repository.ts";
import { GroupCommit } from "./group-commit.ts";
import { KeyGeneration } from "./key-generation.ts";
import { ledgerPacks } from "./ledger-packs.ts";
import { ledgerRepository } from "./ledger-repository.ts";
import { ledgerSums } from "./ledger-sums.ts";
import { LivenessLock } from "./liveness-lock.ts";
import { LossGuard } from "./loss-guard.ts";
import { migrate, ownVersion, schemaVersionOf } from "./migrations.ts";
import { retryOnBusy } from "./retry-on-busy.ts";
import { runRepository, sqliteRecords } from "./run-repository.ts";
import { type SqliteSql, sqliteSql } from "./sqlite-sql.ts";

export type SqliteStore = Store & {
  /** The database file. */
  readonly path: string;
  readonly schemaVersion: number;
};

export const databaseName = "troupe.db";

export type StoreOptions = {
  /** The most bytes the database file may grow to; beyond it writes fail as on a full disk. Default: no bound. */
  readonly maxBytes?: number;
  /** Longest wait of one write for another process, in milliseconds. It blocks this whole process. Default: 1000. */
  readonly busyMs?: number;
  /** Undoes with `close` what opening changes, so that an older version may go on with the file. Default: no. */
  readonly isTrial?: boolean;
  /** True if a server works with it for long, which then asks less of SQLite for each call. Default: no. */
  readonly isServer?: boolean;
};

/** Longest wait of processes that start at once for each other. */
const openingBusyMs = 10_000;

/**
 * Opens the data folder's database; makes both if they are not there, readable by this user only.
 * @throws StorageError
 */
export function openStore(folder: string, options: StoreOptions = {}): SqliteStore {
  const path = join(folder, databaseName);
  const guard = guarding(folder, path);
  makePrivate(folder, path);
  const database = opening(path, () => openDatabase(path, guard));
  try {
    return opening(path, () => {
      if (guard.isShort) assertWhole(database, path);
      if (options.isTrial && schemaVersionOf(database, path) < ownVersion) database.run("begin immediate");
      migrate(database, path);
      assertTables(database);
      database.run(`pragma busy_timeout = ${options.busyMs ?? 1_000}`);
      if (options.maxBytes !== undefined) limitSize(database, options.maxBytes);
      let livenessLock: LivenessLock | undefined;
      const lock = () => (livenessLock ??= new LivenessLock(folder));
      const shared = new GroupCommit(database, path);
      const generation = new KeyGeneration(folder);
      const hasKeys = database.query("select 1 from keys limit 1").get() !== null;
      guard.checkKeys(hasKeys);
      const mark = options.isTrial ? () => {} : () => guard.mark(database);
      if (hasKeys) mark();
      // Counted by triggers.
      const generations = database.prepare<{ value: number }, []>("select value from generations where name = 'keys'");
      const readVersion = () => storing(path, () => generations.get()!.value);
      const version = options.isServer ? generation.untilRaised(readVersion, () => performance.now()) : readVersion;
      const { leaseTerms, holds, ...runs } = runRepository(database, shared, lock);
      const packs = ledgerPacks(database);
      const summing = ledgerSums(database, packs);
      const { removeDays: removeLedgerDays, append, ...ledger } = ledgerRepository(database, lock, summing, packs);
      const checkpointer = options.isServer ? new Checkpointer(database, path) : undefined;
      const isThere = placeCheck(database, path);
      let isClosed = false;
      const whileOpen = () => {
        if (isClosed) throw new StorageError("unusable", path, `The database ${path} was closed.`);
      };
      const stillThere = () => {
        whileOpen();
        isThere();
      };
      const openSql = sqliteSql(database, path, whileOpen);
      const sql = sqliteSql(database, path, stillThere);
      const { removeExpired: removeExpiredRuns, totals: runTotals, ...records } = sqliteRecords(sql, lock);
      const { removeExpired, removeDeleted, totals, ...conversations } = sqliteConversations(sql);
      const { removeUnused: removeUnusedVersions, ...personaVersions } = personaVersionRepository(sql);
      const changed = () => generation.raise();
      return {
        path,
        processName: () => storing(path, () => lock().id),
        schemaVersion: ownVersion,
        keys: {
          ...afterChanges(keysOf(openSql, path, mark), keyChanges, changed),
          version() {
            whileOpen();
            return version();
          },
        },
        runs: {
          ...asynchronous<OwnRuns>(path, runs, stillThere, "kept_calls"),
          ...records,
          leaseTerms,
          holds,
        },
        conversations,
        budgets: {
          ...afterChanges(budgetRows(sql), budgetChanges, changed),
          ...asynchronous<Reservations>(path, reservations(database, shared, lock, summing), stillThere, "spending"),
        },
        variants: afterChanges(variantRepository(sql), ["stop", "resume"], changed),
        audit: auditRepository(sql),
        sessions: sessionRepository(sql),
        personaVersions,
        previews: previewRepository(sql, "preview"),
        reports: previewRepository(sql, "report"),
        testRuns: testRunRepository(sql),
        alerts: alertRepository(sql),
        facts: afterChanges(factsRepository(sql), ["take", "goBack"], changed),
        ledger: asynchronous<LedgerRepository>(
          path,
          {
            ...ledger,
            append(lines, begun) {
              const appended = append(lines, begun) as Appended;
              if (appended.stopped === true) changed();
              // Every call leaves a line, soon after whatever else it writes.
              checkpointer?.wrote();
              return appended;
            },
          },
          stillThere,
          "ledger",
        ),
        maintenance: {
          ...asynchronous<FileMaintenance>(path, maintenanceOf(database), whileOpen),
          removeExpiredTurns: removeExpired,
          removeDeletedTurns: removeDeleted,
          conversationTotals: totals,
          removeExpiredRuns,
          removeUnusedVersions,
          removeEndedPreviews: (now, max) => removeEndedPreviews(sql, now, max),
          runTotals,
          ...asynchronous<Required<Omit<Maintenance, keyof FileMaintenance | SharedMaintenance | "refusal">>>(
            path,
            {
              check: checkOf(database),
              removeLedgerDays,
              packLedgerDays: packs.packSome,
              otherServers: () => lock().others().length,
            },
            stillThere,
          ),
        },
        async close() {
          if (isClosed) return;
          isClosed = true;
          shared.flush();
          // Without a wait where there is none: who comes next finds the lock released.
          if (checkpointer !== undefined) await checkpointer.close();
          livenessLock?.release();
          if (options.isTrial && database.inTransaction) database.run("rollback");
          storing(path, () => database.close(true));
        },
      };
    });
  } catch (error) {
    database.close();
    throw error;
  }
}

type OwnRuns = Omit<RunRepository, "leaseTerms" | "holds" | keyof RunRecords>;
type Reservations = Pick<Store["budgets"], "reserve" | "spending">;
type SharedMaintenance =
  | "removeExpiredTurns"
  | "removeDeletedTurns"
  | "conversationTotals"
  | "removeExpiredRuns"
  | "removeUnusedVersions"
  | "removeEndedPreviews"
  | "runTotals";
type FileMaintenance = Pick<Maintenance, "size" | "damage" | "copyTo" | "shrink">;

function maintenanceOf(database: Database): Synchronous<FileMaintenance> {
  const size = database.prepare<{ pages: number; free: number; pageSize: number }, []>(
    `select page_count as pages, freelist_count as free, page_size as pageSize
     from pragma_page_count, pragma_freelist_count, pragma_page_size`,
  );
  return {
    size: () => {
      const { pages, free, pageSize } = size.get()!;
      return { bytes: pages * pageSize, freeBytes: free * pageSize };
    },
    damage: () => damageIn(database),
    copyTo: (target) => void database.run("vacuum into ?", [target]),
    shrink: (maxPages) => {
      const before = size.get()!.free;
      if (before > 0) database.run(`pragma incremental_vacuum(${maxPages})`);
      return before - size.get()!.free;
    },
  };
}

function checkOf(database: Database): () => void {
  const check = database.prepare("insert or replace into trials values (1, zeroblob(12000))");
  return () => void check.run();
}

/** @throws StorageError when a database that was there is lost, or the folder can't be looked at */
function guarding(folder: string, path: string): LossGuard {
  try {
    return new LossGuard(folder, path);
  } catch (error) {
    throw asFolderError(error, folder, path);
  }
}

/** @param mark every key that is made leaves it */
function keysOf(sql: SqliteSql, path: string, mark: () => void): Omit<Store["keys"], "version"> {
  const insertFirst = (row: KeyRow, beforeCommit: () => void) =>
    sql.atomically((run) => {
      if (run("select 1 from keys limit 1", []).length > 0) return false;
      run(insertKey, keyValues(row));
      beforeCommit();
      return true;
    });
  const keys = { ...keyRepository({ path: sql, background: sql }, path), insertFirst };
  return afterChanges(keys, ["insert", "insertFirst"], mark);
}

function opening<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asOpeningError(error, path);
  }
}

function damageIn(database: Database): string | undefined {
  const found = database.query<{ quick_check: string }, []>("pragma quick_check(1)").get()?.quick_check;
  return found === "ok" ? undefined : (found ?? "it can't be read").replaceAll(/\s+/g, " ");
}

/** Compiles a read of every table, so that a start finds one that is gone. @throws SQLite's errors */
function assertTables(database: Database): void {
  for (const { name } of movedTables) database.prepare(`select 1 from ${name}`).finalize();
}

/** Reads every page, so only where there is a reason. @throws StorageError, SQLite's errors */
function assertWhole(database: Database, path: string): void {
  const found = damageIn(database);
  if (found !== undefined) throw damaged(path, found);
}

/** @throws StorageError where it can't be made */
export function makeDataFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw asFolderError(error, folder, join(folder, databaseName));
  }
}

function makePrivate(folder: string, path: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    // SQLite gives its side files the permissions of the database file.
    closeSync(openSync(path, "a", 0o600));
  } catch (error) {
    const { code } = error as { code?: string };
    // A file that may only be read is SQLite's to report, with its own words.
    if ((code === "EACCES" || code === "EROFS") && isReadable(path)) return;
    throw asFolderError(error, folder, path);
  }
}

function isReadable(path: string): boolean {
  try {
    closeSync(openSync(path, "r"));
    return true;
  } catch {
    return false;
  }
}

function openDatabase(path: string, guard: LossGuard): Database {
  const database = new Database(path, { strict: true, readwrite: true, create: true });
  try {
    // The first of all: the next lines themselves may find another process starting.
    database.run(`pragma busy_timeout = ${openingBusyMs}`);
    // Before anything is written: what is not ours, or was lost, stays as it is.
    guard.checkOpened(database);
    // Only where it is not set (2) yet: setting it writes to the file, also to a damaged one.
    const vacuum = database.query<{ auto_vacuum: number }, []>("pragma auto_vacuum").get();
    if (vacuum?.auto_vacuum !== 2) database.run("pragma auto_vacuum = incremental");
    retryOnBusy(() => database.run("pragma journal_mode = wal"), openingBusyMs);
    database.run("pragma synchronous = normal");
    database.run("pragma foreign_keys = on");
    // After a busy hour the write-ahead log goes back to this size.
    database.run("pragma journal_size_limit = 16777216");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * On a file that was moved or removed SQLite goes on as if nothing were, and all of it is lost with the process.
 * Looking costs 0.6 µs. @returns what throws StorageError then
 */
function placeCheck(database: Database, path: string): () => void {
  const moved = new Int32Array(2);
  return () => {
    database.fileControl(constants.SQLITE_FCNTL_HAS_MOVED, moved);
    if (moved[0] === 0) return;
    throw new StorageError("missing", path, `${path} was moved or removed while in use; put it back, and restart.`);
  };
}

function limitSize(database: Database, maxBytes: number): void {
  const { page_size } = database.query<{ page_size: number }, []>("pragma page_size").get()!;
  database.run(`pragma max_page_count = ${Math.floor(maxBytes / page_size)}`);
}
