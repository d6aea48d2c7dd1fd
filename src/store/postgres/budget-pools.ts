/** Pools of money in PostgreSQL, by functions of the database. */
import type { Grant, PoolRepository, PoolState } from "../budget-pools.ts";
import type { BudgetPools } from "./budget-repository.ts";

export function poolRepository({ path, background }: BudgetPools): PoolRepository {
  return {
    async fill(asks) {
      const text = "select troupe.fill_pools($1::text::jsonb)::text as answer";
      const [row] = await path.run<{ answer: string }>(text, [JSON.stringify(asks)]);
      return JSON.parse(row!.answer) as (Grant | null)[];
    },
    async account(accounts) {
      const text = "select troupe.account_pools($1::text::jsonb)::text as answer";
      const [row] = await background.run<{ answer: string }>(text, [JSON.stringify(accounts)]);
      return JSON.parse(row!.answer) as PoolState[];
    },
    async quiet(quietMs) {
      const rows = await background.run<{ pool: string }>(
        `select pool from troupe.budget_pools
         where state <> 'ended' and told_at < clock_timestamp() - $1::float8 * interval '1 ms' order by told_at limit 200`,
        [quietMs],
      );
      return rows.map(({ pool }) => pool);
    },
    async endLapsed() {
      const [row] = await background.run<{ ended: number }>("select troupe.end_pools()::float8 as ended");
      return row!.ended;
    },
  };
}
