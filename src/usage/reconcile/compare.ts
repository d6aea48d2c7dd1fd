/** Holds the ledger against an account's own reports: by day, model and tier, with what explains a difference. */

import { dayMs } from "../../lib/time/duration.ts";
import type { LedgerSum } from "../../store/contract/usage.ts";
import {
  modelName,
  perMicroDollar,
  type Reported,
  type ReportedTokens,
  type ReportKind,
  reportedTokens,
  tierOf,
} from "./reported.ts";

/** Sums of one side. Costs are micro-dollars; what a side does not tell is absent. */
export type ComparedSide = {
  readonly calls?: number;
  readonly tokens?: ReportedTokens;
  readonly cost?: number;
};

/**
 * What may explain a difference. `not_in_ledger`: calls by other keys of the account, or past this program. `not_reported`: the report may be late,
 * or another account was billed. `more_calls`: it counts calls that the ledger has not. `unknown_cost`, `estimated`, `unfinished`: calls of the
 * ledger whose cost is not known, whose tokens are estimates, or that ended before their answer did. `price`: the tokens agree, and the
 * cost does not. `tier_not_reported`: the report of costs has no such tier. `tokens`, `cost`: they differ, and nothing above
 * says why.
 */
export const reasons = [
  ...(["not_in_ledger", "not_reported", "more_calls", "unknown_cost", "estimated", "unfinished"] as const),
  ...(["price", "tier_not_reported", "tokens", "cost"] as const),
] as const;
export type Reason = (typeof reasons)[number];

export type ReconciledRow = {
  readonly day: string;
  /** Empty: what is billed beside models, or all of a day whose cost the report does not tell apart. */
  readonly model: string;
  readonly tier: string;
  readonly items?: readonly string[];
  readonly ledger: ComparedSide & {
    readonly unknownCosts: number;
    readonly estimated: number;
    readonly unfinished: number;
  };
  readonly reported: ComparedSide;
  readonly why: readonly { readonly reason: Reason; readonly calls?: number }[];
};

export type Reconciled = {
  /** In order of day, model and tier. */
  readonly rows: readonly ReconciledRow[];
  readonly ledger: ComparedSide;
  readonly reported: ComparedSide;
  /** Days that no report is about; their rows lack that side's numbers, and the sums leave them out on both sides. */
  readonly missing: { readonly [Kind in ReportKind]: readonly string[] };
  /** Costs in other currencies, which are compared with nothing: `1.25 eur`. */
  readonly currencies: readonly string[];
};

const maxItems = 10;

type MutableTokens = { -readonly [Kind in keyof ReportedTokens]: number };

type Cell = {
  readonly day: string;
  readonly model: string;
  readonly tier: string;
  readonly items: Set<string>;
  calls: number;
  tokens: MutableTokens;
  cost: number;
  unknownCosts: number;
  estimated: number;
  unfinished: number;
  isInLedger: boolean;
  reportedCalls: number | undefined;
  reportedTokens: MutableTokens | undefined;
  /** In the reports' unit. */
  reportedCost: bigint | undefined;
};

const none = (): MutableTokens => ({ input: 0, cacheRead: 0, cacheWrite: 0, output: 0 });

/**
 * @param sums of the ledger, by day, upstream model and service tier, of the account's providers alone
 * @param reports of one vendor
 * @param tolerance share of the reported tokens within which they count as equal
 */
export function reconcile(
  sums: Iterable<LedgerSum>,
  reports: readonly Reported[],
  { since, until }: { readonly since: number; readonly until: number },
  tolerance: number,
): Reconciled {
  const days: string[] = [];
  for (let at = since; at < until; at += dayMs) days.push(new Date(at).toISOString().slice(0, 10));
  const covered = { costs: coveredDays(reports, "costs", days), usage: coveredDays(reports, "usage", days) };
  const table = new Table(daysUnsplit(reports));
  for (const sum of sums) table.addOwn(sum);
  const currencies = new Map<string, bigint>();
  for (const { kind, lines } of reports) {
    for (const line of lines) {
      if (!covered[kind].has(line.day)) continue;
      const { currency = "usd", cost } = line;
      if (cost !== undefined && currency !== "usd") currencies.set(currency, (currencies.get(currency) ?? 0n) + cost);
      else table.addReported(line);
    }
  }
  const rows = table.rows(covered, tolerance);
  const lacking = (kind: ReportKind) => days.filter((day) => !covered[kind].has(day));
  return {
    rows,
    ...table.totals(covered),
    missing: { costs: lacking("costs"), usage: lacking("usage") },
    currencies: [...currencies].map(([name, cost]) => `${(Number(cost / perMicroDollar) / 1e6).toFixed(2)} ${name}`),
  };
}

