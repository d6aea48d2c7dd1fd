/** The ledger in SQLite: a row for each attempt, and each day's sums, which grow in the same transaction. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import {
  type CallEnd,
  callEnds,
  costKinds,
  type LedgerFilter,
  type LedgerGroup,
  type LedgerLine,
  type LedgerPage,
  type LedgerRepository,
  type LedgerSum,
  tokenKinds,
} from "../store.ts";
import { type UnreservedCost, unreservedCosts } from "../unreserved.ts";
import type { Synchronous } from "./asynchronous.ts";

const dayMs = 86_400_000;

const snake = (name: string) => name.replaceAll(/([A-Z]|\d+)/g, (found) => `_${found.toLowerCase()}`);
const names = [
  ...["requestId", "attempt", "at", "keyId", "tags", "surface", "format", "model", "persona", "personaVersion"],
  ...["provider", "upstreamModel", "ended", "status", "callOf", "serviceTier", "counted", "priceSource", "priceDate"],
  ...["priceNote", "firstTokenMs", "totalMs"],
] as const;
const tokenColumns = tokenKinds.map((kind) => `${snake(kind)}_tokens`);
const costColumns = costKinds.map((kind) => `${snake(kind)}_cost`);
const columns = [...names.map(snake), ...tokenColumns, "cost", ...costColumns];

/** By what a day's sums are told apart, and in this order their key. */
const dimensions = ["key_id", "tags", "surface", "format", "model", "persona", "provider", "upstream_model"];
const sumColumns = ["calls", ...callEnds, "unknown_costs", "estimated", ...tokenColumns, "cost", ...costColumns];

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
  key: "key_id",
  tag: "tag.value",
  surface: "surface",
  format: "format",
  model: "model",
  persona: "persona",
  provider: "provider",
  upstreamModel: "upstream_model",
};

const filters: readonly [name: keyof LedgerFilter, column: string][] = [
  ["keyId", "key_id"],
  ["surface", "surface"],
  ["model", "model"],
  ["persona", "persona"],
  ["provider", "provider"],
  ["upstreamModel", "upstream_model"],
];

type Row = Record<string, string | number | null>;
type Bindings = Record<string, string | number>;

const list = (count: number) => Array.from({ length: count }, () => "?").join(", ");

export function ledgerRepository(
  database: Database,
): Synchronous<LedgerRepository> & { removeDays(before: number, max: number): number } {
  const insert = database.prepare<unknown, SQLQueryBindings[]>(
    `insert into ledger (${columns.join(", ")}) values (${list(columns.length)}) on conflict do nothing`,
  );
  const key = ["day", ...dimensions];
  const add = database.prepare<unknown, SQLQueryBindings[]>(
    `insert into ledger_days (${[...key, ...sumColumns].join(", ")}) values (${list(key.length + sumColumns.length)})
     on conflict (${key.join(", ")}) do update set ${sumColumns.map((name) => `${name} = ${name} + excluded.${name}`).join(", ")}`,
  );
  const hasSpending = database.prepare("select 1 from spending where span <> 'prepaid' limit 1");
  const spend = database.prepare<unknown, UnreservedCost>(
    "update spending set spent = spent + $cost where scope = $scope and span = $span",
  );
  const appendAll = database.transaction((lines: readonly LedgerLine[]) => {
    const fresh = lines.filter((line) => insert.run(...valuesOf(line)).changes > 0);
    for (const { dimensions: named, sums } of sumsOf(fresh)) add.run(...named, ...sums);
    if (hasSpending.get() !== null) for (const cost of costsOf(fresh)) spend.run(cost);
    return fresh.length;
  });
  const removeLines = database.prepare<unknown, { before: number; max: number }>(
    `delete from ledger where (request_id, attempt) in
     (select request_id, attempt from ledger where at < $before order by at limit $max)`,
  );
  const removeSums = database.prepare<unknown, { day: number }>("delete from ledger_days where day < $day");
  return {
    append: (lines) => (lines.length === 0 ? 0 : appendAll.immediate(lines)),
    sums: (filter, by, limit) => {
      const { sql, bindings } = sumQuery(filter, by);
      return database
        .query<Row, [Bindings]>(sql)
        .all({ ...bindings, limit })
        .map((row) => sumFrom(row, by));
    },
    lines: (page) => {
      const { sql, bindings } = lineQuery(page);
      return database.query<Row, [Bindings]>(sql).all(bindings).map(lineFrom);
    },
    removeDays: (before, max) => {
      const day = Math.floor(before / dayMs);
      const removed = removeLines.run({ before: day * dayMs, max }).changes;
      // A day's sums go once its lines are gone, so that both always tell the same.
      return removed > 0 ? removed : removeSums.run({ day }).changes;
    },
  };
}

/** In the order of `columns`. Written out, as it runs for every call. */
function valuesOf(line: LedgerLine): SQLQueryBindings[] {
  const { tokens, costs } = line;
  const values: SQLQueryBindings[] = [
    line.requestId,
    line.attempt,
    line.at,
    line.keyId,
    tagsOf(line),
    line.surface,
    line.format,
    line.model,
    line.persona,
    line.personaVersion,
    line.provider,
    line.upstreamModel,
    line.ended,
    line.status,
    line.callOf,
    line.serviceTier,
    line.counted,
    line.priceSource,
    line.priceDate,
    line.priceNote,
    line.firstTokenMs,
    line.totalMs,
  ];
  for (const kind of tokenKinds) values.push(tokens[kind]);
  values.push(line.cost);
  for (const kind of costKinds) values.push(costs === null ? null : costs[kind]);
  return values;
}

