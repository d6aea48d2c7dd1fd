/** API keys. */
import { snakeCase } from "../../lib/text/snake-case.ts";
import { type ChangedKeys, changeModulus, type KeyRepository, type KeyRights, type KeyRow } from "../contract/store.ts";
import { assertReadableKey } from "./readable-key.ts";
import type { Sql } from "./sql.ts";
import { insertion, selection, sqlTypes, tableOf, valuesOf } from "./tables.ts";

const table = tableOf("keys");
const kinds = new Map(table.columns);
const list = `select ${selection(table)} from troupe.keys order by created_at, id`;
const changes = `select ${selection(table)}, change::float8 as change from troupe.keys where change > $1::bigint order by created_at, id`;
const digest = `select count(*)::float8 as count, coalesce(sum(change % ${changeModulus}), 0)::float8 as sum from troupe.keys`;
const lastUses = "select id, last_used_at::float8 as at from troupe.keys where last_used_at is not null";
const amongThem = "id in (select u.value from jsonb_array_elements_text($1::text::jsonb) u(value))";
export const insertKey = `${insertion(table)} on conflict (id) do nothing`;
export const keyValues = (row: KeyRow) => valuesOf(table, row);

/** In one order everywhere: two nodes that write the same keys do not wait for each other in a circle. */
const touch = `with used as materialized (
    select k.id, (u.value)::bigint as at from jsonb_each_text($1::text::jsonb) u(key, value) join troupe.keys k on k.id = u.key
    where k.last_used_at is null or k.last_used_at < (u.value)::bigint order by k.id for update of k)
  update troupe.keys as k set last_used_at = greatest(coalesce(k.last_used_at, 0), used.at) from used where k.id = used.id`;

/** Methods that are alike in both databases. @param path for what calls may wait for @param place of the database, for errors */
export function keyRepository(
  { path, background }: { readonly path: Sql; readonly background: Sql },
  place: string,
): Omit<KeyRepository, "version" | "catchUp" | "insertFirst"> {
  return {
    async list() {
      const rows = [...(await path.run<KeyRow>(list))];
      for (const row of rows) assertReadableKey(row, place);
      return rows;
    },
    async changes(since) {
      const rows = [...(await path.run<ChangedKeys["rows"][number]>(changes, [since]))];
      for (const row of rows) assertReadableKey(row, place);
      const [{ count, sum } = { count: 0, sum: 0 }] = await path.run<{ count: number; sum: number }>(digest);
      return { rows, digest: `${count} ${sum}` };
    },
    async lastUses(ids) {
      const rows = await path.run<{ id: string; at: number }>(
        ids === undefined ? lastUses : `${lastUses} and ${amongThem}`,
        [...(ids === undefined ? [] : [JSON.stringify(ids)])],
      );
      return rows.map(({ id, at }) => [id, at] as const);
    },
    insert: async (row) => void (await background.run(insertKey, keyValues(row))),
    async revoke(id, at) {
      const text = `update troupe.keys set revoked_at = $2::bigint
        where id = $1::text and (revoked_at is null or ($3::boolean and revoked_at = $2::bigint))`;
      return (await background.run(text, (again) => [id, at, again])).count > 0;
    },
    async update(id, changes) {
      const names = Object.keys(changes) as (keyof KeyRights)[];
      const sets = names.map((name, at) => {
        const column = snakeCase(name);
        return `${column} = $${at + 2}::${sqlTypes[kinds.get(column)!]}`;
      });
      const text = `update troupe.keys set ${["id = id", ...sets].join(", ")} where id = $1::text and revoked_at is null`;
      return (await background.run(text, [id, ...names.map((name) => changes[name]!)])).count > 0;
    },
    async replaceSecret(id, from, prefix, hash, oldUntil) {
      // Sent again, it finds the new secret in place.
      const text = `update troupe.keys set prefix = $2::text, hash = $3::text, old_until = $4::bigint,
          old_hash = case when $4::bigint is null then null when hash = $3::text then old_hash else hash end
        where id = $1::text and revoked_at is null and hash in ($3::text, $5::text)`;
      return (await background.run(text, [id, prefix, hash, oldUntil, from])).count > 0;
    },
    async touch(uses) {
      await background.run(touch, [JSON.stringify(Object.fromEntries(uses))]);
    },
  };
}
