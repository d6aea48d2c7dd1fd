/** Opens what the configuration names: a PostgreSQL database, else SQLite in the data folder. */
import type { Config } from "../config/config.ts";
import type { Logger } from "../lib/process/log.ts";
import { systemClock } from "../lib/time/clock.ts";
import type { Store } from "./contract/store.ts";
import type { StoredWindows } from "./contract/windows.ts";
import { makeDataFolder, openStore } from "./sqlite/store.ts";

export type OpenedStore = Store & {
  /** The database file, or the server's address without user and password. */
  readonly path: string;
  /** Number of its schema. */
  readonly schemaVersion: number;
  /** Present where several nodes share the store. */
  readonly windows?: StoredWindows;
};

/**
 * Makes the data folder too, which holds what belongs to one machine whatever the store: windows of rate limits, the first key.
 * @param log is given how far a new schema of a server is @param isServer whether calls are served from it
 * @throws StorageError
 */
export async function openStoreFor(
  { data, store }: Pick<Config, "data" | "store">,
  log?: Logger,
  isServer = false,
): Promise<OpenedStore> {
  if (store === undefined) return openStore(data, { isServer });
  makeDataFolder(data);
  const { openPostgresStore } = await import("./postgres/store.ts");
  return openPostgresStore(store, systemClock, false, log);
}
