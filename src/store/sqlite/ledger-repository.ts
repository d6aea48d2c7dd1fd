/** The ledger in SQLite: a row for each attempt, and each day's sums. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import { nextSlice } from "../../lib/cooperative-scheduling.ts";
import { snakeCaseNumbered } from "../../lib/snake-case.ts";
import { costColumns, dayMs, dimensions, filters, groupColumns, sumColumns, tokenColumns } from "../ledger-columns.ts";
import {
  type CallEnd,
  callEnds,
  costKinds,
  type LedgerFilter,
  type LedgerGroup,
  type LedgerLine,
  type LedgerPage,
  type LedgerPlace,
  type LedgerRepository,
  type LedgerSum,
  tokenKinds,
} from "../store.ts";
import type { Synchronous } from "./asynchronous.ts";
import { appending, columns, names } from "./ledger-append.ts";

/** A line's part in its day's sums, as expressions over the ledger. */
const factOf: Readonly<Record<string, string>> = {
  calls: "1",
  ...Object.fromEntries(callEnds.map((end) => [end, `ended = '${end}'`])),
  unknown_costs: "cost is null",
  estimated: "counted = 'estimated'",
  ...Object.fromEntries(["cost", ...costColumns].map((name) => [name, `ifnull(${name}, 0)`])),
};

const expressions: { readonly [Group in LedgerGroup]: string } = {
  day: "date(day * 86400, 'unixepoch')",
  tag: "tag.value",
  ...groupColumns,
};

type Row = Record<string, string | number | null>;
type Bindings = Record<string, string | number>;

export function ledgerRepository(
  database: Database,
): Synchronous<LedgerRepository> & { removeDays(before: number, max: number): number } {
  let append: ReturnType<typeof appending> | undefined;
  const removeLines = database.prepare<unknown, { before: number; max: number }>(
    `delete from ledger where (request_id, attempt) in
     (select request_id, attempt from ledger where at < $before order by at limit $max)`,
  );
  const removeSums = database.prepare<unknown, { day: number }>("delete from ledger_days where day < $day");
  return {
    // Made when first needed: its statements take a millisecond, and most commands add nothing.
    append(lines) {
      append ??= appending(database);
      return append(lines);
    },
    async sums(filter, by, limit) {
      const found = new Map<string, Sum>();
      for (const [table, ranges] of rangesOf(database, filter)) {
        const sql = sumQuery(filter, by, table);
        const { bindings } = conditions(filter);
        for (const range of ranges) {
          const rows = database.query<SQLQueryBindings[], [Bindings]>(sql).values({ ...bindings, ...range });
          for (const row of rows) addRow(found, row as (string | number)[], by.length);
          await nextSlice();
        }
      }
      if (by.length === 0 && found.size === 0) found.set("", { group: [], sums: sumColumns.map(() => 0) });
      return [...found.values()].sort(orderFor(by)).slice(0, limit).map(sumFrom);
    },
    async lines(page) {
      const found: LedgerLine[] = [];
      for (const range of pageRanges(database, page)) {
        const { sql, bindings } = lineQuery({ ...page, limit: page.limit - found.length }, range);
        found.push(...database.query<Row, [Bindings]>(sql).all(bindings).map(lineFrom));
        if (found.length >= page.limit) break;
        await nextSlice();
      }
      return found;
    },
    removeDays: (before, max) => {
      const day = Math.floor(before / dayMs);
      const removed = removeLines.run({ before: day * dayMs, max }).changes;
      // A day's sums go once its lines are gone, so that both always tell the same.
      return removed > 0 ? removed : removeSums.run({ day }).changes;
    },
  };
}

/** Rows that are read in one turn of the event loop: some ten milliseconds. */
const sliceRows = 1000;

/** Of `ledger` by `at`, and of `ledger_days` by day and key; `to` is not in it. */
type Range = Bindings;
type Table = "ledger" | "ledger_days";

/** Whole days come from their sums, and what is left of the first and the last one from the lines. */
function* rangesOf(database: Database, { since, until }: LedgerFilter): Iterable<[Table, Iterable<Range>]> {
  const firstDay = Math.ceil(since / dayMs);
  const endDay = Math.max(firstDay, Math.floor(until / dayMs));
  yield ["ledger_days", dayRanges(database, firstDay, endDay)];
  yield ["ledger", lineRanges(database, since, Math.min(until, firstDay * dayMs))];
  yield ["ledger", lineRanges(database, Math.max(since, firstDay * dayMs, endDay * dayMs), until)];
}

