/** Checks the data folder as a start would, without starting. */
import { accessSync, constants, lstatSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { assertPlaceable, type KeyInfo, Keys } from "../auth/keys.ts";
import type { Config } from "../config/config.ts";
import type { Clock } from "../lib/clock.ts";
import { firstKeyName, LossGuard } from "../store/sqlite/loss-guard.ts";
import { databaseName, openStore } from "../store/sqlite/store.ts";
import { asFolderError, damaged } from "../store/storage-error.ts";

type DryRun = {
  /** undefined: there is no database yet, and a start can make one. */
  readonly keys: readonly KeyInfo[] | undefined;
};

/** The folder of the liveness locks. */
const running = "running";

/**
 * Leaves no files behind and migrates nothing; a server may run at the same time.
 * @param isThorough whether to check every page of the database, which takes about a second per gigabyte
 * @throws StorageError that a start would throw
 */
export async function dryRun({ data, tiers, workers }: Config, clock: Clock, isThorough = false): Promise<DryRun> {
  const path = join(data, databaseName);
  for (const name of ["", running, ...(workers > 1 ? ["workers"] : [])]) assertUsable(join(data, name), path);
  try {
    const guard = new LossGuard(data, path);
    assertPlaceable(join(data, firstKeyName));
    if (guard.isNew) return { keys: undefined };
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
    return { keys };
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
