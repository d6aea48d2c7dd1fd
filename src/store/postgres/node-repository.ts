/** Versions that each node serves, for whoever compares them. A node that reports nothing for a minute counts no more. */
import type { NodeRepository, NodeVersions } from "../contract/store.ts";
import type { QueryPool } from "./query-pool.ts";

export const nodeTable = `
create table troupe.node_versions (
  node text primary key, program text not null, configuration text not null, personas text not null,
  reported_at timestamptz not null
) with (fillfactor = 50);`;

export function nodeRepository(pool: QueryPool): NodeRepository {
  return {
    async report(node, { program, configuration, personas }) {
      const text = `with reported as (
          insert into troupe.node_versions values ($1::text, $2::text, $3::text, $4::text, clock_timestamp())
          on conflict (node) do update set program = excluded.program, configuration = excluded.configuration,
            personas = excluded.personas, reported_at = excluded.reported_at),
        gone as (delete from troupe.node_versions where reported_at < clock_timestamp() - interval '1 day')
        select extract(epoch from clock_timestamp())::float8 * 1000 as now, v.node, v.program, v.configuration, v.personas
        from (select 1) one left join troupe.node_versions v
        on v.node <> $1::text and v.reported_at > clock_timestamp() - interval '1 minute'`;
      const values = [node, program, configuration, personas];
      const rows = await pool.run<NodeVersions & { readonly node: string | null; readonly now: number }>(text, values);
      const others = rows.flatMap(({ now: _, node, ...versions }) => (node === null ? [] : [{ node, ...versions }]));
      return { others, now: rows[0]!.now };
    },
    async leave(node) {
      await pool.run("delete from troupe.node_versions where node = $1::text", [node]);
    },
  };
}
