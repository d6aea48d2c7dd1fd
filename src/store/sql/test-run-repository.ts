/** The last run of each persona's tests. */
import { keepable } from "../../lib/text/plain-text.ts";
import {
  maxTestRuns,
  type TestRunCounts,
  type TestRunRepository,
  type TestRunRow,
} from "../contract/persona-test-runs.ts";
import type { Sql } from "./sql.ts";
import { insertion, selection, tableOf, valuesOf } from "./tables.ts";

const table = tableOf("persona_test_runs");
const counts = { columns: table.columns.filter(([name]) => name !== "run") };
const changed = ["version", "run", "at", "passed", "failed", "errors"].map((name) => `${name} = excluded.${name}`);

const put = `${insertion(table)} on conflict (persona) do update set ${changed.join(", ")} where persona_test_runs.at <= excluded.at`;
const removeExcess = `delete from troupe.persona_test_runs where exists (select 1 from changed)
  and persona in (select persona from troupe.persona_test_runs where persona <> $1::text
    order by at desc, persona limit 1000000 offset ${maxTestRuns - 1})`;
const get = `select ${selection(table)} from troupe.persona_test_runs where persona = $1::text`;
const list = `select ${selection(counts)} from troupe.persona_test_runs order by persona`;

export function testRunRepository(sql: Sql): TestRunRepository {
  return {
    async put(row) {
      await sql.runBoth(put, removeExcess, valuesOf(table, { ...row, run: keepable(row.run) }));
    },
    get: async (persona) => (await sql.run<TestRunRow>(get, [persona]))[0],
    list: async () => [...(await sql.run<TestRunCounts>(list))],
  };
}
