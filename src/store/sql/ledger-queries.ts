/** Questions to the ledger in SQL, for both databases. */
import { callEnds, firstTokenBounds } from "../../api/words.ts";
import { dayMs, hourMs } from "../../lib/time/duration.ts";
import {
  costKinds,
  type LedgerFilter,
  type LedgerGroup,
  type LedgerLine,
  type LedgerPage,
  type LedgerPlace,
  type LedgerSum,
  type SumsPage,
  tokenKinds,
} from "../contract/usage.ts";
import { severalOf } from "../ledger/chosen-lines.ts";
import {
  costColumns,
  dimensionColumn,
  dimensionColumns,
  dimensionNames,
  firstTokenColumns,
  metadataKeyOf,
  ownColumn,
  ownColumns,
  ownNames,
  reportColumns,
  sumColumns,
  timeGroups,
  tokenColumns,
} from "../ledger/columns.ts";
import { finest, type Rollup, rollupFor } from "./ledger-rollups.ts";

/** Parts of statements that the databases say in different words. `k` are a line's dimensions. */
export type Dialect = {
  /** Prefix of the names of tables. */
  readonly prefix: string;
  readonly place: (number: number, type: "text" | "bigint") => string;
  /** Joins each of the tags, or an empty one, as `t.value`. */
  readonly withTags: string;
  readonly hasTag: (place: string) => string;
  readonly metadata: (key: string) => string;
};

type Value = string | number;

/** The values of a statement, each with its place in the text. */
export class Bound {
  readonly values: Value[] = [];
  readonly #dialect: Dialect;

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
  }

  put(value: Value): string {
    this.values.push(value);
    return this.#dialect.place(this.values.length, typeof value === "string" ? "text" : "bigint");
  }
}

/** Lines of one search, whatever it is for: some 100 ms. */
export const maxSearched = 200_000;

export const isFiltered = ({ where = {} }: LedgerFilter): boolean => Object.keys(where).length > 0;

/** Which dimensions fit, as further conditions. */
export function dimensionConditions({ where = {} }: LedgerFilter, dialect: Dialect, bound: Bound): string {
  const conditions = Object.entries(where).map(([name, value]) => {
    if (name === "tag") return value === "" ? "k.tags = '[]'" : dialect.hasTag(bound.put(value));
    const key = metadataKeyOf(name);
    const column = key === undefined ? `k.${reportColumns.get(name)!}` : dialect.metadata(key);
    const several = severalOf(name, value);
    if (several.length > 1) return `${column} in (${several.map((one) => bound.put(one))})`;
    return value === "" ? `${column} is null` : `${column} = ${bound.put(value)}`;
  });
  return conditions.map((condition) => ` and ${condition}`).join("");
}

/** Whether single lines have to be looked at: what they have alone has no index. */
export const isSearched = ({ own = [], endedSince }: LedgerPage): boolean => own.length > 0 || endedSince !== undefined;

/** Which lines fit by their own numbers, as further conditions. */
export function ownConditions({ own = [], endedSince }: LedgerPage, bound: Bound): string {
  const ended = endedSince === undefined ? "" : ` and l.at + l.total_ms >= ${bound.put(endedSince)}`;
  const conditions = own
    .map(({ member, ranges }) => {
      const column = `l.${ownColumn(member)}`;
      const within = ranges.map(([from, to]) => `${column} between ${bound.put(from)} and ${bound.put(to)}`);
      return ` and (${within.join(" or ")})`;
    })
    .join("");
  return ended + conditions;
}

const placeNames = ["at", "request_id", "attempt"];
export const newestFirst = placeNames.map((name) => `l.${name} desc`).join(", ");

/** Lines before a place, of a time. */
export function lineConditions(
  { since, until, before }: Pick<LedgerFilter, "since" | "until"> & { readonly before?: LedgerPlace | undefined },
  bound: Bound,
): string {
  const upper = Math.min(until - 1, before?.at ?? until);
  const time = `l.at >= ${bound.put(since)} and l.at <= ${bound.put(upper)}`;
  if (before === undefined) return time;
  const values = [before.at, before.requestId, before.attempt].map((value) => bound.put(value));
  return `${time} and (${placeNames.map((name) => `l.${name}`).join(", ")}) < (${values.join(", ")})`;
}

const allNames: readonly string[] = [...sumColumns, ...callEnds, "estimated"];
const usualNames = allNames.filter((name) => !firstTokenColumns.includes(name));
/** In the order of a row of sums. */
export const sumNames = ({ firstTokens }: Pick<SumsPage, "firstTokens">): readonly string[] =>
  firstTokens === true ? allNames : usualNames;

/** Rows of `ledger` as those of the finest `ledger_hours` are. */
const lineFacts = [
  `at / ${hourMs} as hour`,
  "dimensions_id",
  "1 as calls",
  "case when cost is null then 1 else 0 end as unknown_costs",
  ...tokenColumns,
  ...costColumns.map((name) => `coalesce(${name}, 0) as ${name}`),
  ...firstTokenColumns.map((name, at) => {
    const above = at === 0 ? "first_token_ms is not null" : `first_token_ms > ${firstTokenBounds[at - 1]}`;
    const bound = firstTokenBounds[at];
    return `case when ${above}${bound === undefined ? "" : ` and first_token_ms <= ${bound}`} then 1 else 0 end as ${name}`;
  }),
].join(", ");

export const lineFactsOf = (dialect: Dialect, where: string): string =>
  `select ${lineFacts} from ${dialect.prefix}ledger where ${where}`;

