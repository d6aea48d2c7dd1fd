/** The database, for commands about what is in it. */
import { join } from "node:path";
import type { Config } from "../../config/config.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { type OpenedStore, openStoreFor } from "../../store/open.ts";
import { LossGuard } from "../../store/sqlite/loss-guard.ts";
import { databaseName } from "../../store/sqlite/store.ts";
import { CommandError, type Context, type ExitCode, withConfig } from "../context.ts";

/** Opens the database for a command, and closes it again. A wrong folder is an error, and gets no empty database. */
export function withStore(
  context: Context,
  use: (store: OpenedStore, config: Config) => void | Promise<void>,
): Promise<ExitCode> {
  return withConfig(context, async (config) => {
    await assertDatabase(context, config);
    await usingStore(config, (store) => use(store, config));
    return 0;
  });
}

/** @throws CommandError where nothing was ever stored, StorageError */
export async function assertDatabase(context: Context, { data, store }: Config): Promise<void> {
  if (store !== undefined) {
    const { inspectPostgres } = await import("../../store/postgres/inspect.ts");
    const { place, version } = await inspectPostgres(store, systemClock, (state) => state);
    if (version === 0) throw new CommandError(`Nothing was ever stored in ${place}; 'store' names another database.`);
    return;
  }
  assertDataFolder(context, data);
  if (isNew(data)) throw new CommandError(`There is no database in ${data} yet; --data names another folder.`);
}

/** True if something was ever stored. @throws StorageError */
export async function isStored({ data, store }: Config): Promise<boolean> {
  if (store === undefined) return !isNew(data);
  const { inspectPostgres } = await import("../../store/postgres/inspect.ts");
  return (await inspectPostgres(store, systemClock, (state) => state)).version !== 0;
}

/** For what is done to SQLite's file alone. @throws CommandError */
export function assertSqlite({ store }: Config, advice: string): void {
  if (store !== undefined) throw new CommandError(`What is stored is in PostgreSQL, by 'store': ${advice}.`);
}

/** @throws CommandError */
export function assertDataFolder({ io }: Context, data: string): void {
  if (!io.isFolder(data)) throw new CommandError(`There is no data folder ${data}; --data names another.`);
}

/** @throws StorageError when there was a database */
const isNew = (folder: string) => new LossGuard(folder, join(folder, databaseName)).isNew;

/** Opens the database, created where there is none, and closes it again. */
export async function usingStore<T>(config: Config, use: (store: OpenedStore) => T | Promise<T>): Promise<T> {
  const store = await openStoreFor(config);
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}
