/** The database, for commands about what is in it. */
import { join } from "node:path";
import { Keys } from "../auth/keys.ts";
import type { Config } from "../config/config.ts";
import { systemClock } from "../lib/clock.ts";
import { LossGuard } from "../store/sqlite/loss-guard.ts";
import { databaseName, openStore, type SqliteStore } from "../store/sqlite/store.ts";
import { CommandError, type Context, type ExitCode, withConfig } from "./context.ts";

/** Opens the database for a command, and closes it again. A wrong folder is an error, and gets no empty database. */
export function withStore(
  context: Context,
  use: (store: SqliteStore, config: Config) => void | Promise<void>,
): Promise<ExitCode> {
  return withConfig(context, async (config) => {
    assertDataFolder(context, config.data);
    if (isNew(config.data))
      throw new CommandError(`There is no database in ${config.data} yet; --data names another folder.`);
    await usingStore(config, (store) => use(store, config));
    return 0;
  });
}

/** @throws CommandError */
export function assertDataFolder({ io }: Context, data: string): void {
  if (!io.isFolder(data)) throw new CommandError(`There is no data folder ${data}; --data names another.`);
}

/** @throws StorageError when there was a database */
const isNew = (folder: string) => new LossGuard(folder, join(folder, databaseName)).isNew;

/** Opens the database, created where there is none, and closes it again. */
export async function usingStore<T>(config: Config, use: (store: SqliteStore) => T | Promise<T>): Promise<T> {
  const store = openStore(config.data);
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

export async function keysIn(store: SqliteStore, { tiers }: Config): Promise<Keys> {
  const keys = new Keys(store.keys, systemClock, tiers);
  await keys.load();
  return keys;
}
