/** What lines of the ledger add to the spending of budgets for which nothing was reserved: of calls before a budget was there. */
import type { BudgetSpan, LedgerLine } from "./store.ts";

/** In whole micro-dollars. */
export type UnreservedCost = BudgetSpan & { readonly cost: number };

/** Wherever a budget may stand that the line counts in, but for where it counts by its reservation; nothing is prepaid afterwards. */
export function unreservedCosts(line: LedgerLine): UnreservedCost[] {
  const { keyId, tags, cost, at, payer } = line;
  if (cost === null || cost === 0) return [];
  const scopes = [`key:${keyId}`, ...tags.map((tag) => `tag:${tag}`), "all"];
  if (payer !== undefined) scopes.push(`tier:${payer.tier}`);
  const day = new Date(at).toISOString().slice(0, 10);
  const isReserved = (scope: string, span: string) =>
    payer?.reserved.some((one) => one.scope === scope && one.span === span) === true;
  return [day, day.slice(0, 7)].flatMap((span) =>
    scopes.filter((scope) => !isReserved(scope, span)).map((scope) => ({ scope, span, cost })),
  );
}

const dayMs = 86_400_000;

/** The days of a span, `2026-11-22` or `2026-11`, as the ledger numbers them: since 1970. */
export function daysOf(span: string): { readonly firstDay: number; readonly endDay: number } {
  const [year, month, day] = span.split("-").map(Number) as [number, number, number | undefined];
  const first = Date.UTC(year, month - 1, day ?? 1);
  const end = day === undefined ? Date.UTC(year, month) : first + dayMs;
  return { firstDay: first / dayMs, endDay: end / dayMs };
}
