/** The ledger in SQLite: a row for each attempt, and each hour's sums. Reads run in slices, so that calls are answered in between. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import { nextSlice } from "../../lib/time/cooperative-scheduling.ts";
import { dayMs, hourMs } from "../../lib/time/duration.ts";
import type {
  FoundLines,
  LedgerFilter,
  LedgerLine,
  LedgerPage,
  LedgerPlace,
  LedgerRepository,
} from "../contract/usage.ts";
import {
  Bound,
  type Dialect,
  dayOf,
  dimensionConditions,
  dimensionsOf,
  isFiltered,
  isSearched,
  lineColumns,
  lineConditions,
  lineFrom,
  maxSearched,
  narrowed,
  newestFirst,
  ownConditions,
  type Part,
  partsOf,
  type Row,
  sumFactsOf,
} from "../sql/ledger-queries.ts";
import { finest, type Rollup, rollups } from "../sql/ledger-rollups.ts";
import type { Synchronous } from "./asynchronous.ts";
import { appending } from "./ledger-append.ts";
import { beforeIds, type LedgerPacks, type PackedSums, type SumsPlace } from "./ledger-packs.ts";
import type { LedgerSums } from "./ledger-sums.ts";
import { LedgerTotals } from "./ledger-totals.ts";
import type { LivenessLock } from "./liveness-lock.ts";

const dialect: Dialect = {
  prefix: "",
  place: (number) => `?${number}`,
  withTags: `cross join json_each(iif(k.tags = '[]', '[""]', k.tags)) t`,
  hasTag: (place) => `exists (select 1 from json_each(k.tags) where value = ${place})`,
  metadata: (key) => `json_extract(k.metadata, '$."${key}"')`,
};

/** @param lock gives this process' lock, which is taken when it is first asked for. @param packs those of `summing` */
export function ledgerRepository(
  database: Database,
  lock: () => LivenessLock,
  summing: LedgerSums,
  packs: LedgerPacks,
): Synchronous<LedgerRepository> & { removeDays(before: number, max: number): number } {
  let append: ReturnType<typeof appending> | undefined;
  const removeLines = database.prepare<unknown, { before: number; max: number }>(
    `delete from ledger where (at, request_id, attempt) in
     (select at, request_id, attempt from ledger where at < $before order by at limit $max)`,
  );
  const removing = (bucket: "hour" | "day") =>
    database.prepare<unknown, [rollup: number, before: number, max: number]>(
      `delete from ledger_${bucket}s where (rollup, ${bucket}, dimensions_id) in
       (select rollup, ${bucket}, dimensions_id from ledger_${bucket}s where rollup = ? and ${bucket} < ? limit ?)`,
    );
  const [removeHours, removeDays] = [removing("hour"), removing("day")];
  const removeDimensions = ["ledger_dimensions", "ledger_groups"].map((table) =>
    database.prepare<unknown, { day: number }>(`delete from ${table} where day < $day`),
  );
  const ownersOf = database.prepare<{ owner: string }, []>("select distinct owner from reservations");
  const linesOf = database.prepare<{ line: string }, { owner: string }>(
    "select line from reservations where owner = $owner limit 10000",
  );
  const note = database.prepare<unknown, Record<string, string | number>>(
    `insert into reservations (request_id, attempt, owner, amount, budgets, line)
     values ($requestId, $attempt, $owner, 0, '[]', $line) on conflict do nothing`,
  );
  const noteAll = database.transaction((owner: string, begun: readonly LedgerLine[]) => {
    for (const line of begun) {
      const { requestId, attempt } = line;
      note.run({ requestId, attempt, owner, line: JSON.stringify(line) });
    }
  });
  return {
    // Made when first needed: its statements take a millisecond, and most commands add nothing.
    append(lines, begun = []) {
      append ??= appending(database, summing);
      if (begun.length > 0) noteAll.immediate(lock().id, begun);
      return append(lines);
    },
    interrupted() {
      const owners = ownersOf.all().filter(({ owner }) => !lock().isAlive(owner));
      return owners.flatMap(({ owner }) =>
        linesOf.all({ owner }).map(({ line }) => ({ owner, line: JSON.parse(line) as LedgerLine })),
      );
    },
    async sums(filter, by, page) {
      summing.addUp();
      const totals = new LedgerTotals(database, dialect, filter, by, page);
      const pause = async () => {
        await nextSlice();
        page.signal?.throwIfAborted();
      };
      for (const part of partsOf(narrowed(filter, by, page.after), by)) {
        const ids = await dimensionsIn(database, part, filter, page.signal);
        const slices = ids === undefined ? slicesOf(database, part, packs, totals.columns) : probesOf(part, ids);
        for (const slice of slices) {
          if (typeof slice === "function") {
            const bound = new Bound(dialect);
            const sql = `select hour, dimensions_id, ${totals.columns.join(", ")} from (${slice(bound)})`;
            totals.add(valuesOf(database, sql, bound) as number[][]);
          } else totals.addPacked(slice.hour, slice.packed);
          await pause();
          if (totals.isFull) await totals.name(part.rollup, pause);
        }
        await totals.name(part.rollup, pause);
      }
      return totals.page();
    },
    lines: (page) => pageOf(database, page),
    async search(page, most = maxSearched) {
      if (!isSearched(page)) return { lines: await pageOf(database, page) };
      const ids =
        isFiltered(page) && page.endedSince === undefined ? await dimensionsWithLines(database, page) : undefined;
      if (ids?.length === 0) return { lines: [] };
      const where: Condition = (bound) =>
        ownConditions(page, bound) +
        (ids === undefined
          ? dimensionConditions(page, dialect, bound)
          : ` and l.dimensions_id in (select value from json_each(${bound.put(JSON.stringify(ids))}))`);
      return searched(database, page, where, most);
    },
    removeDays: (before, max) => {
      const day = dayOf(before);
      const removed = removeLines.run({ before: day * dayMs, max }).changes;
      if (removed > 0) return removed;
      // Sums go once its day's lines are gone, so that all say the same.
      summing.addUp();
      packs.remove(day);
      let sums = 0;
      for (const { id } of rollups) {
        if (sums < max) sums += removeHours.run(id, (day * dayMs) / hourMs, max - sums).changes;
        if (sums < max) sums += removeDays.run(id, day, max - sums).changes;
      }
      if (sums === 0) for (const remove of removeDimensions) remove.run({ day });
      return sums;
    },
  };
}

