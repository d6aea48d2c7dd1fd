/** Which budgets a line of the ledger is spent of, wherever such a budget may stand; what is prepaid is spent by reservations alone. */
import type { BudgetSpan, LedgerLine } from "./usage.ts";

export const scopesOf = ({ keyId, tags, tier }: Pick<LedgerLine, "keyId" | "tags" | "tier">): string[] => {
  const scopes = [`key:${keyId}`, ...new Set(tags.map((tag) => `tag:${tag}`)), "all"];
  if (tier !== undefined) scopes.push(`tier:${tier}`);
  return scopes;
};

/** The day and the month in which a call began. */
export function spansOf(at: number): readonly [day: string, month: string] {
  const day = new Date(at).toISOString().slice(0, 10);
  return [day, day.slice(0, 7)];
}

/** The tokens that count in the end; undefined where nobody knows, and the estimate stands. */
export const usedTokens = ({ counted, tokens }: LedgerLine): number | undefined =>
  counted === "unknown" ? undefined : tokens.input + tokens.output;

const dayMs = 86_400_000;

/** The days of a span, `2026-11-22` or `2026-11`, as the ledger numbers them: since 1970. */
export function daysOf({ span }: Pick<BudgetSpan, "span">): { readonly firstDay: number; readonly endDay: number } {
  const [year, month, day] = span.split("-").map(Number) as [number, number, number | undefined];
  const first = Date.UTC(year, month - 1, day ?? 1);
  const end = day === undefined ? Date.UTC(year, month) : first + dayMs;
  return { firstDay: first / dayMs, endDay: end / dayMs };
}
