/**
 * Budgets and reservations. A reservation is one call of a function of the database, so that it is decided in one round trip under the
 * locks of its rows; its line of the ledger ends it.
 */

import type { BudgetRepository, Reserved, Spending } from "../contract/usage.ts";
import { budgetRows } from "../sql/budget-rows.ts";
import { CallAccounts } from "./call-accounts.ts";
import type { HeldCalls } from "./held-calls.ts";
import type { QueryPools } from "./query-pool.ts";

type BudgetTools = {
  readonly calls: HeldCalls;
  /** True if windows go by the callers' clocks, which then must be one; else they go by the server's. */
  readonly hasOneClock: boolean;
};

/** Answer of the function `reserve`; a wait that never ends is null. */
type Decision = Omit<Reserved, "tokens"> & {
  readonly tokens?: { readonly used: number; readonly emptyMs: number; readonly waitMs: number | null };
};

export function budgetRepository(
  { path, background }: QueryPools,
  { calls, hasOneClock }: BudgetTools,
): BudgetRepository {
  const accounts = new CallAccounts(path);
  return {
    ...budgetRows(background),
    async reserve({ line, amount, budgets, tokens }) {
      const { requestId, attempt } = line;
      const owner = await calls.owner();
      const entry = {
        ...{ request_id: requestId, attempt, owner, amount, budgets, line: JSON.stringify(line) },
        ...{ key: tokens?.key, limit: tokens?.limit, tokens: tokens?.tokens ?? 0 },
        now: hasOneClock ? tokens?.now : undefined,
      };
      calls.began(line);
      const reserving = accounts.reserve(entry);
      const answer = await reserving.catch((error) => {
        calls.gaveUp(line);
        throw error;
      });
      const { tokens: window, ...decision } = answer as Decision;
      if (decision.refusedBy !== undefined || (window !== undefined && window.waitMs !== 0)) calls.ended(line);
      if (window === undefined) return decision;
      return { ...decision, tokens: { ...window, waitMs: window.waitMs ?? Number.POSITIVE_INFINITY } };
    },
    async spending(spans) {
      await background.run("select troupe.open_spans($1::text::jsonb)", [JSON.stringify(spans)]);
      const rows = await background.run<Spending>(
        `select asked.scope, asked.span, coalesce(s.spent, 0)::float8 as spent, coalesce(s.reserved, 0)::float8 as reserved
         from rows from (jsonb_to_recordset($1::text::jsonb) as (scope text, span text)) with ordinality asked(scope, span, place)
         left join troupe.spending s on s.scope = asked.scope and s.span = asked.span order by place`,
        [JSON.stringify(spans)],
      );
      return [...rows];
    },
  };
}
