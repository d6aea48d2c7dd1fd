/** What operators did. */
import type { AuditRepository, AuditRow } from "../store.ts";
import type { QueryPool } from "./query-pool.ts";

export function auditRepository(pool: QueryPool): AuditRepository {
  return {
    async insert({ id, at, actor, act, subject, before, after }) {
      const text = `insert into troupe.audit (id, at, actor, act, subject, before, after)
        values ($1::text, $2::bigint, $3::text, $4::text, $5::text, $6::text, $7::text) on conflict (id) do nothing`;
      await pool.run(text, [id, at, actor, act, subject, before, after]);
    },
    async list({ before, limit, actor, act, subject }) {
      const rows = await pool.run<AuditRow>(
        `select id, at::float8 as at, actor, act, subject, before, after from troupe.audit
         where ($1::text is null or id < $1::text) and ($2::text is null or actor = $2::text)
         and ($3::text is null or act = $3::text) and ($4::text is null or subject = $4::text) order by id desc limit $5::int`,
        [before, actor, act, subject, limit],
      );
      return rows.map((row) => ({ ...row }));
    },
  };
}
