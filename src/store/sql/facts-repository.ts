/** Facts that were taken, for both databases. */
import {
  type FactsList,
  type FactsListInfo,
  type FactsRepository,
  type FactsState,
  maxFactsLists,
} from "../contract/facts.ts";
import type { Sql } from "./sql.ts";
import { insertion, selection, tableOf, valuesOf } from "./tables.ts";

const lists = tableOf("facts_lists");
const state = tableOf("facts_state");
const info = { columns: lists.columns.filter(([name]) => name !== "content") };

const keep = `${insertion(lists)} on conflict (sha256) do update
  set source = excluded.source, is_forced = excluded.is_forced, taken_at = excluded.taken_at`;
/** Run with a list that was kept. */
const use = `insert into troupe.facts_state (id, in_force, due) select 'facts', $1::text, 0 from changed where true
  on conflict (id) do update set in_force = excluded.in_force, refused = null`;
const removeExcess = `delete from troupe.facts_lists where sha256 in (select sha256 from troupe.facts_lists
    where sha256 <> $1::text order by taken_at desc, sha256 limit 1000000 offset ${maxFactsLists - 1})`;
const goBack = `insert into troupe.facts_state (id, in_force, refused, due) values ('facts', $1::text, $2::text, 0)
  on conflict (id) do update set in_force = excluded.in_force, refused = excluded.refused`;
const claim = `insert into troupe.facts_state (id, due, tried_at) values ('facts', $2::bigint, $1::bigint)
  on conflict (id) do update set due = excluded.due, tried_at = excluded.tried_at where facts_state.due <= $1::bigint`;
const tried = `insert into troupe.facts_state (id, tried_at, failure, due) values ('facts', $1::bigint, $2::text, $3::bigint)
  on conflict (id) do update set tried_at = excluded.tried_at, failure = excluded.failure, due = excluded.due`;

export function factsRepository(sql: Sql): FactsRepository {
  return {
    state: async () => (await sql.run<FactsState>(`select ${selection(state)} from troupe.facts_state`))[0],
    lists: async () => [
      ...(await sql.run<FactsListInfo>(
        `select ${selection(info)} from troupe.facts_lists order by taken_at desc, sha256`,
      )),
    ],
    get: async (sha256) =>
      (
        await sql.run<FactsList>(`select ${selection(lists)} from troupe.facts_lists where sha256 = $1::text`, [sha256])
      )[0],
    async take(list) {
      await sql.runBoth(keep, use, valuesOf(lists, list));
      await sql.run(removeExcess, [list.sha256]);
    },
    async goBack(to, refused) {
      await sql.run(goBack, [to, refused]);
    },
    claim: async (now, due) => (await sql.run(claim, [now, due])).count > 0,
    async tried(at, failure, due) {
      await sql.run(tried, [at, failure, due]);
    },
  };
}
