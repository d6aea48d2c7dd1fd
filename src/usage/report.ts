/** Questions to the ledger as people ask them, and its sums as they are told: one form for the command, the API and the console. */
import { snakeCaseNumbered } from "../lib/snake-case.ts";
import {
  callEnds,
  type LedgerFilter,
  type LedgerGroup,
  type LedgerRepository,
  type LedgerSum,
  ledgerGroups,
} from "../store/store.ts";

export type UsageQuery = { readonly filter: LedgerFilter; readonly by: readonly LedgerGroup[]; readonly limit: number };

/** A question that nobody can answer. `param` names the part that is wrong. */
export class UsageQueryError extends Error {
  override readonly name = "UsageQueryError";
  readonly param: string;

  constructor(param: string, message: string) {
    super(message);
    this.param = param;
  }
}

/** As text, in the words of the command's flags and the API's query. */
export type UsageQuestion = {
  readonly by?: string | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  readonly key?: string | undefined;
  readonly tag?: string | undefined;
  readonly model?: string | undefined;
  readonly persona?: string | undefined;
  readonly provider?: string | undefined;
  readonly limit?: string | undefined;
};

const dayMs = 86_400_000;
const usualDays = 30;
const maxRows = 10_000;
const maxGroups = 3;

/** The groups' names as people write them. */
const groupNames = new Map<string, LedgerGroup>(
  ledgerGroups.map((group) => [group === "upstreamModel" ? "upstream_model" : group, group]),
);

/** @param now Unix milliseconds @throws UsageQueryError */
export function parseUsageQuestion(question: UsageQuestion, now: number): UsageQuery {
  const { key, tag, model, persona, provider } = question;
  const today = Math.floor(now / dayMs) * dayMs;
  // Whole days by default: their sums are kept, and need no adding up.
  const until = question.until === undefined ? today + dayMs : timeOf("until", question.until, now);
  const since = question.since === undefined ? today - (usualDays - 1) * dayMs : timeOf("since", question.since, now);
  if (since >= until) throw new UsageQueryError("since", "since must lie before until.");
  return {
    filter: {
      since,
      until,
      ...(key !== undefined && { keyId: key }),
      ...(tag !== undefined && { tag }),
      ...(model !== undefined && { model }),
      ...(persona !== undefined && { persona }),
      ...(provider !== undefined && { provider }),
    },
    by: groupsOf(question.by ?? "day"),
    limit: limitOf(question.limit),
  };
}

function groupsOf(text: string): LedgerGroup[] {
  const names = text.split(",").map((name) => name.trim());
  const groups = names.map((name) => groupNames.get(name));
  if (groups.includes(undefined) || new Set(names).size < names.length || names.length > maxGroups) {
    const known = [...groupNames.keys()].join(", ");
    throw new UsageQueryError("by", `by must be 1 to ${maxGroups} of ${known}, separated by commas.`);
  }
  return groups as LedgerGroup[];
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return maxRows;
  const limit = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > maxRows) throw new UsageQueryError("limit", `limit must be a number from 1 to ${maxRows}.`);
  return limit;
}

const units: Readonly<Record<string, number>> = { h: 3_600_000, d: dayMs, w: 7 * dayMs };

/** A day or a time in UTC, or how long ago. */
function timeOf(param: string, text: string, now: number): number {
  const ago = /^(\d{1,4})([hdw])$/.exec(text);
  if (ago !== null) {
    const at = now - Number(ago[1]) * units[ago[2]!]!;
    return ago[2] === "h" ? at : Math.floor(at / dayMs) * dayMs;
  }
  const isTime = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d))?$/.test(text);
  const at = isTime ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) {
    throw new UsageQueryError(
      param,
      `${param} must be a day (2026-11-22), a time (2026-11-22T10:00:00Z) or a span (7d, 24h).`,
    );
  }
  return at;
}

/** Members by their names as JSON has them. */
const renamed = (numbers: Readonly<Record<string, number>>): Record<string, number> =>
  Object.fromEntries(Object.entries(numbers).map(([name, value]) => [snakeCaseNumbered(name), value]));

function totalsJson(sum: Omit<LedgerSum, "group">): Record<string, unknown> {
  return {
    calls: sum.calls,
    ended: sum.ended,
    tokens: renamed(sum.tokens),
    cost_micro_dollars: sum.cost,
    costs_micro_dollars: renamed(sum.costs),
    unknown_cost_calls: sum.unknownCosts,
    estimated_calls: sum.estimated,
  };
}

export type UsageReport = {
  readonly query: UsageQuery;
  readonly rows: readonly LedgerSum[];
  readonly total: LedgerSum;
};

/** @throws StorageError */
export async function reportUsage(ledger: LedgerRepository, query: UsageQuery): Promise<UsageReport> {
  const { filter, by, limit } = query;
  const [rows, [total]] = await Promise.all([ledger.sums(filter, by, limit), ledger.sums(filter, [], 1)]);
  return { query, rows, total: total! };
}

export function usageJson({ query, rows, total }: UsageReport): Record<string, unknown> {
  const { filter, by } = query;
  return {
    object: "usage",
    since: new Date(filter.since).toISOString(),
    until: new Date(filter.until).toISOString(),
    by: by.map(snakeCaseNumbered),
    data: rows.map((sum) => ({
      ...Object.fromEntries(by.map((group, at) => [snakeCaseNumbered(group), sum.group[at]])),
      ...totalsJson(sum),
    })),
    total: totalsJson(total),
  };
}

/** Rows for a spreadsheet (RFC 4180), with dollars to the micro-dollar. */
export function usageCsv({ query, rows }: UsageReport): string {
  const kinds = rows[0] === undefined ? [] : Object.keys(rows[0].tokens);
  const head = [
    ...query.by.map(snakeCaseNumbered),
    "calls",
    ...callEnds,
    ...kinds.map((kind) => `${snakeCaseNumbered(kind)}_tokens`),
    "cost_dollars",
    "unknown_cost_calls",
    "estimated_calls",
  ];
  const lines = rows.map((sum) => [
    ...sum.group,
    sum.calls,
    ...callEnds.map((end) => sum.ended[end]),
    ...Object.values(sum.tokens),
    dollarsOf(sum.cost),
    sum.unknownCosts,
    sum.estimated,
  ]);
  return [head, ...lines].map((cells) => `${cells.map((cell) => quoted(String(cell))).join(",")}\r\n`).join("");
}

/** A cell that a spreadsheet would take for a formula begins with an apostrophe. */
function quoted(cell: string): string {
  const text = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** All six digits, without a float in between. */
export function dollarsOf(microDollars: number): string {
  return `${Math.floor(microDollars / 1_000_000)}.${String(microDollars % 1_000_000).padStart(6, "0")}`;
}
