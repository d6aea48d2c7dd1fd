/** The ledger: a row for each attempt, and each day's sums, which grow in the same statement. */
import { snakeCaseNumbered } from "../../lib/snake-case.ts";
import { costColumns, dayMs, dimensions, filters, groupColumns, sumColumns, tokenColumns } from "../ledger-columns.ts";
import {
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
import { unreservedCosts } from "../unreserved.ts";
import type { Parameter, QueryPool } from "./query-pool.ts";

const texts = [
  ...[
    "requestId",
    "keyId",
    "surface",
    "format",
    "model",
    "persona",
    "personaVersion",
    "provider",
    "upstreamModel",
    "ended",
  ],
  ...["callOf", "serviceTier", "counted", "priceSource", "priceDate", "priceNote"],
] as const;
const numbers = ["attempt", "at", "status", "firstTokenMs", "totalMs"] as const;
const numberColumns = [...numbers.map(snakeCaseNumbered), ...tokenColumns, "cost", ...costColumns];

/** A line's part in its day's sums, as expressions over the ledger. */
const factOf: Readonly<Record<string, string>> = {
  calls: "1",
  ...Object.fromEntries(callEnds.map((end) => [end, `(ended = '${end}')::int`])),
  unknown_costs: "(cost is null)::int",
  estimated: "(counted = 'estimated')::int",
  ...Object.fromEntries(["cost", ...costColumns].map((name) => [name, `coalesce(${name}, 0)`])),
};
const facts = sumColumns.map((name) => `${factOf[name] ?? name} as ${name}`).join(", ");
const dimensionFacts = dimensions.map((name) => `coalesce(${name}, '') as ${name}`).join(", ");

const groupOf: { readonly [Group in LedgerGroup]: string } = {
  day: "to_char(to_timestamp(day * 86400) at time zone 'UTC', 'YYYY-MM-DD')",
  tag: "tag",
  ...groupColumns,
};

const append = `with fresh as (
    insert into troupe.ledger select * from jsonb_populate_recordset(null::troupe.ledger, $1::text::jsonb)
    on conflict do nothing returning *),
  facts as (select at / ${dayMs} as day, ${dimensionFacts}, ${facts} from fresh),
  added as (
    insert into troupe.ledger_days as d (day, ${dimensions.join(", ")}, ${sumColumns.join(", ")})
    select day, ${dimensions.join(", ")}, ${sumColumns.map((name) => `sum(${name})`).join(", ")} from facts
    group by day, ${dimensions.join(", ")} order by day, ${dimensions.join(", ")}
    on conflict (day, ${dimensions.join(", ")})
    do update set ${sumColumns.map((name) => `${name} = d.${name} + excluded.${name}`).join(", ")})
  select count(*)::float8 as count, (
    select troupe.spend_unreserved(jsonb_agg(jsonb_build_object('scope', scope, 'span', span, 'cost', u.cost)))::text
    from (select distinct * from jsonb_to_recordset($2::text::jsonb) as u ("requestId" text, attempt bigint, scope text, span text, cost bigint)) u
    join fresh on fresh.request_id = u."requestId" and fresh.attempt = u.attempt having count(*) > 0) as spent from fresh`;

/** What a line adds to budgets if it is new. */
const unreservedOf = (line: LedgerLine) =>
  unreservedCosts(line).map((cost) => ({ requestId: line.requestId, attempt: line.attempt, ...cost }));

type Row = Record<string, string | number | null>;

export function ledgerRepository(pool: QueryPool): LedgerRepository {
  return {
    async append(lines) {
      if (lines.length === 0) return 0;
      const [row] = await pool.run<{ count: number }>(append, [
        JSON.stringify(lines.map(rowFrom)),
        JSON.stringify(lines.flatMap(unreservedOf)),
      ]);
      return row!.count;
    },
    async sums(filter, by, limit) {
      const { text, parameters } = sumQuery(filter, by, limit);
      return (await pool.run<Row>(text, parameters)).map((row) => sumFrom(row, by));
    },
    async lines(page) {
      const { text, parameters } = lineQuery(page);
      return (await pool.run<Row>(text, parameters)).map(lineFrom);
    },
  };
}

/** Lines of days before that time, and then the days' sums. @returns how many rows were removed */
export async function removeLedgerDays(pool: QueryPool, before: number, max: number): Promise<number> {
  const day = Math.floor(before / dayMs);
  const lines = `delete from troupe.ledger where (request_id, attempt) in (
    select request_id, attempt from troupe.ledger where at < $1::bigint order by at limit $2::int for update skip locked)`;
  const { count } = await pool.run(lines, [day * dayMs, max]);
  return count > 0 ? count : (await pool.run("delete from troupe.ledger_days where day < $1::bigint", [day])).count;
}

/** The values of a statement, each with its place in the text. */
class Bound {
  readonly parameters: Parameter[] = [];

  put(value: Parameter, type: "text" | "bigint"): string {
    this.parameters.push(value);
    return `$${this.parameters.length}::${type}`;
  }
}

/** Whole days come from their sums, and what is left of the first and the last one from the lines. */
function sumQuery(filter: LedgerFilter, by: readonly LedgerGroup[], limit: number) {
  const { since, until, tag } = filter;
  const firstDay = Math.ceil(since / dayMs);
  const endDay = Math.max(firstDay, Math.floor(until / dayMs));
  const bound = new Bound();
  const where = conditions(filter, bound);
  const at = (time: number) => bound.put(time, "bigint");
  const fromDays = `select day, ${dimensions.join(", ")}, ${sumColumns.join(", ")} from troupe.ledger_days
    where day >= ${at(firstDay)} and day < ${at(endDay)} ${where}`;
  const fromLines = (from: number, to: number) =>
    `select at / ${dayMs} as day, ${dimensionFacts}, ${facts} from troupe.ledger
     where at >= ${at(from)} and at < ${at(to)} ${where}`;
  const head = fromLines(since, Math.min(until, firstDay * dayMs));
  const tail = fromLines(Math.max(since, firstDay * dayMs, endDay * dayMs), until);
  const isTagged = by.includes("tag");
  const tags = `cross join jsonb_array_elements_text(case when tags = '[]' then '[""]' else tags end::jsonb) as tag`;
  const groups = by.map((group, place) => `${groupOf[group]} as g${place}`);
  const named = by.map((_, place) => `g${place}`);
  const sums = sumColumns.map((name) => `coalesce(sum(${name}), 0)::float8 as ${name}`);
  const order = [...(by[0] === "day" ? ["g0"] : []), "cost desc", ...named.map((name) => `${name} collate "C"`)];
  const text = `select * from (
    select ${[...groups, ...sums].join(", ")} from (${fromDays} union all ${head} union all ${tail}) facts
    ${isTagged ? tags : ""} ${tag !== undefined && isTagged ? `where tag = ${bound.put(tag, "text")}` : ""}
    ${named.length === 0 ? "" : `group by ${named.join(", ")}`}) summed
    order by ${order.join(", ")} limit ${at(limit)}`;
  return { text, parameters: bound.parameters };
}

function conditions(filter: LedgerFilter, bound: Bound): string {
  const equal = filters.flatMap(([name, column]) => {
    const value = filter[name];
    return value === undefined ? [] : [`and ${column} = ${bound.put(value, "text")}`];
  });
  const { tag } = filter;
  if (tag === "") equal.push("and tags = '[]'");
  else if (tag !== undefined) equal.push(`and tags::jsonb ? ${bound.put(tag, "text")}`);
  return equal.join(" ");
}

function lineQuery(page: LedgerPage) {
  const { since, until, ended, before, limit, requestId } = page;
  const bound = new Bound();
  const at = (time: number) => bound.put(time, "bigint");
  const parts = [`at >= ${at(since)} and at < ${at(until)}`, conditions(page, bound)];
  if (ended !== undefined) parts.push(`and ended = ${bound.put(ended, "text")}`);
  if (requestId !== undefined) parts.push(`and request_id = ${bound.put(requestId, "text")}`);
  if (before !== undefined) {
    const place = `(${at(before.at)}, ${bound.put(before.requestId, "text")}, ${at(before.attempt)})`;
    parts.push(`and (at, request_id, attempt) < ${place}`);
  }
  const columns = [
    ...texts.map(snakeCaseNumbered),
    "tags",
    ...numberColumns.map((name) => `${name}::float8 as ${name}`),
  ];
  const text = `select ${columns.join(", ")} from troupe.ledger where ${parts.join(" ")}
    order by troupe.ledger.at desc, request_id desc, troupe.ledger.attempt desc limit ${at(limit)}`;
  return { text, parameters: bound.parameters };
}

/** What the server can't keep in a text: the character 0, and half a pair. */
const keepable = (text: string) => text.toWellFormed().replaceAll("\0", "\ufffd");

function rowFrom(line: LedgerLine): Row {
  const { tokens, costs } = line;
  const text = (name: (typeof texts)[number]) => {
    const value = line[name as keyof LedgerLine] as string | null;
    return [snakeCaseNumbered(name), value === null ? null : keepable(value)];
  };
  return Object.fromEntries([
    ...texts.map(text),
    ["tags", JSON.stringify(line.tags.map(keepable))],
    ...numbers.map((name) => [snakeCaseNumbered(name), line[name]]),
    ...tokenKinds.map((kind, at) => [tokenColumns[at]!, tokens[kind]]),
    ["cost", line.cost],
    ...costKinds.map((kind, at) => [costColumns[at]!, costs === null ? null : costs[kind]]),
  ]) as Row;
}

function lineFrom(row: Row): LedgerLine {
  return {
    ...Object.fromEntries([...texts, ...numbers].map((name) => [name, row[snakeCaseNumbered(name)]])),
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
    ended: numbersOf(row, callEnds, callEnds),
    tokens: numbersOf(row, tokenKinds, tokenColumns),
    cost: Number(row["cost"]),
    costs: numbersOf(row, costKinds, costColumns),
    unknownCosts: Number(row["unknown_costs"]),
    estimated: Number(row["estimated"]),
  };
}

function numbersOf<Kind extends string>(row: Row, kinds: readonly Kind[], from: readonly string[]) {
  const entries = kinds.map((kind, at) => [kind, Number(row[from[at]!])]);
  return Object.fromEntries(entries) as { readonly [K in Kind]: number };
}