const tagsOf = ({ tags }: LedgerLine) => (tags.length === 0 ? "[]" : JSON.stringify(tags));

type DaySum = { readonly dimensions: (string | number)[]; readonly sums: number[] };

/** Adds up what goes to the same row, so that a batch of like calls writes it once. */
function sumsOf(lines: readonly LedgerLine[]): Iterable<DaySum> {
  const found = new Map<string, DaySum>();
  for (const line of lines) {
    const day = Math.floor(line.at / dayMs);
    const { keyId, surface, format, model, persona, provider, upstreamModel } = line;
    const named = [
      day,
      keyId,
      tagsOf(line),
      surface,
      format,
      model,
      persona ?? "",
      provider ?? "",
      upstreamModel ?? "",
    ];
    const id = named.join("\0");
    let sum = found.get(id);
    if (sum === undefined) {
      sum = { dimensions: named, sums: sumColumns.map(() => 0) };
      found.set(id, sum);
    }
    addTo(sum.sums, line);
  }
  return found.values();
}

/** What the lines add to budgets, each once. */
function costsOf(lines: readonly LedgerLine[]): Iterable<UnreservedCost> {
  const found = new Map<string, UnreservedCost>();
  for (const one of lines.flatMap(unreservedCosts)) {
    const id = `${one.scope}/${one.span}`;
    found.set(id, { ...one, cost: one.cost + (found.get(id)?.cost ?? 0) });
  }
  return found.values();
}

/** In the order of `sumColumns`. */
function addTo(sums: number[], { ended, cost, costs, counted, tokens }: LedgerLine): void {
  let at = 0;
  sums[at++]! += 1;
  for (const end of callEnds) sums[at++]! += Number(end === ended);
  sums[at++]! += Number(cost === null);
  sums[at++]! += Number(counted === "estimated");
  for (const kind of tokenKinds) sums[at++]! += tokens[kind];
  sums[at++]! += cost ?? 0;
  for (const kind of costKinds) sums[at++]! += costs?.[kind] ?? 0;
}

/** Whole days come from their sums, and what is left of the first and the last one from the lines. */
function sumQuery(filter: LedgerFilter, by: readonly LedgerGroup[]): { sql: string; bindings: Bindings } {
  const { since, until, tag } = filter;
  const firstDay = Math.ceil(since / dayMs);
  const endDay = Math.max(firstDay, Math.floor(until / dayMs));
  const { where, bindings } = conditions(filter);
  const fromDays = `select day, ${[...dimensions, ...sumColumns].join(", ")} from ledger_days
    where day >= $firstDay and day < $endDay ${where}`;
  const fromLines = (between: string) =>
    `select at / ${dayMs}, ${dimensions.map((name) => `ifnull(${name}, '')`).join(", ")},
     ${sumColumns.map((name) => factOf[name] ?? name).join(", ")} from ledger where ${between} ${where}`;
  const isTagged = by.includes("tag");
  const groups = by.map((group) => expressions[group]);
  const sql = `with facts as (
      ${fromDays} union all ${fromLines("at >= $since and at < $headEnd")} union all ${fromLines("at >= $tailStart and at < $until")}
    )
    select ${[...groups.map((group, at) => `${group} as g${at}`), ...sumColumns.map((name) => `ifnull(sum(${name}), 0) as ${name}`)].join(", ")}
    from facts ${isTagged ? "join json_each(iif(tags = '[]', '[\"\"]', tags)) as tag" : ""}
    ${tag !== undefined && isTagged ? "where tag.value = $tag" : ""}
    ${groups.length === 0 ? "" : `group by ${groups.map((_, at) => `g${at}`).join(", ")}`}
    order by ${[...(by[0] === "day" ? ["g0"] : []), "cost desc", ...groups.map((_, at) => `g${at}`)].join(", ")} limit $limit`;
  return {
    sql,
    bindings: {
      ...bindings,
      since,
      until,
      firstDay,
      endDay,
      headEnd: Math.min(until, firstDay * dayMs),
      tailStart: Math.max(since, firstDay * dayMs, endDay * dayMs),
    },
  };
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

function lineQuery(page: LedgerPage): { sql: string; bindings: Bindings } {
  const { since, until, ended, before, limit, requestId } = page;
  const { where, bindings } = conditions(page);
  const sql = `select ${columns.join(", ")} from ledger where at >= $since and at < $until ${where}
    ${ended === undefined ? "" : "and ended = $ended"}
    ${requestId === undefined ? "" : "and request_id = $requestId"}
    ${before === undefined ? "" : "and (at, request_id, attempt) < ($beforeAt, $beforeId, $beforeAttempt)"}
    order by at desc, request_id desc, attempt desc limit $limit`;
  return {
    sql,
    bindings: {
      ...bindings,
      since,
      until,
      limit,
      ...(ended !== undefined && { ended }),
      ...(requestId !== undefined && { requestId }),
      ...(before !== undefined && {
        beforeAt: before.at,
        beforeId: before.requestId,
        beforeAttempt: before.attempt,
      }),
    },
  };
}

function lineFrom(row: Row): LedgerLine {
  const line: Record<string, unknown> = {};
  for (const name of names) line[name] = row[snake(name)];
  return {
    ...line,
    tags: JSON.parse(row["tags"] as string) as string[],
    tokens: numbersOf(row, tokenKinds, tokenColumns),
    cost: row["cost"],
    costs: row["input_cost"] === null ? null : numbersOf(row, costKinds, costColumns),
  } as unknown as LedgerLine;
}

function sumFrom(row: Row, by: readonly LedgerGroup[]): LedgerSum {
  return {
    group: by.map((_, at) => String(row[`g${at}`])),
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
