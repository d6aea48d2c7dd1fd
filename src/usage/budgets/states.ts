/** Sums spent, reserved and left of budgets, as the command, the admin API, a key's own usage and the headers of answers report them. */
import { isoTime } from "../../lib/time/clock.ts";
import type { BudgetRepository, BudgetSpan, Spending } from "../../store/contract/usage.ts";
import { periodEndOf, spanOf } from "../spans.ts";
import type { Rule } from "./rules.ts";

/** Sums are in micro-dollars. */
type BudgetState = Rule &
  Spending & {
    /** When it opens again; null: not by itself. */
    readonly resetsAt: string | null;
  };

/** @param at a time of the spans that are asked for. @throws StorageError */
export async function budgetStates(
  store: BudgetRepository,
  rules: readonly Rule[],
  at: number,
): Promise<BudgetState[]> {
  if (rules.length === 0) return [];
  const spans = rules.map(({ scope, period }): BudgetSpan => ({ scope, span: spanOf(period, at) }));
  const found = await store.spending(spans);
  return rules.map((rule, index) => ({ ...rule, ...found[index]!, resetsAt: isoTime(periodEndOf(rule.period, at)) }));
}

/** In micro-dollars; what calls under way may cost is not left. */
export const leftOf = ({ limit, spent, reserved }: Spending & Pick<Rule, "limit">): number =>
  Math.max(0, limit - spent - reserved);

export const budgetId = ({ scope, period }: Pick<Rule, "scope" | "period">): string => `${scope}/${period}`;

/** A budget as those who are held to it have it, in the words of their usage. */
export const heldBudgetJson = (state: BudgetState) => ({
  id: budgetId(state),
  scope: state.scope,
  ...(state.model !== undefined && { model: state.model }),
  period: state.period,
  span: state.span,
  limit_micro_dollars: state.limit,
  spent_micro_dollars: state.spent,
  reserved_micro_dollars: state.reserved,
  left_micro_dollars: leftOf(state),
  resets_at: state.resetsAt,
});
