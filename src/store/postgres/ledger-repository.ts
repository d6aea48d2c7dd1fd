/** The ledger: a row for each attempt, and each hour's sums, which grow in the same statement. Both are partitioned by day. */
import { callEnds } from "../../api/words.ts";
import { keepable } from "../../lib/text/plain-text.ts";
import { dayMs } from "../../lib/time/duration.ts";
import {
  type Appended,
  costKinds,
  type LedgerFilter,
  type LedgerGroup,
  type LedgerLine,
  type LedgerPage,
  type LedgerRepository,
  type SumsPage,
  tokenKinds,
} from "../contract/usage.ts";
import { modelCosts, scopesOf, spansOf, usedTokens } from "../ledger/charges.ts";
import {
  costColumns,
  dimensionColumns,
  ownColumn,
  ownNames,
  ownTexts,
  sumColumns,
  timeGroups,
  tokenColumns,
} from "../ledger/columns.ts";
import {
  type Dimensions,
  dimensionValues,
  groupedByDimensions,
  KnownDimensions,
  type LineDimensions,
} from "../ledger/dimensions.ts";
import {
  Bound,
  type Dialect,
  dayOf,
  dimensionConditions,
  dimensionsOf,
  groupColumn,
  isFiltered,
  isSearched,
  lineColumns,
  lineConditions,
  lineFactsOf,
  lineFrom,
  maxSearched,
  narrowed,
  newestFirst,
  ownConditions,
  partsOf,
  type Row,
  sumFactsOf,
  sumNames,
  sumsFrom,
} from "../sql/ledger-queries.ts";
import { finest, knownTo, type Rollup, rollups } from "../sql/ledger-rollups.ts";
import type { HeldCalls } from "./held-calls.ts";
import type { QueryPool } from "./query-pool.ts";

const utc = (format: string) => `to_char(to_timestamp(f.hour * 3600) at time zone 'UTC', '${format}')`;
const times = { month: utc("YYYY-MM"), day: utc("YYYY-MM-DD"), hour: utc('YYYY-MM-DD"T"HH24":00Z"') };

const dialect: Dialect = {
  prefix: "troupe.",
  place: (number, type) => `$${number}::${type}`,
  withTags: `cross join jsonb_array_elements_text(case when k.tags = '[]' then '[""]' else k.tags end::jsonb) t(value)`,
  hasTag: (place) => `k.tags::jsonb ? ${place}`,
  metadata: (key) => `(k.metadata::jsonb ->> '${key}')`,
};

/** Adds the fresh lines to their sums, in one order. @param isKept which rollups have such sums */
const addition = (bucket: string, expression: string, isKept: (rollup: Rollup) => boolean) => `
    insert into troupe.ledger_${bucket}s as s (rollup, ${bucket}, dimensions_id, ${sumColumns.join(", ")})
    select rollup, ${expression}, g.dimensions_id, ${sumColumns.map((name) => `sum(${name})`).join(", ")}
    from (${lineFactsOf({ ...dialect, prefix: "" }, "true").replace("from ledger", "from fresh")}) facts
    join jsonb_to_recordset($6::text::jsonb) as g (of bigint, rollup bigint, dimensions_id bigint) on g.of = facts.dimensions_id
    where rollup in (${rollups.filter(isKept).map(({ id }) => id)})
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (rollup, ${bucket}, dimensions_id) do update set ${sumColumns.map((name) => `${name} = s.${name} + excluded.${name}`).join(", ")}`;

// Locks a row of dimensions only where its day is another one.
const addDimensions = (table: string, key: readonly string[], place: string) => `
    insert into troupe.${table} as k (${key.join(", ")}, day, ${dimensionColumns.join(", ")})
    select ${key.join(", ")}, day, ${dimensionColumns.join(", ")}
    from jsonb_populate_recordset(null::troupe.${table}, ${place}::text::jsonb) n
    where not exists (select 1 from troupe.${table} known
      where ${key.map((column) => `known.${column} = n.${column}`).join(" and ")} and known.day >= n.day)
    order by ${key.join(", ")} on conflict (${key.join(", ")}) do update set day = greatest(k.day, excluded.day)`;

