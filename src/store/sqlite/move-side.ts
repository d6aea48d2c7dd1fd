/** A data folder as the source or the target of a move. */
import { Database, type SQLQueryBindings } from "bun:sqlite";
import { existsSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DataError } from "../data-error.ts";
import type { MoveSource, MoveTarget, SettleCalls } from "../move/move.ts";
import { noteProgress, progressOf, readingOf } from "../move/side.ts";
import { storing } from "../storage-error.ts";
import { columnNames, type MovedTable, type Row } from "../tables.ts";
import { LivenessLock } from "./liveness-lock.ts";
import { LossGuard } from "./loss-guard.ts";
import { ownVersion, versionOf } from "./migrations.ts";
import { sqliteSql } from "./sqlite-sql.ts";
import { databaseName, makeDataFolder, openStore, stagingName } from "./store.ts";

/** The columns that are written: a run stands with its call here. */
const writtenOf = (table: MovedTable) =>
  columnNames(table).filter((column) => table.name !== "kept_events" || column !== "run");

const readingIn = (database: Database, path: string) =>
  readingOf({ sql: sqliteSql(database, path, () => {}), joined: "k.call = e.call" });

/**
 * Reads the folder as it is at this moment.
 * @param isCopy whether a server may serve from it
 * @throws DataError where there is no database, or a server serves; StorageError
 */
export async function folderSource(folder: string, isCopy: boolean, settle: SettleCalls): Promise<MoveSource> {
  const path = join(folder, databaseName);
  if (!existsSync(folder) || new LossGuard(folder, path).isNew)
    throw new DataError(`There is no database in ${folder}.`);
  const lock = new LivenessLock(folder);
  try {
    const isServing = lock.others().length > 0;
    if (isServing && !isCopy)
      throw new DataError(
        `A server runs on ${folder}; stop it first, or let it run and copy what is there now: --copy.`,
      );
    if (!isServing) {
      const store = openStore(folder);
      await settle(store.ledger).finally(() => store.close());
    }
    const database = storing(path, () => new Database(path, { readonly: true, strict: true }));
    // One transaction: what a server writes meanwhile is not seen.
    database.run("begin");
    if (versionOf(database, path) < ownVersion)
      throw new DataError(`${path} is of an older version; stop its server, and try again.`);
    const read = readingIn(database, path);
    const count = (sql: string) => Number(database.query(sql).values()[0]![0]);
    const oldest = database.query("select id from keys order by created_at, id limit 1").values()[0]?.[0];
    return {
      ...read,
      place: folder,
      identity: String(oldest ?? "no keys"),
      leftBehind: () =>
        Promise.resolve([
          ["calls under way or interrupted", count("select count(*) from kept_calls where state <> 'finished'")],
        ] as const),
      async [Symbol.asyncDispose]() {
        database.close();
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** Everything is written to a folder inside, whose database goes to its place in one step at the end. @throws DataError, StorageError */
export function folderTarget(folder: string): MoveTarget {
  const path = join(folder, databaseName);
  const staging = join(folder, stagingName);
  makeDataFolder(folder);
  const assertNone = () => {
    if (!new LossGuard(folder, path).isNew)
      throw new DataError(`There is a database in ${folder} already; name another folder.`);
  };
  assertNone();
  const lock = new LivenessLock(folder);
  let database: Database | undefined;
  const open = () => (database ??= openStaging(join(staging, databaseName)));
  const sql = () => sqliteSql(open(), path, () => {});
  const close = () => {
    database?.close(true);
    database = undefined;
  };
  const put = (into: Database, table: MovedTable, rows: readonly Row[]) => {
    const names = columnNames(table);
    const columns = writtenOf(table);
    const statement = into.query(
      `insert into ${table.name} (${columns.join(", ")}) values (${columns.map(() => "?").join(", ")}) on conflict do nothing`,
    );
    for (const row of rows)
      statement.run(...(columns.map((column) => row[names.indexOf(column)]) as SQLQueryBindings[]));
  };
  return {
    place: folder,
    async begin(identity, from) {
      await openStore(staging).close();
      return progressOf(sql(), identity, { from, place: folder, remove: staging });
    },
    async startOver() {
      close();
      rmSync(staging, { recursive: true, force: true });
    },
    async put(table, rows) {
      storing(path, () => open().transaction(() => put(open(), table, rows))());
      await noteProgress(sql(), table, rows);
    },
    rowsAt: (table, keys) => readingIn(open(), path).rowsAt(table, keys),
    count: (table) => readingIn(open(), path).count(table),
    async finish() {
      storing(path, () => {
        open().run("drop table move");
        open().run("drop table moved");
        // All of it into the one file that is moved.
        open().query("pragma wal_checkpoint(truncate)").get();
        open().run("pragma journal_mode = delete");
      });
      close();
      assertNone();
      renameSync(join(staging, databaseName), path);
      rmSync(staging, { recursive: true, force: true });
    },
    async [Symbol.asyncDispose]() {
      close();
      lock.release();
    },
  };
}

function openStaging(path: string): Database {
  const database = new Database(path, { strict: true, readwrite: true, create: false });
  database.run("pragma foreign_keys = on");
  database.run("pragma synchronous = full");
  return database;
}
