/** Windows on a real server, in a length that a test can wait for. */
import type { StoreConfig } from "../../src/config/config.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import type { StoredWindows } from "../../src/store/contract/windows.ts";
import { migrate } from "../../src/store/postgres/migrations.ts";
import { openPool } from "../../src/store/postgres/store.ts";
import { postgresWindows } from "../../src/store/postgres/windows.ts";
import { openRedisWindows } from "../../src/store/redis/windows.ts";

/** @param url of a PostgreSQL database, or of a Redis */
export async function openTestWindows(url: string, windowMs = 60_000): Promise<StoredWindows> {
  if (url.startsWith("redis:")) return openRedisWindows(url, systemClock, windowMs);
  const settings: StoreConfig = {
    url,
    pool: 2,
    statementSeconds: 1,
    leaseSeconds: 15,
    keysWithoutDatabaseSeconds: 60,
  };
  // Tables and functions take longer to make than a statement may take, on a busy machine.
  const maker = await openPool(settings, systemClock, { deadlineMs: 30_000, connections: 1 });
  await migrate(maker, "test");
  await maker.close();
  const pool = await openPool(settings, systemClock, { deadlineMs: 1_000, connections: 2 });
  return postgresWindows(pool, systemClock.newId, windowMs);
}

/** Asks again for as long as the answer is late: a busy machine may take longer than the store's own deadline. */
export async function untilAnswered<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof StorageError) || error.kind !== "away") throw error;
    }
  }
}
