/** Sums over the ledger as the API gives them, and as charts have them. */
import type { UsageRow as Row, AllUsage as Sums, UsageTotals as Totals } from "../../../api/usage.ts";
import { get } from "../../api.ts";
import { dayMs, hourMs } from "../../period.ts";
import type { Query } from "../../router.ts";

export type { AllUsage as Sums, UsageRow as Row, UsageTotals as Totals } from "../../../api/usage.ts";

export const quantiles = ["p50", "p95", "p99"] as const;
export type FirstTokens = NonNullable<Totals["first_token_ms"]>;

export const maxRows = 10_000;

export const getSums = (query: Query, signal: AbortSignal) =>
  get<Sums>("v1/usage", query["top"] ? query : { limit: String(maxRows), ...query }, { signal });

/**
 * What *Errors* are on every page: attempts that ended so, whoever's fault it was; the client's leaving is none. A provider's *Faults*
 * are its own reasons alone.
 */
export const failedEnds = ["broken", "refused", "interrupted"] as const;

export const errorsOf = ({ ended }: Pick<Totals, "ended">): number =>
  failedEnds.reduce((sum, end) => sum + (ended[end] ?? 0), 0);

export const tokensOf = ({ tokens }: Totals): number => (tokens["input"] ?? 0) + (tokens["output"] ?? 0);

/** @returns the day in UTC, such as 2026-11-22 */
export const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

export type Granularity = "hour" | "day" | "month";

/** @returns by what a chart of so much time has not too many points, and not too few */
export const granularityOf = (ms: number): Granularity =>
  ms <= 3 * dayMs ? "hour" : ms <= 120 * dayMs ? "day" : "month";

const words: Readonly<Record<Granularity, (at: number) => string>> = {
  hour: (at) => `${new Date(at).toISOString().slice(0, 13)}:00Z`,
  day: dayOf,
  month: (at) => dayOf(at).slice(0, 7),
};

/** All buckets of a time, those without a call too, in the words of the API. */
export function bucketsOf(granularity: Granularity, since: string, until: string): string[] {
  const end = Math.min(Date.parse(until), Date.now() + 1);
  const first = Date.parse(words[granularity](Date.parse(since)));
  if (granularity !== "month")
    return steps(first, end, granularity === "hour" ? hourMs : dayMs).map((at) => words[granularity](at));
  const buckets = [];
  for (let at = first; at < end; ) {
    buckets.push(words.month(at));
    const date = new Date(at);
    at = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
  }
  return buckets;
}

const steps = (from: number, to: number, by: number) =>
  Array.from({ length: Math.max(1, Math.ceil((to - from) / by)) }, (_, at) => from + at * by);

/** @returns Unix seconds */
export const secondsOf = (bucket: string): number => Date.parse(bucket) / 1_000;

/** @returns values of the rows by bucket, and 0 where a bucket has no row */
export function along(
  buckets: readonly string[],
  granularity: Granularity,
  rows: readonly Row[],
  of: (row: Row) => number,
): number[] {
  const known = new Map<string, number>();
  for (const row of rows) known.set(String(row[granularity]), (known.get(String(row[granularity])) ?? 0) + of(row));
  return buckets.map((bucket) => known.get(bucket) ?? 0);
}

/** What rows can be taken by, beside time. */
export const groups = [
  { id: "model", title: "Model" },
  { id: "persona", title: "Persona" },
  { id: "key", title: "Key" },
  { id: "tag", title: "Tag" },
  { id: "client", title: "Client" },
  { id: "provider", title: "Provider" },
] as const;

export const nameOf = (row: Row, group: string): string =>
  (group === "key" ? row.key_name : undefined) ?? (String(row[group] ?? "") || "none");

const ownPages: Readonly<Record<string, string>> = { key: "keys", persona: "personas", provider: "providers" };
/** @returns the page of that key, persona or provider; undefined: there is none */
export const ownPageOf = (group: string): string | undefined => ownPages[group];
