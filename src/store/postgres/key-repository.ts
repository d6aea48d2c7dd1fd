/** API keys. What changes them is counted by a trigger; the count is asked for twice a second, so that no call has to. */
import { assertReadableKey } from "../readable-key.ts";
import { StorageError } from "../storage-error.ts";
import type { KeyRepository, KeyRights, KeyRow } from "../store.ts";
import type { QueryPool } from "./query-pool.ts";

const columns = `id, name, prefix, hash, tier, per_minute as "perMinute",
  tokens_per_minute::float8 as "tokensPerMinute", surfaces, models, tags, created_at::float8 as "createdAt",
  expires_at::float8 as "expiresAt", last_used_at::float8 as "lastUsedAt", revoked_at::float8 as "revokedAt",
  old_hash as "oldHash", old_until::float8 as "oldUntil"`;

const insertion = `insert into troupe.keys (id, name, prefix, hash, tier, per_minute, surfaces, models, created_at, expires_at,
  last_used_at, revoked_at, tokens_per_minute, tags, old_hash, old_until) values ($1::text, $2::text, $3::text, $4::text, $5::text, $6::int, $7::text,
  $8::text, $9::bigint, $10::bigint, $11::bigint, $12::bigint, $13::bigint, $14::text,
  $15::text, $16::bigint) on conflict (id) do nothing`;

const valuesOf = (row: KeyRow) => [
  row.id,
  row.name,
  row.prefix,
  row.hash,
  row.tier,
  row.perMinute,
  row.surfaces,
  row.models,
  row.createdAt,
  row.expiresAt,
  row.lastUsedAt,
  row.revokedAt,
  row.tokensPerMinute,
  row.tags,
  row.oldHash,
  row.oldUntil,
];

const columnOf: Readonly<Record<keyof KeyRights, string>> = {
  name: "name = $2::text",
  tier: "tier = $2::text",
  perMinute: "per_minute = $2::int",
  tokensPerMinute: "tokens_per_minute = $2::bigint",
  surfaces: "surfaces = $2::text",
  models: "models = $2::text",
  tags: "tags = $2::text",
  expiresAt: "expires_at = $2::bigint",
};

export type KeyVersion = {
  /** What was learned last. @throws StorageError where that is too long ago */
  known(): number;
  /** Asks now. @throws StorageError */
  ask(): Promise<void>;
  /** As `KeyRepository.catchUp`. */
  catchUp(): Promise<void>;
};

export type KeyPools = {
  /** For what calls may wait for. */
  readonly path: QueryPool;
  readonly background: QueryPool;
};

export function keyRepository({ path, background: pool }: KeyPools, place: string, version: KeyVersion): KeyRepository {
  /** This process knows of its own change before the next poll. */
  const changing = async <T>(work: () => Promise<T>): Promise<T> => {
    const result = await work();
    await version.ask().catch(() => {});
    return result;
  };
  return {
    version: () => version.known(),
    catchUp: () => version.catchUp(),
    async list() {
      const rows = await path.run<KeyRow>(`select ${columns} from troupe.keys order by created_at, id`);
      for (const row of rows) assertReadableKey(row, place);
      return rows.map((row) => ({ ...row }));
    },
    insert: (row) => changing(async () => void (await pool.run(insertion, valuesOf(row)))),
    insertFirst: (row, beforeCommit) => changing(() => insertFirst(pool, row, beforeCommit)),
    revoke: (id, at) =>
      changing(async () => {
        const text = `update troupe.keys set revoked_at = $2::bigint
          where id = $1::text and (revoked_at is null or ($3::boolean and revoked_at = $2::bigint))`;
        return (await pool.run(text, (again) => [id, at, again])).count > 0;
      }),
    update: (id, changes) =>
      changing(async () => {
        const names = Object.keys(changes) as (keyof KeyRights)[];
        const sets = names.map((name, at) => columnOf[name].replace("$2", `$${at + 2}`));
        const text = `update troupe.keys set ${["id = id", ...sets].join(", ")} where id = $1::text and revoked_at is null`;
        return (await pool.run(text, [id, ...names.map((name) => changes[name]!)])).count > 0;
      }),
    replaceSecret: (id, from, prefix, hash, oldUntil) =>
      changing(async () => {
        // Sent again, it finds the new secret in place.
        const text = `update troupe.keys set prefix = $2::text, hash = $3::text, old_until = $4::bigint,
            old_hash = case when $4::bigint is null then null when hash = $3::text then old_hash else hash end
          where id = $1::text and revoked_at is null and hash in ($3::text, $5::text)`;
        return (await pool.run(text, [id, prefix, hash, oldUntil, from])).count > 0;
      }),
    async touch(uses) {
      // In one order everywhere: two nodes that write the same keys do not wait for each other in a circle.
      const sorted = [...uses].toSorted(([a], [b]) => (a < b ? -1 : 1));
      const text = `with used as materialized (
          select k.id, (u.value)::bigint as at from jsonb_each_text($1::text::jsonb) u join troupe.keys k on k.id = u.key
          where k.last_used_at is null or k.last_used_at < (u.value)::bigint order by k.id for update of k)
        update troupe.keys k set last_used_at = greatest(coalesce(k.last_used_at, 0), used.at) from used where k.id = used.id`;
      await pool.run(text, [JSON.stringify(Object.fromEntries(sorted))]);
    },
  };
}

/** Any number for which no other lock is taken. */
const firstKeyLock = 0x74727066;

async function insertFirst(pool: QueryPool, row: KeyRow, beforeCommit: () => void): Promise<boolean> {
  try {
    return await pool.transaction(async (ask) => {
      await ask("select pg_advisory_xact_lock($1::bigint)", [firstKeyLock]);
      if ((await ask("select 1 from troupe.keys limit 1")).length > 0) return false;
      await ask(insertion, valuesOf(row));
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
