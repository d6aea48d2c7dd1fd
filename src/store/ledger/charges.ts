/** Which budgets a line of the ledger is spent of, wherever such a budget may stand; what is prepaid is spent by reservations alone. */
import { globMatches } from "../../lib/text/glob.ts";
import { dayMs } from "../../lib/time/duration.ts";
import type { BudgetSpan, LedgerLine } from "../contract/usage.ts";

export const scopesOf = ({ keyId, tags, tier }: Pick<LedgerLine, "keyId" | "tags" | "tier">): string[] => {
  const scopes = [`key:${keyId}`, ...new Set(tags.map((tag) => `tag:${tag}`)), "all"];
  if (tier !== undefined) scopes.push(`tier:${tier}`);
  return scopes;
};

const modelMark = " model:";

/** @param whose `key:<id>`, `tag:<name>`, `tier:<name>` or `all` @param model a pattern of `<provider>/<model>`; absent: a budget of all models */
export const budgetScope = (whose: string, model?: string): string =>
  model === undefined ? whose : whose + modelMark + model;

/** The parts of a budget's scope. */
export function partsOfScope(scope: string): { readonly whose: string; readonly model?: string } {
  const at = scope.indexOf(modelMark);
  return at < 0 ? { whose: scope } : { whose: scope.slice(0, at), model: scope.slice(at + modelMark.length) };
}

/** What a call cost of each model that did something of it; null: unknown. */
type ModelCost = readonly [model: string, cost: number | null];

export function modelCosts({ provider, upstreamModel, cost, beside = [] }: LedgerLine): readonly ModelCost[] {
  if (provider === null || upstreamModel === null) return [];
  const others = beside.reduce((sum, [, one]) => sum + one, 0);
  return [[`${provider}/${upstreamModel}`, cost === null ? null : cost - others], ...beside];
}

/** @param pattern of models @param unknown what counts in the place of a cost that is unknown */
export const costOfModels = (pattern: string, costs: readonly ModelCost[], unknown: number): number =>
  costs.reduce((sum, [model, cost]) => (globMatches(pattern, model) ? sum + (cost ?? unknown) : sum), 0);

/** The day and the month in which a call began. */
export function spansOf(at: number): readonly [day: string, month: string] {
  const day = new Date(at).toISOString().slice(0, 10);
  return [day, day.slice(0, 7)];
}

/** The tokens that count in the end; undefined where nobody knows, and the estimate stands. */
export const usedTokens = ({ counted, tokens }: LedgerLine): number | undefined =>
  counted === "unknown" ? undefined : tokens.input + tokens.output;

/** The days of a span, `2026-11-22` or `2026-11`, as the ledger numbers them: since 1970. */
export function daysOf({ span }: Pick<BudgetSpan, "span">): { readonly firstDay: number; readonly endDay: number } {
  const [year, month, day] = span.split("-").map(Number) as [number, number, number | undefined];
  const first = Date.UTC(year, month - 1, day ?? 1);
  const end = day === undefined ? Date.UTC(year, month) : first + dayMs;
  return { firstDay: first / dayMs, endDay: end / dayMs };
}
