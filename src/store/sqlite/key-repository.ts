/** API keys. */
import type { Database } from "bun:sqlite";
import { snakeCase } from "../../lib/snake-case.ts";
import { assertReadableKey } from "../readable-key.ts";
import type { KeyRepository, KeyRights, KeyRow } from "../store.ts";
import type { Synchronous } from "./asynchronous.ts";

const columns = `id, name, prefix, hash, tier, per_minute as perMinute,
  tokens_per_minute as tokensPerMinute, surfaces, models, tags, created_at as createdAt,
  expires_at as expiresAt, last_used_at as lastUsedAt, revoked_at as revokedAt, old_hash as oldHash, old_until as oldUntil`;

export type SqliteKeys = Synchronous<KeyRepository> & {
  /** Revoked ones included. */
  hasAny(): boolean;
};

export function keyRepository(database: Database): SqliteKeys {
  const version = database.prepare<{ value: number }, []>("select value from generations where name = 'keys'");
  const list = database.prepare<KeyRow, []>(`select ${columns} from keys order by created_at, id`);
  const any = database.prepare("select 1 from keys limit 1");
  const insert = database.prepare<unknown, KeyRow>(
    `insert into keys (id, name, prefix, hash, tier, per_minute, tokens_per_minute, surfaces, models, tags, created_at,
      expires_at, last_used_at, revoked_at, old_hash, old_until)
     values ($id, $name, $prefix, $hash, $tier, $perMinute, $tokensPerMinute, $surfaces, $models, $tags, $createdAt,
      $expiresAt, $lastUsedAt, $revokedAt, $oldHash, $oldUntil)`,
  );
  const isUsable = database.prepare("select 1 from keys where id = $id and revoked_at is null");
  const revoke = database.prepare("update keys set revoked_at = $at where id = $id and revoked_at is null");
  const replaceSecret = database.prepare(
    `update keys set prefix = $prefix, hash = $hash, old_until = $oldUntil,
       old_hash = case when $oldUntil is null then null when hash = $hash then old_hash else hash end
     where id = $id and revoked_at is null and hash in ($from, $hash)`,
  );
  const update = database.transaction((id: string, changes: Partial<KeyRights>) => {
    const names = Object.keys(changes) as (keyof KeyRights)[];
    if (names.length === 0) return isUsable.get({ id }) !== null;
    const assignments = names.map((name) => `${snakeCase(name)} = $${name}`).join(", ");
    const sql = `update keys set ${assignments} where id = $id and revoked_at is null`;
    return database.query(sql).run({ ...changes, id }).changes > 0;
  });
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
    // Counted by triggers.
    version: () => version.get()!.value,
    list() {
      const rows = list.all();
      for (const row of rows) assertReadableKey(row, database.filename);
      return rows;
    },
    hasAny: () => any.get() !== null,
    insert: (row) => void insert.run(row),
    insertFirst: (row, beforeCommit) => insertFirst.immediate(row, beforeCommit),
    revoke: (id, at) => revoke.run({ id, at }).changes > 0,
    update: (id, changes) => update.immediate(id, changes),
    replaceSecret: (id, from, prefix, hash, oldUntil) =>
      replaceSecret.run({ id, from, prefix, hash, oldUntil }).changes > 0,
    touch: (uses) => touchAll.immediate(uses),
  };
}
