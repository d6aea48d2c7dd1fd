/** Checks store and data folder as a start would, without starting. */
import { accessSync, constants, lstatSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { KeyInfo } from "../auth/key-info.ts";
import { assertPlaceable, Keys } from "../auth/keys.ts";
import type { Config, StoreConfig } from "../config/config.ts";
import type { Clock } from "../lib/time/clock.ts";
import { asFolderError, damaged, StorageError } from "../store/contract/storage-error.ts";
import type { PostgresState } from "../store/postgres/inspect.ts";
import { firstKeyName, LossGuard } from "../store/sqlite/loss-guard.ts";
import { databaseName, openStore } from "../store/sqlite/store.ts";
import { calledModels } from "../usage/prices/concerns.ts";

type DryRun = {
  /** The data folder, or the database server's address. */
  readonly place: string;
  /** undefined: there is no database of today's schema yet, and a start can make one. */
  readonly keys: readonly KeyInfo[] | undefined;
  /** The state of a database server. */
  readonly database?: Omit<PostgresState, "keys" | "facts" | "ledger">;
  /** Why the last look for newer facts failed; null: it did not. */
  readonly factsFailure?: string | null;
  /** Models that were called within 30 days, as `<account>/<model>`. */
  readonly called?: readonly string[];
};

/** The folder of the liveness locks. */
const running = "running";

/**
 * Leaves no files behind and migrates nothing; a server may run at the same time.
 * @param isThorough whether to check every page of the database, which takes about a second per gigabyte
 * @throws StorageError that a start would throw
 */
export async function dryRun(config: Config, clock: Clock, isThorough = false): Promise<DryRun> {
  const { data, store, workers } = config;
  const path = join(data, databaseName);
  for (const name of ["", running, ...(workers > 1 ? ["workers"] : [])]) assertUsable(join(data, name), path);
  try {
    assertPlaceable(join(data, firstKeyName));
  } catch (error) {
    throw asFolderError(error, data, path);
  }
  return store === undefined ? dryRunSqlite(config, clock, isThorough) : dryRunPostgres(store, config, clock);
}

async function dryRunPostgres(store: StoreConfig, { tiers }: Config, clock: Clock): Promise<DryRun> {
  const { inspectPostgres } = await import("../store/postgres/inspect.ts");
  return inspectPostgres(store, clock, async ({ keys, facts, ledger, ...database }) => {
    const { place, isWritable } = database;
    if (!isWritable) {
      const message = `The database ${place} takes no writes from this user: it is a standby, or the user lacks a right.`;
      throw new StorageError("readonly", place, message);
    }
    const factsFailure = (await facts?.state())?.failure ?? null;
    const called = ledger && (await calledModels(ledger, clock.now()));
    const listed = keys && (await new Keys(keys, clock, tiers).list());
    return { place, database, keys: listed, factsFailure, ...(called && { called }) };
  });
}

async function dryRunSqlite({ data, tiers }: Config, clock: Clock, isThorough: boolean): Promise<DryRun> {
  const path = join(data, databaseName);
  try {
    if (new LossGuard(data, path).isNew) return { place: data, keys: undefined };
  } catch (error) {
    throw asFolderError(error, data, path);
  }
  const store = openStore(data, { isTrial: true });
  try {
    const keys = await new Keys(store.keys, clock, tiers).list();
    const damage = isThorough ? await store.maintenance.damage() : undefined;
    if (damage !== undefined) throw damaged(path, damage);
    await store.maintenance.check();
    // If the folder is missing, the start creates it and can lock in it.
    if (statSync(join(data, running), { throwIfNoEntry: false }) !== undefined) await store.maintenance.otherServers();
    const called = await calledModels(store.ledger, clock.now());
    return { place: data, keys, factsFailure: (await store.facts.state())?.failure ?? null, called };
  } finally {
    await store.close();
  }
}

/** @throws StorageError */
function assertUsable(folder: string, path: string): void {
  try {
    assertWritable(folder);
  } catch (error) {
    throw asFolderError(error, folder, path);
  }
}

/** Checks that a folder exists and is writable, or can be created. @throws the file system's errors */
function assertWritable(folder: string): void {
  let nearest = folder;
  while (entryAt(nearest) === undefined && dirname(nearest) !== nearest) nearest = dirname(nearest);
  if (!statSync(nearest).isDirectory()) throw Object.assign(new Error(`${nearest} is no folder`), { code: "ENOTDIR" });
  accessSync(nearest, constants.W_OK | constants.X_OK);
}

/** @returns undefined where there is nothing; a dangling link counts as something */
function entryAt(path: string) {
  try {
    return lstatSync(path);
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes((error as { code?: string }).code ?? "")) return undefined;
    throw error;
  }
}