function* dayRanges(database: Database, firstDay: number, endDay: number): Iterable<Range> {
  const next = database.query<[number, string], [Bindings]>(
    `select day, key_id from ledger_days where (day, key_id) >= ($fromDay, $fromKey) and day < $endDay
     order by day, key_id limit 1 offset ${sliceRows}`,
  );
  let from: [number, string] | undefined = [firstDay, ""];
  while (from !== undefined && from[0] < endDay) {
    const [fromDay, fromKey]: [number, string] = from;
    const [found]: [number, string][] = next.values({ fromDay, fromKey, endDay }) as [number, string][];
    // A key that fills a slice by itself is read whole: what follows it in the order of keys begins the next one.
    const to: [number, string] | undefined =
      found !== undefined && found[0] === fromDay && found[1] === fromKey ? [fromDay, `${fromKey}\0`] : found;
    yield { fromDay, fromKey, toDay: to?.[0] ?? endDay, toKey: to?.[1] ?? "" };
    from = to;
  }
}

function* lineRanges(database: Database, since: number, until: number): Iterable<Range> {
  const next = database.query<[number], [Bindings]>(
    `select at from ledger where at >= $from and at < $until order by at limit 1 offset ${sliceRows}`,
  );
  let from: number | undefined = since;
  while (from !== undefined && from < until) {
    const [found]: [number][] = next.values({ from, until }) as [number][];
    const to: number | undefined = found && Math.max(found[0], from + 1);
    yield { from, to: to ?? until };
    from = to;
  }
}

const between: { readonly [T in Table]: string } = {
  ledger: "at >= $from and at < $to",
  ledger_days: "(day, key_id) >= ($fromDay, $fromKey) and (day, key_id) < ($toDay, $toKey)",
};

const facts: { readonly [T in Table]: string } = {
  ledger: `at / ${dayMs} as day, ${dimensions.map((name) => `ifnull(${name}, '') as ${name}`).join(", ")},
     ${sumColumns.map((name) => `${factOf[name] ?? name} as ${name}`).join(", ")}`,
  ledger_days: `day, ${[...dimensions, ...sumColumns].join(", ")}`,
};

/** The sums of one slice. */
function sumQuery(filter: LedgerFilter, by: readonly LedgerGroup[], table: Table): string {
  const { where } = conditions(filter);
  const isTagged = by.includes("tag");
  const groups = by.map((group, at) => `${expressions[group]} as g${at}, `);
  return `with facts as (select ${facts[table]} from ${table} where ${between[table]} ${where})
    select ${groups.join("")}${sumColumns.map((name) => `sum(${name})`).join(", ")}
    from facts ${isTagged ? "join json_each(iif(tags = '[]', '[\"\"]', tags)) as tag" : ""}
    ${filter.tag !== undefined && isTagged ? "where tag.value = $tag" : ""}
    group by ${groups.length === 0 ? "''" : groups.map((_, at) => `g${at}`).join(", ")}`;
}

/** `sums` are in the order of `sumColumns`. */
type Sum = { readonly group: readonly string[]; readonly sums: number[] };

function addRow(found: Map<string, Sum>, row: readonly (string | number)[], groups: number): void {
  const group = row.slice(0, groups).map(String);
  const id = group.join("\0");
  const known = found.get(id);
  if (known === undefined) found.set(id, { group, sums: row.slice(groups).map(Number) });
  else for (const at of known.sums.keys()) known.sums[at]! += Number(row[groups + at]);
}

const costColumn = sumColumns.indexOf("cost");
/** As a database compares texts. */
const compared = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** Days first and in their order where they are asked for, then the costliest, then by group. */
function orderFor(by: readonly LedgerGroup[]): (a: Sum, b: Sum) => number {
  const byGroup = (a: Sum, b: Sum) => {
    for (const [at, name] of a.group.entries()) {
      const order = compared(name, b.group[at]!);
      if (order !== 0) return order;
    }
    return 0;
  };
  const byDay = by[0] === "day" ? (a: Sum, b: Sum) => compared(a.group[0]!, b.group[0]!) : () => 0;
  return (a, b) => byDay(a, b) || b.sums[costColumn]! - a.sums[costColumn]! || byGroup(a, b);
}

const isFiltered = (page: LedgerPage) => page.ended !== undefined || conditions(page).where !== "";

type PageRange = { readonly before: LedgerPlace | undefined; readonly since: LedgerPlace | undefined };

