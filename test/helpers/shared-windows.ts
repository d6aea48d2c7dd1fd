/** Shared windows on a real server, in a window's length that a test can wait for. */
import type { StoreConfig } from "../../src/config/config.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { migrate } from "../../src/store/postgres/migrations.ts";
import { postgresWindows } from "../../src/store/postgres/shared-windows.ts";
import { openPool } from "../../src/store/postgres/store.ts";
import { openRedisWindows } from "../../src/store/redis/shared-windows.ts";
import type { SharedWindows, WindowTimes } from "../../src/store/shared-windows.ts";

/** @param url of a PostgreSQL database, or of a Redis */
export async function openTestWindows(url: string, times: WindowTimes): Promise<SharedWindows> {
  if (url.startsWith("redis:")) return openRedisWindows(url, systemClock, times);
  const settings: StoreConfig = {
    url,
    pool: 2,
    statementSeconds: 1,
    leaseSeconds: 15,
    keysWithoutDatabaseSeconds: 60,
  };
  const pool = await openPool(settings, systemClock, { deadlineMs: 1_000, connections: 2 });
  await migrate(pool, "test");
  return postgresWindows(pool, times);
}
