/** Appends to the ledger in SQLite: many lines by one statement, and what they add to the sums in the same transaction. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import { firstTokenBounds } from "../../api/words.ts";
import { hourMs } from "../../lib/time/duration.ts";
import type { Appended, LedgerLine } from "../contract/usage.ts";
import { dimensionColumns, ownColumns, sumColumns } from "../ledger/columns.ts";
import { dimensionValues, groupedByDimensions, KnownDimensions, type LineDimensions } from "../ledger/dimensions.ts";
import { knownTo } from "../sql/ledger-rollups.ts";
import { settling } from "./call-settlement.ts";
import { type Increment, inserting, type LedgerSums } from "./ledger-sums.ts";
import { countingVariants } from "./variant-counts.ts";

/** Thrown where a line of a batch is there already: nothing of it is kept, and the others are added without it. */
const knownLine = new Error("a line is there already");

/** @returns what appends lines that are not there, settles their calls, and throws SQLite's errors */
export function appending(database: Database, sums: LedgerSums): (lines: readonly LedgerLine[]) => Appended {
  const insert = inserting(database, "ledger", ["dimensions_id", ...ownColumns], "on conflict do nothing");
  const insertAll = (groups: readonly Group[]) => {
    const rows = groups.flatMap(({ dimensions, lines }) => lines.map((line) => [dimensions.id, line] as const));
    if (insert(rows, (values, [id, line]) => pushValues(values, id, line)) < rows.length) throw knownLine;
  };
  const salt = database
    .query<{ value: number }, []>("select value from generations where name = 'ledger'")
    .get()!.value;
  const known = new KnownDimensions(salt);
  const addDimensions = addingDimensions(database, "ledger_dimensions", ["dimensions_id"]);
  const addGroup = addingDimensions(database, "ledger_groups", ["dimensions_id", "rollup"]);
  const addNew = ({ id, day, values, isNew, groups }: LineDimensions) => {
    if (isNew) addDimensions.run(id, day, ...values);
    for (const group of groups)
      if (group.isNew) addGroup.run(group.id, group.rollup.id, day, ...knownTo(group.rollup, values));
  };
  const settle = settling(database);
  const countVariants = countingVariants(database);
  const groupsOf = (lines: readonly LedgerLine[]) =>
    groupedByDimensions(lines).map((own): Group => {
      // The latest, so that the database knows the dimensions for all of their days.
      const latest = own.reduce((a, b) => (b.at > a.at ? b : a));
      return { dimensions: known.find(latest, dimensionValues(latest)), lines: own };
    });
  const isThere = database.prepare<unknown, [number, string, number]>(
    "select 1 from ledger where at = ? and request_id = ? and attempt = ?",
  );
  /** Known are those that are there already, or stand twice among the lines. */
  const parted = (lines: readonly LedgerLine[]) => {
    const seen = new Set<string>();
    return Map.groupBy(lines, ({ at, requestId, attempt }) => {
      const id = `${requestId} ${attempt}`;
      const isKnown = seen.has(id) || isThere.get(at, requestId, attempt) !== null;
      seen.add(id);
      return isKnown;
    });
  };
  const appendAll = database.transaction((all: readonly LedgerLine[], known: readonly LedgerLine[]) => {
    const groups = groupsOf(all);
    insertAll(groups);
    for (const { dimensions } of groups) addNew(dimensions);
    sums.note(incrementsOf(groups));
    return { groups, appended: { added: all.length, spending: settle(all, known), stopped: countVariants(all) } };
  });
  return (lines) => {
    if (lines.length === 0) return { added: 0, spending: [] };
    for (let parts = new Map([[false, lines]]); ; parts = parted(lines)) {
      try {
        const { groups, appended } = appendAll.immediate(parts.get(false) ?? [], parts.get(true) ?? []);
        for (const { dimensions } of groups) known.learn(dimensions);
        return appended;
      } catch (error) {
        if (error !== knownLine) throw error;
      }
    }
  };
}

type Group = { readonly dimensions: LineDimensions; readonly lines: readonly LedgerLine[] };

/** The id of its dimensions and, in the order of `ownColumns`, the line. Written out, as it runs for every call. */
function pushValues(values: SQLQueryBindings[], dimensionsId: number, line: LedgerLine): void {
  const { tokens, costs } = line;
  values.push(
    dimensionsId,
    line.at,
    line.requestId,
    line.attempt,
    line.callOf,
    line.status,
    line.firstTokenMs,
    line.totalMs,
  );
  values.push(line.errorText);
  values.push(tokens.input, tokens.cacheRead, tokens.cacheWrite5m, tokens.cacheWrite1h, tokens.output);
  values.push(tokens.reasoning, tokens.audioInput, tokens.audioOutput, line.cost);
  values.push(costs?.input ?? null, costs?.cacheRead ?? null, costs?.cacheWrite ?? null, costs?.output ?? null);
  values.push(costs?.reasoning ?? null, costs?.audioInput ?? null, costs?.audioOutput ?? null, costs?.other ?? null);
}

/** Dimensions of one of the two tables; those that are there get the later day. */
function addingDimensions(database: Database, table: string, key: readonly string[]) {
  const columns = [...key, "day", ...dimensionColumns];
  return database.prepare<unknown, SQLQueryBindings[]>(
    `insert into ${table} (${columns.join(", ")}) values (${columns.map(() => "?").join(", ")})
     on conflict (${key.join(", ")}) do update set day = excluded.day where excluded.day > day`,
  );
}

/** What is added to the sums: one for each hour of lines of like dimensions. */
function incrementsOf(groups: readonly Group[]): Increment[] {
  const found: Increment[] = [];
  for (const { dimensions, lines } of groups)
    for (const [hour, own] of Map.groupBy(lines, ({ at }) => Math.floor(at / hourMs))) {
      const sums = sumColumns.map(() => 0);
      for (const line of own) addTo(sums, line);
      found.push({ hour, ids: [...dimensions.groups.map((group) => group.id), dimensions.id], sums });
    }
  return found;
}

const firstTokensAt = sumColumns.length - firstTokenBounds.length - 1;

function firstTokenSpan(ms: number): number {
  let at = 0;
  while (at < firstTokenBounds.length && ms > firstTokenBounds[at]!) at++;
  return firstTokensAt + at;
}

/** In the order of `sumColumns`. Written out, as it runs for every call. */
function addTo(sums: number[], { cost, costs, tokens, firstTokenMs }: LedgerLine): void {
  sums[0]! += 1;
  sums[1]! += cost === null ? 1 : 0;
  sums[2]! += tokens.input;
  sums[3]! += tokens.cacheRead;
  sums[4]! += tokens.cacheWrite5m;
  sums[5]! += tokens.cacheWrite1h;
  sums[6]! += tokens.output;
  sums[7]! += tokens.reasoning;
  sums[8]! += tokens.audioInput;
  sums[9]! += tokens.audioOutput;
  sums[10]! += cost ?? 0;
  if (firstTokenMs !== null) sums[firstTokenSpan(firstTokenMs)]! += 1;
  if (costs === null) return;
  sums[11]! += costs.input;
  sums[12]! += costs.cacheRead;
  sums[13]! += costs.cacheWrite;
  sums[14]! += costs.output;
  sums[15]! += costs.reasoning;
  sums[16]! += costs.audioInput;
  sums[17]! += costs.audioOutput;
  sums[18]! += costs.other;
}