/** Where lines are looked for that only a part fits, so many are looked at in one turn; the latest first. */
function* pageRanges(database: Database, page: LedgerPage): Iterable<PageRange> {
  const { before, since, until } = page;
  if (page.requestId !== undefined || !isFiltered(page)) {
    yield { before, since: undefined };
    return;
  }
  const next = database.query<[number, string, number], [Bindings]>(
    `select at, request_id, attempt from ledger where at >= $since and at <= $beforeAt and (at, request_id, attempt) < ($beforeAt, $beforeId, $beforeAttempt)
     order by at desc, request_id desc, attempt desc limit 1 offset ${sliceRows}`,
  );
  let from: LedgerPlace | undefined = before ?? { at: until, requestId: "", attempt: 0 };
  while (from !== undefined) {
    const place = { beforeAt: from.at, beforeId: from.requestId, beforeAttempt: from.attempt };
    const [found] = next.values({ since, ...place }) as [number, string, number][];
    const end: LedgerPlace | undefined = found && { at: found[0], requestId: found[1], attempt: found[2] };
    yield { before: from, since: end };
    from = end;
  }
}

function conditions(filter: LedgerFilter): { where: string; bindings: Bindings } {
  const bindings: Bindings = {};
  let where = "";
  for (const [name, column] of filters) {
    const value = filter[name];
    if (value === undefined) continue;
    where += ` and ${column} = $${name}`;
    bindings[name] = value;
  }
  if (filter.tag !== undefined) {
    where += filter.tag === "" ? " and tags = '[]'" : " and exists (select 1 from json_each(tags) where value = $tag)";
    bindings["tag"] = filter.tag;
  }
  return { where, bindings };
}

function lineQuery(page: LedgerPage, range: PageRange): { sql: string; bindings: Bindings } {
  const { since, until, ended, limit, requestId } = page;
  const { where, bindings } = conditions(page);
  // The plus keeps one request's lines from being looked for by their time.
  const at = requestId === undefined ? "at" : "+at";
  const sql = `select ${columns.join(", ")} from ledger where ${at} >= $since and ${at} < $until ${where}
    ${ended === undefined ? "" : "and ended = $ended"}
    ${requestId === undefined ? "" : "and request_id = $requestId"}
    ${range.before === undefined ? "" : "and (at, request_id, attempt) < ($beforeAt, $beforeId, $beforeAttempt)"}
    ${range.since === undefined ? "" : "and (at, request_id, attempt) >= ($sinceAt, $sinceId, $sinceAttempt)"}
    order by ${at} desc, request_id desc, attempt desc limit $limit`;
  return {
    sql,
    bindings: {
      ...bindings,
      // A comparison of rows alone does not narrow down where SQLite looks.
      since: Math.max(since, range.since?.at ?? since),
      until: Math.min(until, (range.before?.at ?? until) + 1),
      limit,
      ...(ended !== undefined && { ended }),
      ...(requestId !== undefined && { requestId }),
      ...placeBindings("before", range.before),
      ...placeBindings("since", range.since),
    },
  };
}

function placeBindings(name: string, place: LedgerPlace | undefined): Bindings {
  if (place === undefined) return {};
  return { [`${name}At`]: place.at, [`${name}Id`]: place.requestId, [`${name}Attempt`]: place.attempt };
}

function lineFrom(row: Row): LedgerLine {
  const line: Record<string, unknown> = {};
  for (const name of names) line[name] = row[snakeCaseNumbered(name)];
  return {
    ...line,
    tags: JSON.parse(row["tags"] as string) as string[],
    tokens: numbersOf(row, tokenKinds, tokenColumns),
    cost: row["cost"],
    costs: row["input_cost"] === null ? null : numbersOf(row, costKinds, costColumns),
  } as unknown as LedgerLine;
}

function sumFrom({ group, sums }: Sum): LedgerSum {
  const row: Row = Object.fromEntries(sumColumns.map((name, at) => [name, sums[at]!]));
  return {
    group,
    calls: Number(row["calls"]),
    ended: numbersOf(row, callEnds as readonly CallEnd[], callEnds),
    tokens: numbersOf(row, tokenKinds, tokenColumns),
    cost: Number(row["cost"]),
    costs: numbersOf(row, costKinds, costColumns),
    unknownCosts: Number(row["unknown_costs"]),
    estimated: Number(row["estimated"]),
  };
}

function numbersOf<Kind extends string>(
  row: Row,
  kinds: readonly Kind[],
  from: readonly string[],
): { readonly [K in Kind]: number } {
  return Object.fromEntries(kinds.map((kind, at) => [kind, Number(row[from[at]!])])) as {
    readonly [K in Kind]: number;
  };
}
