/** Questions to the ledger in SQL, for both databases. */
import {
  costColumns,
  dayMs,
  hourMs,
  hourSums,
  kindColumn,
  kindColumns,
  kindNames,
  metadataKeyOf,
  ownColumn,
  ownColumns,
  ownNames,
  reportColumns,
  timeGroups,
  tokenColumns,
} from "./ledger-columns.ts";
import {
  callEnds,
  costKinds,
  type LedgerFilter,
  type LedgerGroup,
  type LedgerLine,
  type LedgerPlace,
  type LedgerSum,
  tokenKinds,
} from "./usage.ts";

/** Parts of statements that the databases say in different words. `k` is a row of `ledger_kinds`, `f` one of sums. */
export type Dialect = {
  /** Prefix of the names of tables. */
  readonly prefix: string;
  readonly place: (number: number, type: "text" | "bigint") => string;
  readonly time: { readonly [Group in (typeof timeGroups)[number]]: string };
  /** Joins kinds to `f`. */
  readonly withKinds: string;
  /** Joins each of a kind's tags, or an empty one, as `t.value`. */
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

export const isFiltered = ({ where = {} }: LedgerFilter): boolean => Object.keys(where).length > 0;

/** Which kinds fit, as further conditions. */
export function kindConditions({ where = {} }: LedgerFilter, dialect: Dialect, bound: Bound): string {
  const conditions = Object.entries(where).map(([name, value]) => {
    if (name === "tag") return value === "" ? "k.tags = '[]'" : dialect.hasTag(bound.put(value));
    const key = metadataKeyOf(name);
    const column = key === undefined ? `k.${reportColumns.get(name)!}` : dialect.metadata(key);
    return value === "" ? `${column} is null` : `${column} = ${bound.put(value)}`;
  });
  return conditions.map((condition) => ` and ${condition}`).join("");
}

const placeNames = ["at", "request_id", "attempt"];
export const newestFirst = (of: string): string => placeNames.map((name) => `${of}.${name} desc`).join(", ");

/** Lines before a place, of a time. */
export function lineConditions(
  { since, until, before }: Pick<LedgerFilter, "since" | "until"> & { readonly before?: LedgerPlace | undefined },
  bound: Bound,
  of = "l",
): string {
  const upper = Math.min(until - 1, before?.at ?? until);
  const time = `${of}.at >= ${bound.put(since)} and ${of}.at <= ${bound.put(upper)}`;
  if (before === undefined) return time;
  const values = [before.at, before.requestId, before.attempt].map((value) => bound.put(value));
  return `${time} and (${placeNames.map((name) => `${of}.${name}`).join(", ")}) < (${values.join(", ")})`;
}

const sumOf: Readonly<Record<string, string>> = {
  ...Object.fromEntries(hourSums.map((name) => [name, `sum(f.${name})`])),
  ...Object.fromEntries(callEnds.map((end) => [end, `sum(case when k.ended = '${end}' then f.calls else 0 end)`])),
  estimated: "sum(case when k.counted = 'estimated' then f.calls else 0 end)",
};
/** In the order of a row of sums. */
export const sumNames: readonly string[] = Object.keys(sumOf);

/** Rows of `ledger` as those of `ledger_hours` are. */
const lineFacts = [
  `at / ${hourMs} as hour`,
  "kind",
  "1 as calls",
  "case when cost is null then 1 else 0 end as unknown_costs",
  ...tokenColumns,
  ...costColumns.map((name) => `coalesce(${name}, 0) as ${name}`),
].join(", ");

export const factsOf = {
  ledger: (dialect: Dialect, where: string): string =>
    `select ${lineFacts} from ${dialect.prefix}ledger where ${where}`,
  ledger_hours: (dialect: Dialect, where: string): string =>
    `select hour, kind, ${hourSums.join(", ")} from ${dialect.prefix}ledger_hours where ${where}`,
} as const;

export const groupNames = (by: readonly LedgerGroup[]): string[] => by.map((_, at) => `g${at}`);

/** The sums of facts, one row for each group. */
export function sumQuery(
  facts: string,
  filter: LedgerFilter,
  by: readonly LedgerGroup[],
  dialect: Dialect,
  bound: Bound,
): string {
  const isTagged = by.includes("tag");
  const groups = by.map((name, at) => `${groupOf(name, dialect)} as g${at}, `);
  const tag = filter.where?.["tag"];
  return `select ${groups.join("")}${sumNames.map((name) => `${sumOf[name]} as ${name}`).join(", ")}
    from (${facts}) f ${dialect.withKinds} ${isTagged ? dialect.withTags : ""}
    where true ${kindConditions(filter, dialect, bound)} ${isTagged && tag !== undefined ? `and t.value = ${bound.put(tag)}` : ""}
    ${by.length === 0 ? "" : `group by ${by.map((_, at) => at + 1).join(", ")}`}`;
}

function groupOf(name: LedgerGroup, dialect: Dialect): string {
  if (name === "tag") return "t.value";
  const time = timeGroups.find((one) => one === name);
  if (time !== undefined) return dialect.time[time];
  const key = metadataKeyOf(name);
  return `coalesce(${key === undefined ? `k.${reportColumns.get(name)!}` : dialect.metadata(key)}, '')`;
}

/** Whole hours come from their sums, and what is left of the first and the last one from the lines. */
export function partsOf({ since, until }: LedgerFilter) {
  const firstHour = Math.ceil(since / hourMs);
  const endHour = Math.max(firstHour, Math.floor(until / hourMs));
  return {
    hours: { from: firstHour, to: endHour },
    head: { from: since, to: Math.min(until, firstHour * hourMs) },
    tail: { from: Math.max(since, firstHour * hourMs, endHour * hourMs), to: until },
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
  [...ownColumns.map(of), ...kindColumns.map((column) => `k.${column}`)].join(", ");

export function lineFrom(row: Row): LedgerLine {
  const line: Record<string, unknown> = {};
  for (const name of ownNames) line[name] = row[ownColumn(name)];
  for (const name of kindNames) line[name] = row[kindColumn(name)];
  return {
    ...line,
    tags: JSON.parse(row["tags"] as string) as string[],
    tokens: numbersOf(row, tokenKinds, tokenColumns),
    cost: row["cost"],
    costs: row["input_cost"] === null ? null : numbersOf(row, costKinds, costColumns.slice(1)),
  } as unknown as LedgerLine;
}

export function sumFrom(group: readonly string[], row: Row): LedgerSum {
  return {
    group,
    calls: Number(row["calls"]),
    ended: numbersOf(row, callEnds, callEnds),
    tokens: numbersOf(row, tokenKinds, tokenColumns),
    cost: Number(row["cost"]),
    costs: numbersOf(row, costKinds, costColumns.slice(1)),
    unknownCosts: Number(row["unknown_costs"]),
    estimated: Number(row["estimated"]),
  };
}

function numbersOf<Kind extends string>(row: Row, kinds: readonly Kind[], from: readonly string[]) {
  const entries = kinds.map((kind, at) => [kind, Number(row[from[at]!])]);
  return Object.fromEntries(entries) as { readonly [K in Kind]: number };
}

export const dayOf = (at: number): number => Math.floor(at / dayMs);
