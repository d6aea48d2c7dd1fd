/** Appends to the ledger in SQLite: many lines by one statement, and each hour's sums, which grow in the same transaction. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import { firstTokenBounds } from "../../api/words.ts";
import { hourMs, kindColumns, ownColumns, spanSums } from "../ledger-columns.ts";
import { groupedByKind, KnownKinds, kindValues, type LineKind } from "../ledger-kinds.ts";
import { finest, knownTo, type Rollup } from "../ledger-rollups.ts";
import type { Appended, LedgerLine } from "../usage.ts";
import { settling } from "./call-settlement.ts";
import { countingVariants } from "./variant-counts.ts";

/** Lines of one statement, as many as there are of them; one by one each costs a third more. */
const together = 16;

/** Bun takes all values as one list too, which its types do not say: one by one, they are copied into several. */
type Insert = { run(values: readonly SQLQueryBindings[]): { readonly changes: number } };

function insertOf(database: Database, lines: number): Insert {
  const row = `(?, ${ownColumns.map(() => "?").join(", ")})`;
  const rows = Array<string>(lines).fill(row);
  const sql = `insert into ledger (kind, ${ownColumns.join(", ")}) values ${rows.join(", ")} on conflict do nothing`;
  return database.prepare(sql) as unknown as Insert;
}

/** Thrown where a line of a batch is there already: nothing of it is kept, and the others are added without it. */
const knownLine = new Error("a line is there already");

/** @returns what appends lines that are not there, settles their calls, and throws SQLite's errors */
export function appending(database: Database): (lines: readonly LedgerLine[]) => Appended {
  const insertMany = insertOf(database, together);
  const insertOne = insertOf(database, 1);
  const insertAll = (groups: readonly Group[]) => {
    const rows = groups.flatMap(({ kind, lines }) => lines.map((line) => [kind.kind, line] as const));
    for (let at = 0; at < rows.length; ) {
      const size = rows.length - at >= together ? together : 1;
      const values: SQLQueryBindings[] = [];
      for (const [kind, line] of rows.slice(at, at + size)) pushValues(values, kind, line);
      if ((size === 1 ? insertOne : insertMany).run(values).changes < size) throw knownLine;
      at += size;
    }
  };
  const salt = database
    .query<{ value: number }, []>("select value from generations where name = 'ledger'")
    .get()!.value;
  const kinds = new KnownKinds(salt);
  const addKind = addingKinds(database, "ledger_kinds", ["kind"]);
  const addGroup = addingKinds(database, "ledger_groups", ["kind", "rollup"]);
  const addNew = ({ kind, day, values, isNew, groups }: LineKind) => {
    if (isNew) addKind.run(kind, day, ...values);
    for (const group of groups)
      if (group.isNew) addGroup.run(group.kind, group.rollup.id, day, ...knownTo(group.rollup, values));
  };
  const addHour = addingSums(database, "hour");
  const addDay = addingSums(database, "day");
  const settle = settling(database);
  const countVariants = countingVariants(database);
  const groupsOf = (lines: readonly LedgerLine[]) =>
    groupedByKind(lines).map((own): Group => {
      // The latest, so that the database knows the kind for all of its days.
      const latest = own.reduce((a, b) => (b.at > a.at ? b : a));
      return { kind: kinds.find(latest, kindValues(latest)), lines: own };
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
    for (const { kind } of groups) addNew(kind);
    const hours = hoursOf(groups);
    addHour(rolledUp(hours, ({ hasHours }) => hasHours));
    const days = hours.map((sum) => ({ ...sum, span: Math.floor(sum.span / 24) }));
    addDay(rolledUp(days, () => true));
    return { groups, appended: { added: all.length, spending: settle(all, known), stopped: countVariants(all) } };
  });
  return (lines) => {
    if (lines.length === 0) return { added: 0, spending: [] };
    for (let parts = new Map([[false, lines]]); ; parts = parted(lines)) {
      try {
        const { groups, appended } = appendAll.immediate(parts.get(false) ?? [], parts.get(true) ?? []);
        for (const { kind } of groups) kinds.learn(kind);
        return appended;
      } catch (error) {
        if (error !== knownLine) throw error;
      }
    }
  };
}

/** Lines of one kind. */
type Group = { readonly kind: LineKind; readonly lines: readonly LedgerLine[] };