/** The days of the period that all reports of a kind are about. */
function coveredDays(reports: readonly Reported[], kind: ReportKind, period: readonly string[]): Set<string> {
  const own = reports.filter((report) => report.kind === kind);
  if (own.length === 0) return new Set();
  return new Set(period.filter((day) => own.every(({ days }) => days === undefined || days.has(day))));
}

/** Days whose costs are not told apart. */
function daysUnsplit(reports: readonly Reported[]): Set<string> {
  return new Set(
    reports.flatMap(({ kind, lines }) =>
      kind === "costs"
        ? lines.filter((line) => line.model === undefined && line.item === undefined).map(({ day }) => day)
        : [],
    ),
  );
}

class Table {
  readonly #cells = new Map<string, Cell>();
  readonly #unsplit: ReadonlySet<string>;

  constructor(unsplit: ReadonlySet<string>) {
    this.#unsplit = unsplit;
  }

  #cell(day: string, model: string, tier: string): Cell {
    const key = JSON.stringify([day, model, tier]);
    const found = this.#cells.get(key);
    if (found !== undefined) return found;
    const cell: Cell = {
      ...{ day, model, tier, items: new Set<string>(), calls: 0, tokens: none(), cost: 0 },
      ...{ unknownCosts: 0, estimated: 0, unfinished: 0, isInLedger: false },
      ...{ reportedCalls: undefined, reportedTokens: undefined, reportedCost: undefined },
    };
    this.#cells.set(key, cell);
    return cell;
  }

  addOwn({ group, ended, tokens, cost, costs, unknownCosts, estimated }: LedgerSum): void {
    const [day = "", model = "", tier = ""] = group;
    // What was refused, or answered by another call's answer, nobody bills.
    const unfinished = ended.broken + ended.abandoned + ended.interrupted;
    const calls = ended.finished + unfinished;
    if (calls === 0 && cost === 0) return;
    const cell = this.#cell(day, modelName(model), tierOf(tier));
    cell.isInLedger = true;
    cell.calls += calls;
    cell.unfinished += unfinished;
    cell.unknownCosts += unknownCosts;
    cell.estimated += estimated;
    const { input, cacheRead, cacheWrite5m, cacheWrite1h, output } = tokens;
    const own = { input, cacheRead, cacheWrite: cacheWrite5m + cacheWrite1h, output };
    for (const kind of reportedTokens) cell.tokens[kind] += own[kind];
    // Tools and the like are billed beside models.
    const beside = this.#unsplit.has(day) ? cost : costs.other;
    cell.cost += cost - beside;
    if (beside !== 0) {
      const other = this.#cell(day, "", "standard");
      other.isInLedger = true;
      other.cost += beside;
    }
  }

  addReported({ day, model, tier, item, calls, tokens, cost }: Reported["lines"][number]): void {
    const cell =
      model === undefined || (cost !== undefined && this.#unsplit.has(day))
        ? this.#cell(day, "", "standard")
        : this.#cell(day, model, tier);
    if (item !== undefined && cell.items.size < maxItems) cell.items.add(item);
    if (cost !== undefined) cell.reportedCost = (cell.reportedCost ?? 0n) + cost;
    if (calls !== undefined) cell.reportedCalls = (cell.reportedCalls ?? 0) + calls;
    if (tokens !== undefined) {
      cell.reportedTokens ??= none();
      for (const kind of reportedTokens) cell.reportedTokens[kind] += tokens[kind];
    }
  }

  rows(covered: Readonly<Record<ReportKind, Set<string>>>, tolerance: number): ReconciledRow[] {
    const order = (a: Cell, b: Cell) =>
      a.day < b.day
        ? -1
        : a.day > b.day
          ? 1
          : a.model < b.model
            ? -1
            : a.model > b.model
              ? 1
              : a.tier < b.tier
                ? -1
                : 1;
    return [...this.#cells.values()].sort(order).map((cell) => {
      const { day, model, tier, items, calls, tokens, cost, unknownCosts, estimated, unfinished } = cell;
      const { hasCosts, hasUsage } = this.#compared(cell, covered);
      return {
        ...{ day, model, tier, ...(items.size > 0 && { items: [...items] }) },
        ledger: {
          ...(model !== "" && { calls, tokens: { ...tokens } }),
          ...{ cost, unknownCosts, estimated, unfinished },
        },
        reported: {
          ...(hasUsage && cell.reportedCalls !== undefined && { calls: cell.reportedCalls }),
          ...(hasUsage && { tokens: cell.reportedTokens ?? none() }),
          ...(hasCosts && { cost: rounded(cell.reportedCost ?? 0n) }),
        },
        why: explained(cell, hasCosts, hasUsage, tolerance),
      };
    });
  }

  /** Whether the report tells this row's costs and tokens. */
  #compared({ day, model }: Cell, covered: Readonly<Record<ReportKind, Set<string>>>) {
    const hasCosts = covered.costs.has(day) && (model === "" || !this.#unsplit.has(day));
    return { hasCosts, hasUsage: covered.usage.has(day) && model !== "" };
  }

  totals(covered: Readonly<Record<ReportKind, Set<string>>>): Pick<Reconciled, "ledger" | "reported"> {
    const [own, theirs] = [none(), none()];
    let [cost, calls, theirCalls, theirCost] = [0, 0, 0, 0n];
    let tellsCalls = false;
    for (const cell of this.#cells.values()) {
      const { hasCosts, hasUsage } = this.#compared(cell, covered);
      if (hasCosts) {
        cost += cell.cost;
        theirCost += cell.reportedCost ?? 0n;
      }
      if (!hasUsage) continue;
      calls += cell.calls;
      theirCalls += cell.reportedCalls ?? 0;
      tellsCalls ||= cell.reportedCalls !== undefined;
      for (const kind of reportedTokens) {
        own[kind] += cell.tokens[kind];
        theirs[kind] += cell.reportedTokens?.[kind] ?? 0;
      }
    }
    const [hasCosts, hasUsage] = [covered.costs.size > 0, covered.usage.size > 0];
    return {
      ledger: { ...(hasUsage && { calls, tokens: own }), ...(hasCosts && { cost }) },
      reported: {
        ...(hasUsage && tellsCalls && { calls: theirCalls }),
        ...(hasUsage && { tokens: theirs }),
        ...(hasCosts && { cost: rounded(theirCost) }),
      },
    };
  }
}