/** Rows that are looked up in one turn of the event loop: some ten milliseconds. */
const sliceRows = 1000;
/** Rows that are added up in one, as each is read behind the one before. */
const summedRows = 4 * sliceRows;

const valuesOf = (database: Database, sql: string, { values }: Bound): unknown[][] =>
  database.query<SQLQueryBindings[], SQLQueryBindings[]>(sql).values(...values) as unknown[][];

/** Puts the bounds of a slice of a part's facts into a statement. */
type Slice = (bound: Bound) => string;

/** All facts of a part of a question's time: packs of days where there are some, in the order of their rows. @param names of the sums */
function* slicesOf(
  database: Database,
  part: Part,
  packs: LedgerPacks,
  names: readonly string[],
): Iterable<Slice | { readonly hour: number; readonly packed: PackedSums }> {
  const { table, column, rollup } = part;
  // A day or an hour may have many dimensions.
  const place = table === "ledger" ? ["at"] : [column, "dimensions_id"];
  const of = table === "ledger" ? "" : `rollup = ${rollup.id} and `;
  const places = place.join(", ");
  const next = database.query<number[], number[]>(
    `select ${places} from ${table} where ${of}(${places}) > (${place.map(() => "?")}) and (${places}) <= (${place.map(() => "?")})
     order by ${places} limit 1 offset ${summedRows - 1}`,
  );
  // Behind everything before the part.
  const first = table === "ledger" ? [part.from - 1] : [part.from, beforeIds];
  const last = table === "ledger" ? [part.to - 1] : [part.to, beforeIds];
  for (let low: readonly number[] | undefined = first; low; ) {
    const from: readonly number[] = low;
    const packed: SumsPlace | undefined =
      table === "ledger_days" ? packs.nextFrom(rollup, from as SumsPlace, part.to) : undefined;
    const pack = packed?.every((value, at) => value === from[at]) ? packs.read(rollup, packed, names) : undefined;
    if (pack !== undefined) {
      yield { hour: from[0]! * 24, packed: pack.packed };
      low = pack.to;
      continue;
    }
    const until = packed ?? last;
    const end: number[] | undefined = (next.values(...from, ...until) as number[][])[0];
    yield (bound) => {
      const put = (values: readonly number[]) => `(${values.map((value) => bound.put(value)).join(", ")})`;
      return sumFactsOf(part, dialect, `(${places}) > ${put(from)} and (${places}) <= ${put(end ?? until)}`);
    };
    low = end ?? packed;
  }
}