/** The kind and, in the order of `ownColumns`, the line. Written out, as it runs for every call. */
function pushValues(values: SQLQueryBindings[], kind: number, line: LedgerLine): void {
  const { tokens, costs } = line;
  values.push(kind, line.at, line.requestId, line.attempt, line.callOf, line.status, line.firstTokenMs, line.totalMs);
  values.push(line.errorText);
  values.push(tokens.input, tokens.cacheRead, tokens.cacheWrite5m, tokens.cacheWrite1h, tokens.output);
  values.push(tokens.reasoning, tokens.audioInput, tokens.audioOutput, line.cost);
  values.push(costs?.input ?? null, costs?.cacheRead ?? null, costs?.cacheWrite ?? null, costs?.output ?? null);
  values.push(costs?.reasoning ?? null, costs?.audioInput ?? null, costs?.audioOutput ?? null, costs?.other ?? null);
}

/** Kinds of one of the two tables; one that is there gets the later day. */
function addingKinds(database: Database, table: string, key: readonly string[]) {
  const columns = [...key, "day", ...kindColumns];
  return database.prepare<unknown, SQLQueryBindings[]>(
    `insert into ${table} (${columns.join(", ")}) values (${columns.map(() => "?").join(", ")})
     on conflict (${key.join(", ")}) do update set day = excluded.day where excluded.day > day`,
  );
}

/** Sums of a span and a kind of lines, in the order of `spanSums`. */
type KindSum = { readonly span: number; readonly kind: LineKind; readonly sums: number[] };
/** The same of a rollup's kind. */
type RollupSum = {
  readonly rollup: number;
  readonly span: number;
  readonly kind: number;
  readonly sums: readonly number[];
};

function addingSums(database: Database, span: "hour" | "day"): (sums: readonly RollupSum[]) => void {
  const columns = ["rollup", span, "kind", ...spanSums];
  const row = `(${columns.map(() => "?").join(", ")})`;
  const statementOf = (rows: number) =>
    database.prepare(
      `insert into ledger_${span}s (${columns.join(", ")}) values ${Array(rows).fill(row).join(", ")}
       on conflict (rollup, ${span}, kind) do update set ${spanSums.map((name) => `${name} = ${name} + excluded.${name}`).join(", ")}`,
    ) as unknown as Insert;
  const [addMany, addOne] = [statementOf(together), statementOf(1)];
  return (all) => {
    for (let at = 0; at < all.length; ) {
      const size = all.length - at >= together ? together : 1;
      const values: number[] = [];
      for (const { rollup, span: of, kind, sums } of all.slice(at, at + size)) values.push(rollup, of, kind, ...sums);
      (size === 1 ? addOne : addMany).run(values);
      at += size;
    }
  };
}

function hoursOf(groups: readonly Group[]): KindSum[] {
  const found: KindSum[] = [];
  for (const { kind, lines } of groups)
    for (const [span, own] of Map.groupBy(lines, ({ at }) => Math.floor(at / hourMs))) {
      const sums = spanSums.map(() => 0);
      for (const line of own) addTo(sums, line);
      found.push({ span, kind, sums });
    }
  return found;
}

/** Adds up what goes to the same row of a rollup, so that a batch of like calls writes it once. */
function rolledUp(all: readonly KindSum[], isKept: (rollup: Rollup) => boolean): RollupSum[] {
  const found: RollupSum[] = [];
  for (const [span, own] of Map.groupBy(all, (sum) => sum.span)) {
    // No two rollups have kinds of one number.
    const known = new Map<number, number[]>();
    const add = ({ id }: Rollup, kind: number, sums: readonly number[]) => {
      const into = known.get(kind);
      if (into === undefined) {
        const fresh = sums.slice();
        known.set(kind, fresh);
        found.push({ rollup: id, span, kind, sums: fresh });
      } else for (let at = 0; at < sums.length; at++) into[at]! += sums[at]!;
    };
    for (const { kind, sums } of own) {
      for (const group of kind.groups) if (isKept(group.rollup)) add(group.rollup, group.kind, sums);
      add(finest, kind.kind, sums);
    }
  }
  return found;
}

const firstTokensAt = spanSums.length - firstTokenBounds.length - 1;

function firstTokenSpan(ms: number): number {
  let at = 0;
  while (at < firstTokenBounds.length && ms > firstTokenBounds[at]!) at++;
  return firstTokensAt + at;
}

/** In the order of `spanSums`. Written out, as it runs for every call. */
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
