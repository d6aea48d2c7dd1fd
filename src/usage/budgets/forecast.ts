/** When budgets will be used up, at the pace at which they were spent of late. */
import type { BudgetHealth } from "../../api/words.ts";
import { dayMs } from "../../lib/time/duration.ts";
import type { LedgerRepository, Spending } from "../../store/contract/usage.ts";
import { partsOfScope } from "../../store/ledger/charges.ts";
import { beginOf, periodEndOf } from "../spans.ts";
import type { Rule } from "./rules.ts";
import { leftOf } from "./states.ts";

/** A prepaid sum has no span of its own: its pace is that of so many milliseconds. */
const recentMs = 7 * dayMs;
/** The least part of a span that its pace is taken from: the first calls of a day say little about the rest of it. */
const leastPart = 1 / 20;
/** What lies further ahead is no forecast, in milliseconds. */
const horizonMs = 366 * dayMs;

type Spent = Pick<Rule, "scope" | "period" | "limit"> & Spending;

/** Micro-dollars of the last seven days by scope; undefined: not known, as of tiers and patterns of models, by which no sums of the ledger are. */
type RecentSpending = (scope: string) => number | undefined;

/**
 * @param at Unix milliseconds, within the span
 * @returns Unix milliseconds; undefined: not within its span, not within a year, or nothing is left already
 */
export function runsOutAt(state: Spent, at: number, recent: RecentSpending): number | undefined {
  const left = leftOf(state);
  const end = periodEndOf(state.period, at);
  const pace = end === undefined ? (recent(state.scope) ?? 0) / recentMs : paceOf(state, at, end);
  if (left === 0 || !(pace > 0)) return undefined;
  const time = at + left / pace;
  return time < Math.min(end ?? Number.POSITIVE_INFINITY, at + horizonMs) ? Math.round(time) : undefined;
}

function paceOf({ period, spent }: Spent, at: number, end: number): number {
  const begin = beginOf(period, at)!;
  return spent / Math.max(at - begin, (end - begin) * leastPart);
}

/** Reads what the forecasts of prepaid sums need: one question for each kind of scope among them. @throws StorageError */
export async function recentSpending(
  ledger: LedgerRepository,
  rules: readonly Pick<Rule, "scope" | "period">[],
  at: number,
): Promise<RecentSpending> {
  const kinds = new Set(rules.filter(({ period }) => period === "prepaid").map(({ scope }) => kindOf(scope)));
  const known = new Map<string, number>();
  for (const kind of ["key", "tag", "all"]) {
    if (!kinds.has(kind)) continue;
    const groups = kind === "all" ? [] : [kind];
    const sums = await ledger.sums({ since: at - recentMs, until: at + 1 }, groups, { limit: 10_000 });
    for (const { group, cost } of sums) known.set([kind, ...group].join(":"), cost);
  }
  const isKnown = (scope: string) => kindOf(scope) !== "tier" && partsOfScope(scope).model === undefined;
  return (scope) => (isKnown(scope) ? (known.get(scope) ?? 0) : undefined);
}

/** `key`, `tag`, `tier` or `all`. */
export const kindOf = (scope: string): string => partsOfScope(scope).whose.split(":", 1)[0]!;
/** What follows the kind, without a model's pattern; empty: nothing does. */
export const scopeNameOf = (scope: string): string => partsOfScope(scope).whose.slice(kindOf(scope).length + 1);

export function healthOf(state: Spent): BudgetHealth {
  const left = leftOf(state);
  return left === 0 ? "spent" : left <= state.limit / 5 ? "low" : "ok";
}
