/** Appends to the ledger in SQLite: many lines by one statement, and each day's sums, which grow in the same transaction. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import { snakeCaseNumbered } from "../../lib/snake-case.ts";
import { isAlike, sharedNames } from "../alike-lines.ts";
import { costColumns, dayMs, dimensions, sumColumns, tokenColumns } from "../ledger-columns.ts";
import { callEnds, costKinds, type LedgerLine, tokenKinds } from "../store.ts";
import { type UnreservedCost, unreservedCosts } from "../unreserved.ts";

const ownNames = ["requestId", "attempt", "at", "status", "firstTokenMs", "totalMs"] as const;
const ownColumns = [...ownNames.map(snakeCaseNumbered), ...tokenColumns, "cost", ...costColumns];

/** A line's parts that have a column of their own, beside its tokens and costs. */
export const names = [...sharedNames, ...ownNames] as const;
export const columns = [...sharedNames.map(snakeCaseNumbered), ...ownColumns];

/** What nearly all lines have nothing of: where all are 0, it is written into the statement, which takes half as long. */
const rareColumns = new Set([
  ...tokenColumns.filter((name) => name !== "input_tokens" && name !== "output_tokens"),
  ...costColumns.filter((name) => name !== "input_cost" && name !== "output_cost"),
]);
const givenColumns = ownColumns.filter((name) => !rareColumns.has(name));

/** Lines of one statement: the most that are left, again and again. One by one each costs a third more. */
const statementSizes = [16, 4, 1];

/** Bun takes all values as one list too, which its types do not say: one by one, they are copied into several. */
type Insert = {
  readonly size: number;
  readonly insert: { run(values: readonly SQLQueryBindings[]): { readonly changes: number } };
};

/** The values that all its lines share have the first places, and are given once. @param given of each line; others are 0 */
function insertOf(database: Database, size: number, given: readonly string[]): Insert {
  const shared = sharedNames.map((_, at) => `?${at + 1}`);
  const rows = Array.from({ length: size }, (_, line) => {
    const first = sharedNames.length + line * given.length + 1;
    const own = ownColumns.map((name) => (given.includes(name) ? `?${first + given.indexOf(name)}` : "0"));
    return `(${[...shared, ...own].join(", ")})`;
  });
  const sql = `insert into ledger (${columns.join(", ")}) values ${rows.join(", ")} on conflict do nothing`;
  return { size, insert: database.prepare(sql) as unknown as Insert["insert"] };
}

/** Thrown where a line of a batch is there already: nothing of it is kept, and its lines are added one by one. */
const knownLine = new Error("a line is there already");

/** @returns what appends lines that are not there, tells how many those were, and throws SQLite's errors */
export function appending(database: Database): (lines: readonly LedgerLine[]) => number {
  const inserts = {
    common: statementSizes.map((size) => insertOf(database, size, givenColumns)),
    any: statementSizes.map((size) => insertOf(database, size, ownColumns)),
  };
  const insertOne = inserts.any.at(-1)!.insert;
  const key = ["day", ...dimensions];
  const add = database.prepare<unknown, SQLQueryBindings[]>(
    `insert into ledger_days (${[...key, ...sumColumns].join(", ")}) values (${[...key, ...sumColumns].map(() => "?").join(", ")})
     on conflict (${key.join(", ")}) do update set ${sumColumns.map((name) => `${name} = ${name} + excluded.${name}`).join(", ")}`,
  );
  const hasSpending = database.prepare("select 1 from spending where span <> 'prepaid' limit 1");
  const spend = database.prepare<unknown, UnreservedCost>(
    "update spending set spent = spent + $cost where scope = $scope and span = $span",
  );
  const addUp = (groups: readonly Group[]) => {
    for (const { key: named, sums } of sumsOf(groups)) add.run(...named, ...sums);
    if (hasSpending.get() === null) return;
    for (const cost of costsOf(groups.flatMap(({ lines }) => lines))) spend.run(cost);
  };
  const appendNew = database.transaction((lines: readonly LedgerLine[]) => {
    const groups = groupsOf(lines);
    for (const group of groups) insertGroup(group.isCommon ? inserts.common : inserts.any, group);
    addUp(groups);
    return lines.length;
  });
  const appendMissing = database.transaction((lines: readonly LedgerLine[]) => {
    const missing = lines.filter((line) => {
      const values = sharedOf(line);
      pushAll(values, line);
      return insertOne.run(values).changes > 0;
    });
    addUp(groupsOf(missing));
    return missing.length;
  });
  return (lines) => {
    if (lines.length === 0) return 0;
    try {
      return appendNew.immediate(lines);
    } catch (error) {
      if (error !== knownLine) throw error;
      return appendMissing.immediate(lines);
    }
  };
}

