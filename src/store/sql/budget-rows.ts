/** The budgets that were set, and what of their spending is alike in both databases. */
import type { BudgetRepository, BudgetRow } from "../contract/usage.ts";
import type { Sql } from "./sql.ts";

const list = `select scope, period, amount::float8 as "limit", updated_at::float8 as "updatedAt" from troupe.budgets
  order by scope, period`;
const set = `insert into troupe.budgets values ($1::text, $2::text, $3::bigint, $4::bigint)
  on conflict (scope, period) do update set amount = excluded.amount, updated_at = excluded.updated_at`;
/** One that is prepaid begins with nothing spent. */
const begin =
  "update troupe.spending set spent = 0 from changed where $5::boolean and scope = $1::text and span = 'prepaid'";
/** Sent again, it finds its own time and adds nothing. */
const add = `update troupe.budgets
  set amount = amount + case when $5::boolean and updated_at = $4::bigint then 0 else $3::bigint end, updated_at = $4::bigint
  where scope = $1::text and period = $2::text returning amount::float8 as amount`;

export function budgetRows(sql: Sql): Omit<BudgetRepository, "reserve" | "spending"> {
  return {
    list: async () => [...(await sql.run<BudgetRow>(list))],
    async set({ scope, period, limit, updatedAt }, isNew = false) {
      await sql.runBoth(set, begin, [scope, period, limit, updatedAt, isNew && period === "prepaid"]);
    },
    async add({ scope, period }, amount, at) {
      const [row] = await sql.run<{ amount: number }>(add, (again) => [scope, period, amount, at, again]);
      return row?.amount;
    },
    async remove({ scope, period }) {
      const text = "delete from troupe.budgets where scope = $1::text and period = $2::text";
      return (await sql.run(text, [scope, period])).count > 0;
    },
    async forgetSpending(beforeDay) {
      const text = `delete from troupe.spending
        where span <> 'prepaid' and reserved = 0 and span < substr($1::text, 1, length(span))`;
      return (await sql.run(text, [beforeDay])).count;
    },
  };
}