/** The sums of those dimensions, each looked up: all others' rows are not read. */
function* probesOf(part: Part, ids: readonly number[]): Iterable<Slice> {
  const step = Math.max(1, Math.floor(sliceRows / Math.max(1, ids.length)));
  for (let from = part.from; from < part.to; from += step) {
    const buckets = Array.from({ length: Math.min(step, part.to - from) }, (_, at) => from + at);
    const among = (bound: Bound, values: readonly number[]) =>
      `(select value from json_each(${bound.put(JSON.stringify(values))}))`;
    yield (bound) =>
      sumFactsOf(part, dialect, `${part.column} in ${among(bound, buckets)} and dimensions_id in ${among(bound, ids)}`);
  }
}

/** The ids of a part's dimensions that fit; undefined where all sums are wanted, or to look them up takes longer than to read all. */
async function dimensionsIn(
  database: Database,
  part: Part,
  filter: LedgerFilter,
  signal: AbortSignal | undefined,
): Promise<readonly number[] | undefined> {
  if (part.table === "ledger" || !isFiltered(filter)) return undefined;
  const found: number[] = [];
  for (const slice of dimensionSlices(database, part.rollup)) {
    const bound = new Bound(dialect);
    const day = dayOf(filter.since);
    const sql = `select k.dimensions_id from ${slice(bound)} and k.day >= ${bound.put(day)}${dimensionConditions(filter, dialect, bound)}`;
    for (const [id] of valuesOf(database, sql, bound) as [number][]) found.push(id);
    if (found.length * (part.to - part.from) > maxProbes) return undefined;
    await nextSlice();
    signal?.throwIfAborted();
  }
  return found;
}

const maxProbes = 100_000;

/** The dimensions of a rollup, in slices, as the end of a statement that begins with what is selected. */
function* dimensionSlices(database: Database, rollup: Rollup): Iterable<Slice> {
  const { table, of } = dimensionsOf(rollup);
  const next = database.query<[number], [number]>(
    `select k.dimensions_id from ${table} k where ${of} and k.dimensions_id >= ? order by k.dimensions_id limit 1 offset ${sliceRows}`,
  );
  for (let from: number | undefined = 0; from !== undefined; ) {
    const first: number = from;
    const [end]: [number][] = next.values(first) as [number][];
    yield (bound) =>
      `${table} k where ${of} and k.dimensions_id >= ${bound.put(first)}${end === undefined ? "" : ` and k.dimensions_id < ${bound.put(end[0])}`}`;
    from = end?.[0];
  }
}

type Condition = (bound: Bound) => string;

/** @param where beside the page's time and place */
function linesIn(database: Database, page: LedgerPage, where: Condition = () => ""): LedgerLine[] {
  const bound = new Bound(dialect);
  const sql = `select ${lineColumns((column) => `l.${column}`)} from ledger l cross join ledger_dimensions k on k.dimensions_id = l.dimensions_id
    where ${lineConditions(page, bound)}${where(bound)} order by ${newestFirst} limit ${bound.put(page.limit)}`;
  return database
    .query<Row, SQLQueryBindings[]>(sql)
    .all(...bound.values)
    .map(lineFrom);
}