const append = `with dimensions as (${addDimensions("ledger_dimensions", ["dimensions_id"], "$3")}),
  groups as (${addDimensions("ledger_groups", ["rollup", "dimensions_id"], "$7")}),
  fresh as (
    insert into troupe.ledger select * from jsonb_populate_recordset(null::troupe.ledger, $1::text::jsonb)
    on conflict do nothing returning *),
  added as (${addition("hour", "hour", ({ hasHours }) => hasHours)}),
  added_days as (${addition("day", "hour / 24", () => true)})
  select count(*)::float8 as added, (
    select troupe.end_calls($2::text::jsonb, (
      select coalesce(jsonb_agg(jsonb_build_object('request_id', request_id, 'attempt', attempt)), '[]') from fresh),
      $4::text::jsonb, $5::text::jsonb))::text as ended
    from fresh`;
const note = "select troupe.note_calls($1::text, $2::text::jsonb)";

/** Reservation that a line ends, and what the line spends. */
const endOf = (line: LedgerLine) => ({
  request_id: line.requestId,
  attempt: line.attempt,
  cost: line.cost,
  used: usedTokens(line) ?? null,
  days: spansOf(line.at),
  scopes: scopesOf(line).map(keepable),
  models: modelCosts(line).map(([model, cost]) => ({ model: keepable(model), cost })),
});

/** The calls by which variants are judged, and the rules of those that may stop, as JSON. */
function variantTexts(lines: readonly LedgerLine[]): readonly [calls: string, rules: string] {
  const counted: object[] = [];
  const rules = new Map<string, object>();
  for (const { requestId, attempt, at, totalMs: ms, cost, variantCall } of lines) {
    if (variantCall === undefined) continue;
    const { rules: all, ...call } = variantCall;
    counted.push({ request_id: requestId, attempt, at, ms, cost, ...call });
    const { persona, version } = call;
    for (const { slowMs: slow_ms, ...rule } of all)
      rules.set(JSON.stringify([persona, version, rule.variant]), { persona, version, slow_ms, ...rule });
  }
  return [JSON.stringify(counted), JSON.stringify([...rules.values()])];
}

const noteOf = (line: LedgerLine) => ({
  request_id: line.requestId,
  attempt: line.attempt,
  line: JSON.stringify(line),
});

/** Reports wait for each other, and what is written for neither. */
type Pools = { readonly background: QueryPool; readonly reports: QueryPool };

export const ledgerSums =
  (pools: Pools): LedgerRepository["sums"] =>
  async (filter, by, page) => {
    const { text, values } = sumPage(filter, by, page);
    const rows = await read<Row>(pools, text, values, page.signal);
    const [groups, names, sumOf] = [groupNames(by), sumNames(page), sumsFrom(page)];
    return rows.map((row) =>
      sumOf(
        groups.map((name) => String(row[name])),
        names.map((name) => Number(row[name])),
      ),
    );
  };