/** Rows of a part of a question's time that meet a condition. */
export function sumFactsOf({ table, rollup: { id } }: Part, dialect: Dialect, where: string): string {
  if (table === "ledger") return lineFactsOf(dialect, where);
  const hour = table === "ledger_days" ? "day * 24 as hour" : "hour";
  return `select ${hour}, dimensions_id, ${sumColumns.join(", ")} from ${dialect.prefix}${table} where rollup = ${id} and ${where}`;
}

/** The table that has the dimensions of a rollup, and which of its rows are the rollup's. */
export const dimensionsOf = (rollup: Rollup): { readonly table: string; readonly of: string } =>
  rollup === finest
    ? { table: "ledger_dimensions", of: "true" }
    : { table: "ledger_groups", of: `k.rollup = ${rollup.id}` };

/** A group that is no time, of dimensions `k`, or of one of their tags. */
export function groupColumn(name: LedgerGroup, dialect: Dialect): string {
  if (name === "tag") return "t.value";
  const key = metadataKeyOf(name);
  return `coalesce(${key === undefined ? `k.${reportColumns.get(name)!}` : dialect.metadata(key)}, '')`;
}

export type Part = {
  readonly table: "ledger_days" | "ledger_hours" | "ledger";
  readonly rollup: Rollup;
  readonly column: "day" | "hour" | "at";
  /** Values of the column. */
  readonly from: number;
  readonly to: number;
};

/** Whole days come from their sums, unless hours are asked for; what is left of the first and the last one from hours, and of those from lines. */
export function partsOf(filter: LedgerFilter, by: readonly LedgerGroup[]): readonly Part[] {
  const hours = within(filter.since, filter.until, hourMs);
  const days = by.includes("hour") ? { ...hours, from: 0, to: 0 } : within(hours.from, hours.to, 24);
  const ofDays = { table: "ledger_days", column: "day", rollup: rollupFor("day", filter, by) } as const;
  const ofHours = { table: "ledger_hours", column: "hour", rollup: rollupFor("hour", filter, by) } as const;
  const ofLines = { table: "ledger", column: "at", rollup: finest } as const;
  const parts: Part[] = [
    { ...ofDays, from: days.from, to: days.to },
    ...(days.from < days.to
      ? [
          { ...ofHours, ...days.before },
          { ...ofHours, ...days.behind },
        ]
      : [{ ...ofHours, from: hours.from, to: hours.to }]),
    { ...ofLines, ...hours.before },
    { ...ofLines, ...hours.behind },
  ];
  return parts.filter(({ from, to }) => from < to);
}

/** The whole buckets of that length in a time, and what is left of it before and behind them. */
function within(since: number, until: number, length: number) {
  const from = Math.ceil(since / length);
  const to = Math.max(from, Math.floor(until / length));
  return {
    ...{ from, to },
    before: { from: since, to: Math.min(until, from * length) },
    behind: { from: Math.max(since, to * length), to: until },
  };
}

/** The part of the filter's time in which a page behind `after` lies: where sums go by time, all of it but what came before. */
export function narrowed(filter: LedgerFilter, by: readonly LedgerGroup[], after?: readonly string[]): LedgerFilter {
  const isByTime = by.length > 0 && (timeGroups as readonly string[]).includes(by[0]!);
  const from = isByTime && after !== undefined ? Date.parse(after[0]!) : Number.NaN;
  return Number.isNaN(from) ? filter : { ...filter, since: Math.max(filter.since, from) };
}

export type Row = Record<string, string | number | null>;

export const lineColumns = (of: (column: string) => string): string =>
  [...ownColumns.map(of), ...dimensionColumns.map((column) => `k.${column}`)].join(", ");

export function lineFrom(row: Row): LedgerLine {
  const line: Record<string, unknown> = {};
  for (const name of ownNames) line[name] = row[ownColumn(name)];
  for (const name of dimensionNames) line[name] = row[dimensionColumn(name)];
  return {
    ...line,
    tags: JSON.parse(row["tags"] as string) as string[],
    tokens: numbersOf(tokenKinds, (at) => Number(row[tokenColumns[at]!])),
    cost: row["cost"],
    costs: row["input_cost"] === null ? null : numbersOf(costKinds, (at) => Number(row[costColumns[at + 1]!])),
  } as unknown as LedgerLine;
}

/** @returns what makes sums of a group of values in the order of `sumNames()`. Places are looked up once, as a report has thousands of groups */
export function sumsFrom(
  page: Pick<SumsPage, "firstTokens">,
): (group: readonly string[], values: readonly number[]) => LedgerSum {
  const names = sumNames(page);
  const placesOf = (columns: readonly string[]) => columns.map((name) => names.indexOf(name));
  const [calls, cost, unknownCosts, estimated] = placesOf(["calls", "cost", "unknown_costs", "estimated"]);
  const [ends, tokens] = [placesOf(callEnds), placesOf(tokenColumns)];
  const costs = placesOf(costColumns.slice(1));
  const firstTokens = page.firstTokens === true ? placesOf(firstTokenColumns) : undefined;
  return (group, values) => ({
    group,
    calls: values[calls!]!,
    ended: numbersOf(callEnds, (at) => values[ends[at]!]!),
    tokens: numbersOf(tokenKinds, (at) => values[tokens[at]!]!),
    cost: values[cost!]!,
    costs: numbersOf(costKinds, (at) => values[costs[at]!]!),
    unknownCosts: values[unknownCosts!]!,
    estimated: values[estimated!]!,
    ...(firstTokens && { firstTokens: firstTokens.map((at) => values[at]!) }),
  });
}

function numbersOf<Kind extends string>(kinds: readonly Kind[], numberAt: (at: number) => number) {
  const numbers: { [K in Kind]?: number } = {};
  for (let at = 0; at < kinds.length; at++) numbers[kinds[at]!] = numberAt(at);
  return numbers as { readonly [K in Kind]: number };
}

export const dayOf = (at: number): number => Math.floor(at / dayMs);
