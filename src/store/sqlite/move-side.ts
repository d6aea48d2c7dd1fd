/** A data folder as the source of a move. */
import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DataError } from "../contract/data-error.ts";
import { storing } from "../contract/storage-error.ts";
import type { MoveSource, SettleCalls } from "../move/move.ts";
import { readingOf } from "../move/side.ts";
import { ledgerPacks } from "./ledger-packs.ts";
import { ledgerSums } from "./ledger-sums.ts";
import { LivenessLock } from "./liveness-lock.ts";
import { LossGuard } from "./loss-guard.ts";
import { ownVersion, schemaVersionOf } from "./migrations.ts";
import { sqliteSql } from "./sqlite-sql.ts";
import { databaseName, openStore } from "./store.ts";

const readingIn = (database: Database, path: string) =>
  readingOf({ sql: sqliteSql(database, path, () => {}), joined: "k.call = e.call" });

/** Begins one transaction, which does not see what a server writes meanwhile, at a moment at which the sums have all lines. */
function beginSummed(database: Database, path: string): void {
  using writing = new Database(path, { strict: true });
  writing.run(`pragma busy_timeout = ${busyMs}`);
  const sums = ledgerSums(writing, ledgerPacks(writing));
  for (;;) {
    sums.addUp();
    database.run("begin");
    if (database.query("select 1 from ledger_increments").get() === null) return;
    database.run("rollback");
  }
}

/** How long it waits for a server that writes. */
const busyMs = 10_000;

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
    if (schemaVersionOf(database, path) < ownVersion)
      throw new DataError(`${path} is of an older version; stop its server, and try again.`);
    storing(path, () => beginSummed(database, path));
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
