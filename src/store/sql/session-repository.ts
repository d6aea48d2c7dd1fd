/** Browsers that are signed in. */
import type { SessionRepository, SessionRow } from "../contract/sessions.ts";
import type { Sql } from "./sql.ts";
import { type ColumnKind, insertion, selection, valuesOf } from "./tables.ts";

const column = (name: string, kind: ColumnKind) => [name, kind] as const;
const table = {
  name: "sessions",
  columns: [
    ...["id", "hash", "key", "key_hash", "client"].map((name) => column(name, "text")),
    ...["created_at", "used_at", "ends_at"].map((name) => column(name, "integer")),
  ],
};
const insert = `${insertion(table)} on conflict (id) do nothing`;
const select = `select ${selection(table)} from troupe.sessions`;

export function sessionRepository(sql: Sql): SessionRepository {
  return {
    insert: async (row) => void (await sql.run(insert, valuesOf(table, row))),
    find: async (hash) => (await sql.run<SessionRow>(`${select} where hash = $1::text`, [hash]))[0],
    async touch(id, at) {
      await sql.run("update troupe.sessions set used_at = greatest(used_at, $2::bigint) where id = $1::text", [id, at]);
    },
    list: async (limit) => [...(await sql.run<SessionRow>(`${select} order by id desc limit $1::int`, [limit]))],
    remove: async (id) => void (await sql.run("delete from troupe.sessions where id = $1::text", [id])),
    async removeEnded(endsBy, usedBefore) {
      await sql.run("delete from troupe.sessions where ends_at <= $1::bigint or used_at < $2::bigint", [
        endsBy,
        usedBefore,
      ]);
    },
    async removeBeyond(key, most) {
      const newest = "select id from troupe.sessions where key = $1::text order by id desc limit $2::int";
      await sql.run(`delete from troupe.sessions where key = $1::text and id not in (${newest})`, [key, most]);
    },
  };
}
