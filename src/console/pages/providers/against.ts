/** How providers did in a time and in the one before it, by the ledger. */

import { bothTimes, type Range } from "../../period.ts";
import type { Query } from "../../router.ts";
import { getSums, type Row, type Totals } from "../spend/sums.ts";
import { ofRequest } from "./types.ts";

export type Numbers = {
  readonly calls: number;
  /** Without those that are the request's own. */
  readonly errors: number;
  /** Of the calls, in percent; null: there was no call. */
  readonly errorShare: number | null;
  readonly p50: number | null;
  readonly p95: number | null;
  readonly cost: number;
  readonly unknownCosts: number;
  readonly failures: ReadonlyMap<string, number>;
};

export type Compared = { readonly provider: string; readonly now: Numbers; readonly before: Numbers };

export type Comparison = {
  readonly since: string;
  readonly until: string;
  readonly rows: readonly Compared[];
  /** What was asked for the present period. */
  readonly asked: Query;
};

/** @returns failures by provider and reason */
export function failuresOf(rows: readonly Row[]): ReadonlyMap<string, ReadonlyMap<string, number>> {
  const found = new Map<string, Map<string, number>>();
  for (const row of rows) {
    const [provider, failure] = [String(row["provider"]), String(row["failure"])];
    if (failure === "") continue;
    const own = found.get(provider) ?? new Map<string, number>();
    found.set(provider, own.set(failure, row.calls));
  }
  return found;
}

/** @returns how many failed for the provider's own reasons */
export const errorsIn = (failures: ReadonlyMap<string, number>): number =>
  [...failures].reduce((sum, [reason, calls]) => sum + (ofRequest.has(reason) ? 0 : calls), 0);

const noFailures: ReadonlyMap<string, number> = new Map();

function numbersOf(row: Totals | undefined, failures: ReadonlyMap<string, number> = noFailures): Numbers {
  const calls = row?.calls ?? 0;
  const errors = errorsIn(failures);
  return {
    ...{ calls, errors, failures, errorShare: calls === 0 ? null : (100 * errors) / calls },
    p50: row?.first_token_ms?.p50 ?? null,
    p95: row?.first_token_ms?.p95 ?? null,
    cost: row?.cost_micro_dollars ?? 0,
    unknownCosts: row?.unknown_cost_calls ?? 0,
  };
}

/** @param provider absent: all of them */
export async function compare(range: Range, provider: string | undefined, signal: AbortSignal): Promise<Comparison> {
  const times = bothTimes(range);
  const [own, past] = [times.now, times.before].map((time) => ({ ...time, provider }));
  const asked = { ...own, by: "provider", first_token: "true" };
  const [sums, failures, pastSums, pastFailures] = await Promise.all([
    getSums(asked, signal),
    getSums({ ...own, by: "provider,failure" }, signal),
    getSums({ ...past, by: "provider", first_token: "true" }, signal),
    getSums({ ...past, by: "provider,failure" }, signal),
  ]);
  const [reasons, pastReasons] = [failuresOf(failures.data), failuresOf(pastFailures.data)];
  const rowsOf = (rows: readonly Row[]) => new Map(rows.map((row) => [String(row["provider"]), row]));
  const [present, before] = [rowsOf(sums.data), rowsOf(pastSums.data)];
  const names = [...new Set([...present.keys(), ...before.keys()])].filter((name) => name !== "");
  const rows = names.map((name) => ({
    provider: name,
    now: numbersOf(present.get(name), reasons.get(name)),
    before: numbersOf(before.get(name), pastReasons.get(name)),
  }));
  return { since: times.now.since, until: times.end, rows, asked };
}

export const nothing: Numbers = numbersOf(undefined);
