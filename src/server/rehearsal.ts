/** What a start would find in the data folder, found by the start's own code, without starting. */
import { accessSync, constants, lstatSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { assertPlaceable, type KeyInfo, Keys } from "../auth/keys.ts";
import type { Config } from "../config/config.ts";
import type { Clock } from "../lib/clock.ts";
import { firstKeyName, LossGuard } from "../store/sqlite/loss-guard.ts";
import { databaseName, openStore } from "../store/sqlite/store.ts";
import { asFolderError, damaged } from "../store/storage-error.ts";

export type Found = {
  /** undefined: there is no database yet, and a start can make one. */
  readonly keys: readonly KeyInfo[] | undefined;
};

/** The folder in which each server tells that it runs. */
const running = "running";

/**
 * Makes no file that stays, and brings no schema forward. A server may run meanwhile.
 * @param isThorough whether every page is read as well, which takes a second for each gigabyte or so
 * @throws StorageError, with what the start would be refused
 */
export function rehearseStart({ data, tiers, workers }: Config, clock: Clock, isThorough = false): Found {
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
    const keys = new Keys(store.keys, clock, tiers).list();
    const damage = isThorough ? store.damage() : undefined;
    if (damage !== undefined) throw damaged(path, damage);
    store.check();
    // Where the folder for it is there: a start that makes it must own it.
    if (statSync(join(data, running), { throwIfNoEntry: false }) !== undefined) store.livenessLock();
    return { keys };
  } finally {
    store.close();
  }
}

/** @throws StorageError */
function assertUsable(folder: string, path: string): void {
  try {
    assertHolds(folder);
  } catch (error) {
    throw asFolderError(error, folder, path);
  }
}

/** That a folder is there and can be written, or can be made. @throws the file system's errors */
function assertHolds(folder: string): void {
  let nearest = folder;
  while (entryAt(nearest) === undefined && dirname(nearest) !== nearest) nearest = dirname(nearest);
  if (!statSync(nearest).isDirectory()) throw Object.assign(new Error(`${nearest} is no folder`), { code: "ENOTDIR" });
  accessSync(nearest, constants.W_OK | constants.X_OK);
}

/** A link that leads nowhere is there, too. */
function entryAt(path: string) {
  try {
    return lstatSync(path);
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes((error as { code?: string }).code ?? "")) return undefined;
    throw error;
  }
}