const rounded = (cost: bigint): number => {
  const half = cost < 0n ? -perMicroDollar / 2n : perMicroDollar / 2n;
  return Number((cost + half) / perMicroDollar);
};

const differs = (own: number, theirs: number, tolerance: number, least: number) =>
  Math.abs(theirs - own) > Math.max(least, tolerance * Math.abs(theirs));

/** One cent: less than that is rounding of many small calls. */
const leastCost = 10_000;

function explained(cell: Cell, hasCosts: boolean, hasUsage: boolean, tolerance: number): ReconciledRow["why"] {
  const { calls, tokens, cost, unknownCosts, estimated, unfinished, reportedCalls, reportedTokens: theirs } = cell;
  const theirCost = rounded(cell.reportedCost ?? 0n);
  const costDiffers = hasCosts && differs(cost, theirCost, tolerance, leastCost);
  const tokensDiffer =
    hasUsage && reportedTokens.some((kind) => differs(tokens[kind], theirs?.[kind] ?? 0, tolerance, 0));
  if (!costDiffers && !tokensDiffer) return [];
  if (!cell.isInLedger) return [{ reason: "not_in_ledger" }];
  if (theirs === undefined && cell.reportedCost === undefined) return [{ reason: "not_reported" }];
  const why: { reason: Reason; calls?: number }[] = [];
  if (reportedCalls !== undefined && reportedCalls > calls)
    why.push({ reason: "more_calls", calls: reportedCalls - calls });
  if (unknownCosts > 0 && costDiffers) why.push({ reason: "unknown_cost", calls: unknownCosts });
  if (estimated > 0) why.push({ reason: "estimated", calls: estimated });
  if (unfinished > 0) why.push({ reason: "unfinished", calls: unfinished });
  if (costDiffers && cell.reportedCost === undefined) why.push({ reason: "tier_not_reported" });
  else if (costDiffers && hasUsage && !tokensDiffer && unknownCosts === 0) why.push({ reason: "price" });
  return why.length > 0 ? why : [{ reason: tokensDiffer ? "tokens" : "cost" }];
}
