/** Looks at a PostgreSQL database without changing it, as a start would find it; and brings its schema forward. */
import type { StoreConfig } from "../../config/config.ts";
import type { Clock } from "../../lib/clock.ts";
import type { KeyRepository } from "../store.ts";
import { keyRepository } from "./key-repository.ts";
import { migrate, readVersion, steps } from "./migrations.ts";
import { placeOf } from "./place.ts";
import type { QueryPool } from "./query-pool.ts";
import { openPool } from "./store.ts";

export type PostgresState = {
  /** The server's address without user and password. */
  readonly place: string;
  /** The schema's number; 0: there is none yet. */
  readonly version: number;
  /** The one that this program works with. */
  readonly known: number;
  /** Whether the server takes writes from this user. */
  readonly isWritable: boolean;
  /** Absent where the schema is not yet this program's. */
  readonly keys?: KeyRepository;
};

/** @param look is given what was found. @throws StorageError that a start would throw, and what `look` throws */
export function inspectPostgres<T>(
  store: StoreConfig,
  clock: Clock,
  look: (state: PostgresState) => T | Promise<T>,
): Promise<T> {
  return withPool(store, clock, async (pool) => {
    const place = placeOf(store.url);
    const version = (await readVersion(pool, place))?.version ?? 0;
    const [row] = await pool.run<{ isWritable: boolean }>(
      `select not pg_is_in_recovery() and has_database_privilege(current_database(), 'connect') and
       case when to_regclass('troupe.keys') is null then has_database_privilege(current_database(), 'create')
       else has_table_privilege('troupe.keys', 'insert') end as "isWritable"`,
    );
    const state = { place, version, known: steps.length, isWritable: row!.isWritable };
    if (version < steps.length) return look(state);
    const unasked = { known: () => 0, ask: async () => {} };
    return look({ ...state, keys: keyRepository({ path: pool, background: pool }, place, unasked) });
  });
}

/** Brings the schema forward, as a start would. @returns the number that it had. @throws StorageError */
export function migratePostgres(
  store: StoreConfig,
  clock: Clock,
): Promise<{ readonly from: number; readonly to: number }> {
  return withPool(store, clock, async (pool) => {
    const place = placeOf(store.url);
    const from = (await readVersion(pool, place))?.version ?? 0;
    await migrate(pool, place);
    return { from, to: Math.max(from, steps.length) };
  });
}

async function withPool<T>(store: StoreConfig, clock: Clock, use: (pool: QueryPool) => Promise<T>): Promise<T> {
  const pool = await openPool(store, clock);
  try {
    return await use(pool);
  } finally {
    await pool.close();
  }
}