function pageOf(database: Database, page: LedgerPage): Promise<LedgerLine[]> {
  if (page.requestId !== undefined) return linesOfRequest(database, page);
  return isFiltered(page) ? linesByDimensions(database, page) : Promise.resolve(linesIn(database, page));
}

/** As ids have no index: a request's time is known by its id. */
async function linesOfRequest(database: Database, page: LedgerPage): Promise<LedgerLine[]> {
  const where: Condition = (bound) => ` and l.request_id = ${bound.put(page.requestId!)}`;
  return (await searched(database, page, where, Number.POSITIVE_INFINITY)).lines;
}

/** Looks at lines of the time, slice by slice, until the page is full. @param most so many lines */
async function searched(database: Database, page: LedgerPage, where: Condition, most: number): Promise<FoundLines> {
  const sliceSize = Math.min(10 * sliceRows, most);
  const next = database.query<[number], [number, number]>(
    `select at from ledger where at >= ? and at <= ? order by at desc limit 1 offset ${sliceSize}`,
  );
  const lines: LedgerLine[] = [];
  // Lines of the moment in which the page before ended may be left.
  let until = Math.min(page.until, (page.before?.at ?? page.until) + 1);
  for (let looked = 0; looked < most; looked += sliceSize) {
    const [end] = next.values(page.since, until - 1) as [number][];
    const since: number = Math.max(page.since, Math.min(end?.[0] ?? page.since, until - 1));
    lines.push(...linesIn(database, { ...page, since, until, limit: page.limit - lines.length }, where));
    if (end === undefined || lines.length >= page.limit) return { lines };
    until = since;
    await nextSlice();
    page.signal?.throwIfAborted();
  }
  return { lines, reached: until };
}

/** More of them take as long to look up as to join. */
const maxListed = 2_000;

/** The ids of dimensions that fit and have lines in the time, so that not each line's is looked at; undefined where they are many. */
async function dimensionsWithLines(database: Database, page: LedgerPage): Promise<readonly number[] | undefined> {
  const tops = await latestOf(database, page);
  return tops.length > maxListed ? undefined : tops.map(({ id }) => id);
}

type Top = { readonly id: number; readonly at: number };

/** Asks for the latest line of all dimensions that fit, and then those with the latest ones for theirs. */
async function linesByDimensions(database: Database, page: LedgerPage): Promise<LedgerLine[]> {
  const tops = await latestOf(database, page);
  let found: LedgerLine[] = [];
  for (const [number, { id, at }] of tops.entries()) {
    const last = found[page.limit - 1];
    if (last !== undefined && last.at > at) break;
    const own = linesIn(
      database,
      last === undefined ? page : { ...page, since: Math.max(page.since, last.at) },
      (bound) => ` and l.dimensions_id = ${bound.put(id)}`,
    );
    found = [...found, ...own].sort(newerFirst).slice(0, page.limit);
    if (number % 50 === 49) await nextSlice();
    page.signal?.throwIfAborted();
  }
  return found;
}

/** Finds for all dimensions that fit when their latest line before the page's place began, the latest first. */
async function latestOf(database: Database, page: LedgerPage): Promise<Top[]> {
  const upper = Math.min(page.until - 1, page.before?.at ?? page.until);
  const found: Top[] = [];
  for (const slice of dimensionSlices(database, finest)) {
    const bound = new Bound(dialect);
    const latest = `select l.at from ledger l where l.dimensions_id = k.dimensions_id and l.at <= ${bound.put(upper)} order by l.at desc limit 1`;
    const sql = `select k.dimensions_id, (${latest}) from ${slice(bound)} and k.day >= ${bound.put(dayOf(page.since))}${dimensionConditions(page, dialect, bound)}`;
    for (const [id, at] of valuesOf(database, sql, bound) as [number, number | null][])
      if (at !== null && at >= page.since) found.push({ id, at });
    await nextSlice();
    page.signal?.throwIfAborted();
  }
  return found.sort((a, b) => b.at - a.at);
}

function newerFirst(a: LedgerPlace, b: LedgerPlace): number {
  return b.at - a.at || (a.requestId < b.requestId ? 1 : a.requestId > b.requestId ? -1 : b.attempt - a.attempt);
}