export function ledgerRepository(pools: Pools, calls: HeldCalls): LedgerRepository {
  const { background } = pools;
  let dimensions: KnownDimensions | undefined;
  /** Days whose partitions this process has seen, the latest ones. */
  const opened = new Set<number>();
  const openDays = async (lines: readonly LedgerLine[]) => {
    // The next one too, so that nobody waits for it at midnight.
    const days = new Set(lines.flatMap(({ at }) => [dayOf(at), dayOf(at) + 1]).filter((day) => !opened.has(day)));
    for (const day of days) {
      await background.run("select troupe.open_ledger_day('troupe', $1::bigint)::text", [day]);
      opened.add(day);
    }
    for (const day of opened) if (opened.size > 100 && day < Math.max(...opened) - 50) opened.delete(day);
  };
  const salted = async () => {
    const [row] = await background.run<{ value: number }>(
      "select value::float8 as value from troupe.generations where name = 'ledger'",
    );
    return new KnownDimensions(row!.value);
  };
  async function noteCalls(begun: readonly LedgerLine[]): Promise<void> {
    const owner = await calls.owner();
    for (const line of begun) calls.began(line);
    try {
      await background.run(note, [owner, JSON.stringify(begun.map(noteOf))]);
    } catch (error) {
      for (const line of begun) calls.gaveUp(line);
      throw error;
    }
  }
  const linesBy = async ({ text, values }: ReturnType<typeof linePage>, { signal }: LedgerPage) =>
    (await read<Row>(pools, text, values, signal)).map(lineFrom);
  return {
    async append(given, begun = []) {
      if (begun.length > 0) await noteCalls(begun);
      if (given.length === 0) return { added: 0, spending: [] };
      // In one order, as another node may add some of them too.
      const lines = [...new Map(given.map((line) => [`${line.requestId} ${line.attempt}`, line])).values()].sort(
        (a, b) => Number(a.requestId > b.requestId) - Number(a.requestId < b.requestId) || a.attempt - b.attempt,
      );
      dimensions ??= await salted();
      await openDays(lines);
      const known = dimensions;
      const sent: LineDimensions[] = [];
      const rows = groupedByDimensions(lines).flatMap((own) => {
        // The latest, so that the database knows the dimensions for all of their days.
        const latest = own.reduce((a, b) => (b.at > a.at ? b : a));
        const found = known.find(latest, dimensionValues(latest, keepable));
        sent.push(found);
        return own.map((line) => rowFrom(line, found.id));
      });
      const text = [
        JSON.stringify(rows),
        JSON.stringify(lines.map(endOf)),
        JSON.stringify(lastOf(sent).map(dimensionsRow)),
        ...variantTexts(lines),
        ...groupTexts(lastOf(sent)),
      ];
      try {
        const [row] = await background.run<{ added: number; ended: string }>(append, text);
        for (const one of sent) known.learn(one);
        for (const line of given) calls.ended(line);
        return { added: row!.added, ...(JSON.parse(row!.ended) as Omit<Appended, "added">) };
      } catch (error) {
        // Another process may have dropped a day.
        opened.clear();
        throw error;
      }
    },
    interrupted: () => calls.interrupted(),
    sums: ledgerSums(pools),
    lines: (page) => linesBy(linePage(page), page),
    async search(page, most = maxSearched) {
      if (!isSearched(page)) return { lines: await linesBy(linePage(page), page) };
      const edge = edgeOf(page, most);
      const [row] = await read<{ at: number }>(pools, edge.text, edge.values, page.signal);
      const lines = await linesBy(searchPage({ ...page, since: row?.at ?? page.since }), page);
      return lines.length === page.limit || row === undefined ? { lines } : { lines, reached: row.at };
    },
  };
}