/** @throws knownLine */
function insertGroup(inserts: readonly Insert[], { isCommon, shared, lines }: Group): void {
  const push = isCommon ? pushGiven : pushAll;
  let at = 0;
  for (const { size, insert } of inserts) {
    for (; lines.length - at >= size; at += size) {
      const values = shared.slice();
      for (let next = at; next < at + size; next++) push(values, lines[next]!);
      if (insert.run(values).changes < size) throw knownLine;
    }
  }
}

/** Lines that differ in their own columns alone; `isCommon`: none has anything in the rare ones. */
type Group = {
  readonly isCommon: boolean;
  readonly shared: readonly SQLQueryBindings[];
  readonly lines: LedgerLine[];
};

/** Compares each line with each group: a batch is bounded, and has few of them. */
function groupsOf(lines: readonly LedgerLine[]): Group[] {
  const groups: Group[] = [];
  for (const line of lines) {
    const isCommon = hasNothingRare(line);
    const group = groups.find((one) => one.isCommon === isCommon && isAlike(one.lines[0]!, line));
    if (group === undefined) groups.push({ isCommon, shared: sharedOf(line), lines: [line] });
    else group.lines.push(line);
  }
  return groups;
}

function hasNothingRare({ tokens, costs }: LedgerLine): boolean {
  if (costs === null) return false;
  for (const kind of tokenKinds) if (tokens[kind] !== 0 && kind !== "input" && kind !== "output") return false;
  for (const kind of costKinds) if (costs[kind] !== 0 && kind !== "input" && kind !== "output") return false;
  return true;
}

/** In the order of `sharedNames`. */
function sharedOf(line: LedgerLine): SQLQueryBindings[] {
  return [
    line.keyId,
    line.tags.length === 0 ? "[]" : JSON.stringify(line.tags),
    line.surface,
    line.format,
    line.model,
    line.persona,
    line.provider,
    line.upstreamModel,
    line.personaVersion,
    line.ended,
    line.callOf,
    line.serviceTier,
    line.counted,
    line.priceSource,
    line.priceDate,
    line.priceNote,
  ];
}

/** In the order of `givenColumns`. */
function pushGiven(values: SQLQueryBindings[], line: LedgerLine): void {
  const { tokens, costs } = line;
  values.push(line.requestId, line.attempt, line.at, line.status, line.firstTokenMs, line.totalMs);
  values.push(tokens.input, tokens.output, line.cost, costs!.input, costs!.output);
}

/** In the order of `ownColumns`. */
function pushAll(values: SQLQueryBindings[], line: LedgerLine): void {
  const { tokens, costs } = line;
  values.push(line.requestId, line.attempt, line.at, line.status, line.firstTokenMs, line.totalMs);
  for (const kind of tokenKinds) values.push(tokens[kind]);
  values.push(line.cost);
  for (const kind of costKinds) values.push(costs === null ? null : costs[kind]);
}

/** `key` is the day and its dimensions, `sums` are in the order of `sumColumns`. */
type DaySum = { readonly key: (string | number)[]; readonly sums: number[] };

/** Adds up what goes to the same row, so that a batch of like calls writes it once. */
function sumsOf(groups: readonly Group[]): Iterable<DaySum> {
  const found = new Map<string, DaySum>();
  for (const { shared, lines } of groups) {
    // What tells sums apart comes first of what lines share, and there no name is an empty one.
    const named = shared.slice(0, dimensions.length).map((value) => (value ?? "") as string);
    let day = Number.NaN;
    let sum: DaySum | undefined;
    for (const line of lines) {
      const own = Math.floor(line.at / dayMs);
      if (own !== day) {
        day = own;
        const id = [day, ...named].join("\0");
        sum = found.get(id);
        if (sum === undefined) {
          sum = { key: [day, ...named], sums: sumColumns.map(() => 0) };
          found.set(id, sum);
        }
      }
      addTo(sum!.sums, line);
    }
  }
  return found.values();
}

/** In the order of `sumColumns`. */
function addTo(sums: number[], { ended, cost, costs, counted, tokens }: LedgerLine): void {
  let at = 0;
  sums[at++]! += 1;
  sums[at + callEnds.indexOf(ended)]! += 1;
  at += callEnds.length;
  if (cost === null) sums[at]! += 1;
  at += 1;
  if (counted === "estimated") sums[at]! += 1;
  at += 1;
  for (const kind of tokenKinds) sums[at++]! += tokens[kind];
  sums[at++]! += cost ?? 0;
  if (costs !== null) for (const kind of costKinds) sums[at++]! += costs[kind];
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
