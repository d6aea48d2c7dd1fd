/** Record of what operators did. */
import type { AuditRow } from "../contract/audit.ts";
import type { AuditRepository } from "../contract/store.ts";
import type { Sql } from "./sql.ts";
import { insertion, selection, tableOf, valuesOf } from "./tables.ts";

const table = tableOf("audit");
const insert = `${insertion(table)} on conflict (id) do nothing`;
const list = `select ${selection(table)} from troupe.audit
  where ($1::text is null or id < $1::text) and ($2::text is null or actor = $2::text)
  and ($3::text is null or act = $3::text) and ($4::text is null or subject = $4::text)
  and ($6::bigint is null or at >= $6::bigint) and ($7::bigint is null or at < $7::bigint) order by id desc limit $5::int`;

export function auditRepository(sql: Sql): AuditRepository {
  return {
    insert: async (row) => void (await sql.run(insert, valuesOf(table, row))),
    list: async ({ before, limit, actor, act, subject, since = null, until = null }) => [
      ...(await sql.run<AuditRow>(list, [before, actor, act, subject, limit, since, until])),
    ],
  };
}
