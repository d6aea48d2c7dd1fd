/** Looks at a PostgreSQL database without changing it, as a start would find it; and brings its schema forward. */
import type { StoreConfig } from "../../config/config.ts";
import { aheadBy, type Clock } from "../../lib/time/clock.ts";
import type { FactsRepository } from "../contract/facts.ts";
import type { KeyRepository } from "../contract/store.ts";
import type { LedgerRepository } from "../contract/usage.ts";
import { factsRepository } from "../sql/facts-repository.ts";
import { postgresKeys } from "./key-repository.ts";
import { ledgerSums } from "./ledger-repository.ts";
import { ownVersion, readVersion } from "./migrations.ts";
import { placeOf } from "./place.ts";
import type { QueryPool } from "./query-pool.ts";
import { bringForward, openPool } from "./store.ts";

export type PostgresState = {
  /** The server's address without user and password. */
  readonly place: string;
  /** The schema's number; 0: there is none yet. */
  readonly version: number;
  /** The one that this program works with. */
  readonly known: number;
  /** True if the server takes writes from this user. */
  readonly isWritable: boolean;
  readonly server: ServerState;
  /** Absent where the schema is not yet this program's. */
  readonly keys?: KeyRepository;
  readonly facts?: FactsRepository;
  readonly ledger?: Pick<LedgerRepository, "sums">;
};

/** State of a server, as far as it matters to what is kept on it. */
type ServerState = {
  /** PostgreSQL's. */
  readonly version: string;
  /** By how much its clock is ahead of this machine's; the way there and back is not in it. */
  readonly aheadMs: number;
  /** Settings that are off, with which a crash of the server's machine loses what was answered for. */
  readonly unsafe: readonly string[];
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
    const server = await serverState(pool, clock);
    const state = { place, server, version, known: ownVersion(), isWritable: row!.isWritable };
    if (version < ownVersion()) return look(state);
    const unasked = { known: () => 0, ask: async () => {}, catchUp: async () => {} };
    const keys = postgresKeys({ path: pool, background: pool }, place, unasked);
    return look({
      ...state,
      keys,
      facts: factsRepository(pool),
      ledger: { sums: ledgerSums({ background: pool, reports: pool }) },
    });
  });
}

async function serverState(pool: QueryPool, clock: Clock): Promise<ServerState> {
  const askedAt = clock.now();
  const [row] = await pool.run<{ version: string; now: number; unsafe: string }>(
    `select current_setting('server_version') as version, extract(epoch from clock_timestamp())::float8 * 1000 as now,
     (select coalesce(string_agg(name, ' ' order by name), '') from pg_settings
      where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off') as unsafe`,
  );
  const { version, now, unsafe } = row!;
  const aheadMs = aheadBy(now, askedAt, clock.now());
  return { version, aheadMs, unsafe: unsafe.split(" ").filter((name) => name !== "") };
}

/** Brings the schema forward, as a start would. @returns the number that it had. @throws StorageError */
export function migratePostgres(
  store: StoreConfig,
  clock: Clock,
  report: (words: string) => void,
): Promise<{ readonly from: number; readonly to: number }> {
  return withPool(store, clock, async (pool) => {
    const place = placeOf(store.url);
    const from = (await readVersion(pool, place))?.version ?? 0;
    await bringForward(pool, store, clock, report);
    return { from, to: Math.max(from, ownVersion()) };
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