/** Reads so that whoever left has the server stop too. Rejects with the signal's reason */
async function read<R>(
  { background, reports }: { readonly background: QueryPool; readonly reports: QueryPool },
  text: string,
  values: readonly (string | number)[],
  signal: AbortSignal | undefined,
): Promise<readonly R[]> {
  if (signal === undefined) return reports.run<R>(text, values);
  signal.throwIfAborted();
  let pid: number | undefined;
  let cancelling: Promise<unknown> | undefined;
  const cancel = () => {
    if (pid === undefined) return;
    cancelling = background.run("select pg_cancel_backend($1::int)", [pid]).catch(() => {});
  };
  signal.addEventListener("abort", cancel);
  try {
    return await reports.transaction(async (ask) => {
      [{ pid } = { pid: undefined }] = await ask<{ pid: number }>("select pg_backend_pid() as pid");
      signal.throwIfAborted();
      try {
        return await ask<R>(text, values);
      } finally {
        // The connection is kept until then: a late cancel would end somebody else's statement.
        pid = undefined;
        await cancelling;
      }
    });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

/** Drops a day that ended before that time. @returns how many rows it had, at least 1 */
export async function removeLedgerDays(pool: QueryPool, before: number): Promise<number> {
  const [row] = await pool.run<{ lines: number | null }>("select troupe.drop_ledger_day($1::bigint)::float8 as lines", [
    dayOf(before),
  ]);
  const { lines } = row!;
  return lines === null ? 0 : Math.max(1, lines);
}

const groupNames = (by: readonly LedgerGroup[]): string[] => by.map((_, at) => `g${at}`);

const sumOf: Readonly<Record<string, string>> = {
  ...Object.fromEntries(sumColumns.map((name) => [name, `sum(f.${name})`])),
  ...Object.fromEntries(callEnds.map((end) => [end, `sum(case when k.ended = '${end}' then f.calls else 0 end)`])),
  estimated: "sum(case when k.counted = 'estimated' then f.calls else 0 end)",
};

/** The sums of a rollup's facts, one row for each group. */
function sumQuery(
  facts: string,
  rollup: Rollup,
  filter: LedgerFilter,
  by: readonly LedgerGroup[],
  page: Pick<SumsPage, "firstTokens">,
  bound: Bound,
): string {
  const isTagged = by.includes("tag");
  const groups = by.map((name, at) => {
    const time = timeGroups.find((one) => one === name);
    return `${time === undefined ? groupColumn(name, dialect) : times[time]} as g${at}, `;
  });
  const tag = filter.where?.["tag"];
  const { table, of } = dimensionsOf(rollup);
  const sums = sumNames(page).map((name) => `${sumOf[name]} as ${name}`);
  return `select ${groups.join("")}${sums.join(", ")}
    from (${facts}) f join troupe.${table} k on k.dimensions_id = f.dimensions_id ${isTagged ? dialect.withTags : ""}
    where ${of} ${dimensionConditions(filter, dialect, bound)} ${isTagged && tag !== undefined ? `and t.value = ${bound.put(tag)}` : ""}
    ${by.length === 0 ? "" : `group by ${by.map((_, at) => at + 1).join(", ")}`}`;
}

function sumPage(given: LedgerFilter, by: readonly LedgerGroup[], page: SumsPage) {
  const { after, limit } = page;
  const filter = narrowed(given, by, after);
  const bound = new Bound(dialect);
  const parts = partsOf(filter, by).map((part) => {
    const { column, from, to } = part;
    const facts = sumFactsOf(part, dialect, `${column} >= ${bound.put(from)} and ${column} < ${bound.put(to)}`);
    return sumQuery(facts, part.rollup, filter, by, page, bound);
  });
  const summed =
    parts.length === 0
      ? sumQuery(lineFactsOf(dialect, "false"), finest, filter, by, page, bound)
      : parts.join(" union all ");
  const names = groupNames(by).map((name) => `${name} collate "C"`);
  const sums = sumNames(page).map((name) => `coalesce(sum(${name}), 0)::float8 as ${name}`);
  const behind =
    after === undefined || by.length === 0
      ? ""
      : `where (${names.join(", ")}) > (${after.map((value) => bound.put(value)).join(", ")})`;
  const text = `select ${[...groupNames(by), ...sums].join(", ")} from (${summed}) summed ${behind}
    ${names.length === 0 ? "" : `group by ${groupNames(by).join(", ")}`} ${names.length === 0 ? "" : `order by ${names.join(", ")}`} limit ${bound.put(limit)}`;
  return { text, values: bound.values };
}

function linePage(page: LedgerPage) {
  const bound = new Bound(dialect);
  const where = () =>
    `${lineConditions(page, bound)}${page.requestId === undefined ? "" : ` and l.request_id = ${bound.put(page.requestId)}`}`;
  const newest = (from: string) =>
    `select l.* from troupe.ledger l where ${from} order by ${newestFirst} limit ${bound.put(page.limit)}`;
  // Dimensions that fit are asked for their latest lines: no other line is read. They have none after their day.
  const found = isFiltered(page)
    ? `select l.* from troupe.ledger_dimensions k cross join lateral (${newest(`l.dimensions_id = k.dimensions_id and l.at < (k.day + 1) * ${dayMs} and ${where()}`)}) l
       where k.day >= ${bound.put(dayOf(page.since))}${dimensionConditions(page, dialect, bound)} order by ${newestFirst} limit ${bound.put(page.limit)}`
    : newest(where());
  const text = `select ${lineColumns(asNumber)} from (${found}) l join troupe.ledger_dimensions k on k.dimensions_id = l.dimensions_id order by ${newestFirst}`;
  return { text, values: bound.values };
}

/** When the earliest of the lines that one search looks at began; none where it may look at all. */
function edgeOf(page: LedgerPage, most: number) {
  const bound = new Bound(dialect);
  const text = `select l.at::float8 as at from troupe.ledger l where ${lineConditions(page, bound)}
    order by ${newestFirst} offset ${bound.put(most)} limit 1`;
  return { text, values: bound.values };
}

function searchPage(page: LedgerPage) {
  const bound = new Bound(dialect);
  const text = `select ${lineColumns(asNumber)} from troupe.ledger l join troupe.ledger_dimensions k on k.dimensions_id = l.dimensions_id
    where ${lineConditions(page, bound)}${ownConditions(page, bound)}${dimensionConditions(page, dialect, bound)}
    order by ${newestFirst} limit ${bound.put(page.limit)}`;
  return { text, values: bound.values };
}

const asNumber = (column: string) => (ownTexts.includes(column) ? `l.${column}` : `l.${column}::float8 as ${column}`);

/** One of each id: texts that the server can't keep may make two of one, and a statement changes a row once. */
const lastOf = (all: readonly LineDimensions[]) => [...new Map(all.map((one) => [one.id, one])).values()];

const dimensionsRow = ({ id, day, values }: Dimensions) => ({
  dimensions_id: id,
  day,
  ...Object.fromEntries(dimensionColumns.map((column, at) => [column, values[at]])),
});

/** To which dimensions of each rollup lines are added, and those of them that the database may not have, as JSON. */
function groupTexts(dimensions: readonly LineDimensions[]): readonly [all: string, fresh: string] {
  const all = dimensions.flatMap(({ id, groups }) =>
    [...groups, { rollup: finest, id }].map((group) => ({ of: id, rollup: group.rollup.id, dimensions_id: group.id })),
  );
  const fresh = new Map<number, object>();
  for (const { day, values, groups } of dimensions.toSorted((a, b) => a.day - b.day))
    for (const { rollup, id, isNew } of groups)
      if (isNew) fresh.set(id, { rollup: rollup.id, ...dimensionsRow({ id, day, values: knownTo(rollup, values) }) });
  return [JSON.stringify(all), JSON.stringify([...fresh.values()])];
}

const costNames = costColumns.slice(1);

function rowFrom(line: LedgerLine, dimensionsId: number): Row {
  const { tokens, costs } = line;
  return Object.fromEntries([
    ["dimensions_id", dimensionsId],
    // What is left out is null.
    ...ownNames.flatMap((name) => {
      const value = line[name];
      return value === null ? [] : [[ownColumn(name), typeof value === "string" ? keepable(value) : value]];
    }),
    ...tokenKinds.map((name, at) => [tokenColumns[at]!, tokens[name]]),
    ["cost", line.cost],
    ...costKinds.map((name, at) => [costNames[at]!, costs === null ? null : costs[name]]),
  ]) as Row;
}
