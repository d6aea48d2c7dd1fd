/** API keys in PostgreSQL. What changes them is counted by a trigger; the count is asked for twice a second, so that no call has to. */

import { StorageError } from "../contract/storage-error.ts";
import type { KeyRepository, KeyRow } from "../contract/store.ts";
import { afterChanges, keyChanges } from "../sql/changes.ts";
import { insertKey, keyRepository, keyValues } from "../sql/key-repository.ts";
import type { QueryPool, QueryPools } from "./query-pool.ts";

export type KeyVersion = {
  /** Version of the keys, as learned last. @throws StorageError where that is too long ago */
  known(): number;
  /** Asks now. @throws StorageError */
  ask(): Promise<void>;
  /** Same as `KeyRepository.catchUp`. */
  catchUp(): Promise<void>;
};

export function postgresKeys(pools: QueryPools, place: string, version: KeyVersion): KeyRepository {
  const keys: KeyRepository = {
    ...keyRepository(pools, place),
    insertFirst: (row, beforeCommit) => insertFirst(pools.background, row, beforeCommit),
    version: () => version.known(),
    catchUp: () => version.catchUp(),
  };
  // This process knows of its own change before the next poll.
  return afterChanges(keys, keyChanges, () => version.ask().catch(() => {}));
}

/** Any number for which no other lock is taken. */
const firstKeyLock = 0x74727066;

async function insertFirst(pool: QueryPool, row: KeyRow, beforeCommit: () => void): Promise<boolean> {
  try {
    return await pool.transaction(async (ask) => {
      await ask("select pg_advisory_xact_lock($1::bigint)", [firstKeyLock]);
      if ((await ask("select 1 from troupe.keys limit 1")).length > 0) return false;
      await ask(insertKey, keyValues(row));
      beforeCommit();
      return true;
    });
  } catch (error) {
    if (!(error instanceof StorageError && error.kind === "away")) throw error;
    // The commit may have been applied all the same.
    if ((await pool.run("select 1 from troupe.keys where id = $1::text", [row.id])).length === 0) throw error;
    return true;
  }
}
