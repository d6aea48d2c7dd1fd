/** The spans of time that budgets hold for, all in UTC. */
import type { BudgetPeriod } from "../api/words.ts";
import { dayMs } from "../lib/time/duration.ts";

/** The day that was asked for last, in days since 1970, which is most often asked for again. */
let lastDay: number | undefined;
let lastText = "";

/** The span that a time is in: `2026-11-22`, `2026-11` or `prepaid`. */
export function spanOf(period: BudgetPeriod, at: number): string {
  if (period === "prepaid") return period;
  const day = Math.floor(at / dayMs);
  if (day !== lastDay) {
    lastText = new Date(at).toISOString().slice(0, 10);
    lastDay = day;
  }
  return period === "day" ? lastText : lastText.slice(0, 7);
}

/** When the span that a time is in began, in Unix milliseconds; undefined: it has no beginning. */
export function beginOf(period: BudgetPeriod, at: number): number | undefined {
  return period === "prepaid" ? undefined : Date.parse(spanOf(period, at));
}

/** When the span after that time's begins, in Unix milliseconds; undefined: never. */
export function periodEndOf(period: BudgetPeriod, at: number): number | undefined {
  if (period === "prepaid") return undefined;
  const time = new Date(at);
  const [year, month] = [time.getUTCFullYear(), time.getUTCMonth()];
  return period === "day" ? Date.UTC(year, month, time.getUTCDate() + 1) : Date.UTC(year, month + 1);
}
