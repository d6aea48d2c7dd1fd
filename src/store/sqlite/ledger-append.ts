/** Appends to the ledger in SQLite: many lines by one statement, and each hour's sums, which grow in the same transaction. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import {
  costColumns,
  firstTokenBounds,
  hourMs,
  kindColumns,
  ownColumns,
  spanSums,
  tokenColumns,
} from "../ledger-columns.ts";
import { groupedByKind, type Kind, KnownKinds, kindValues } from "../ledger-kinds.ts";
import { type Appended, costKinds, type LedgerLine } from "../usage.ts";
import { settling } from "./call-settlement.ts";
import { countingVariants } from "./variant-counts.ts";

/** Columns that lines usually fill. The others are rare: where all are 0, or no text, it is written into the statement, which takes half as long. */
const usual = ["input_tokens", "output_tokens", "cost", "input_cost", "output_cost"];
const rareColumns = new Set(["error_text", ...tokenColumns, ...costColumns].filter((name) => !usual.includes(name)));
const givenColumns = ownColumns.filter((name) => !rareColumns.has(name));

/** Lines of one statement: the most that are left, again and again. One by one each costs a third more. */
const statementSizes = [16, 4, 1];

/** Bun takes all values as one list too, which its types do not say: one by one, they are copied into several. */
type Insert = {
  readonly size: number;
  readonly insert: { run(values: readonly SQLQueryBindings[]): { readonly changes: number } };
};

/** @param given of each line, behind its kind; others are 0, or null */
function insertOf(database: Database, size: number, given: readonly string[]): Insert {
  const nothing = (name: string) => (name === "error_text" ? "null" : "0");
  const row = `(?, ${ownColumns.map((name) => (given.includes(name) ? "?" : nothing(name))).join(", ")})`;
  const rows = Array<string>(size).fill(row);
  const sql = `insert into ledger (kind, ${ownColumns.join(", ")}) values ${rows.join(", ")} on conflict do nothing`;
  return { size, insert: database.prepare(sql) as unknown as Insert["insert"] };
}

/** Thrown where a line of a batch is there already: nothing of it is kept, and the others are added without it. */
const knownLine = new Error("a line is there already");

/** @returns what appends lines that are not there, settles their calls, and throws SQLite's errors */
export function appending(database: Database): (lines: readonly LedgerLine[]) => Appended {
  const inserts = {
    common: statementSizes.map((size) => insertOf(database, size, givenColumns)),
    any: statementSizes.map((size) => insertOf(database, size, ownColumns)),
  };
  const salt = database
    .query<{ value: number }, []>("select value from generations where name = 'ledger'")
    .get()!.value;
  const kinds = new KnownKinds(salt);
  const addKind = database.prepare<unknown, SQLQueryBindings[]>(
    `insert into ledger_kinds (kind, day, ${kindColumns.join(", ")}) values (?, ?, ${kindColumns.map(() => "?").join(", ")})
     on conflict (kind) do update set day = excluded.day where excluded.day > day`,
  );
  const adding = (table: string, span: string) => {
    const columns = [span, "kind", ...spanSums];
    return database.prepare<unknown, SQLQueryBindings[]>(
      `insert into ${table} (${columns.join(", ")}) values (${columns.map(() => "?").join(", ")})
       on conflict (${span}, kind) do update set ${spanSums.map((name) => `${name} = ${name} + excluded.${name}`).join(", ")}`,
    );
  };
  const addHour = adding("ledger_hours", "hour");
  const addDay = adding("ledger_days", "day");
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
    const [common, rare]: [Rows, Rows] = [
      { kinds: [], lines: [] },
      { kinds: [], lines: [] },
    ];
    for (const { kind, lines } of groups) {
      for (const line of lines) {
        const rows = hasNothingRare(line) ? common : rare;
        rows.kinds.push(kind.kind);
        rows.lines.push(line);
      }
    }
    insertAll(inserts.common, common, pushGiven);
    insertAll(inserts.any, rare, pushAll);
    for (const { kind } of groups) if (kind.isNew) addKind.run(kind.kind, kind.day, ...kind.values);
    const hours = sumsOf(groups);
    for (const { span, kind, sums } of hours) addHour.run(span, kind, ...sums);
    for (const { span, kind, sums } of daysOf(hours)) addDay.run(span, kind, ...sums);
    return { groups, appended: { added: all.length, spending: settle(all, known), stopped: countVariants(all) } };
  });
  return (lines) => {
    if (lines.length === 0) return { added: 0, spending: [] };
    for (let parts = new Map([[false, lines]]); ; parts = parted(lines)) {
      try {
        const { groups, appended } = appendAll.immediate(parts.get(false) ?? [], parts.get(true) ?? []);
        for (const { kind } of groups) if (kind.isNew) kinds.learn(kind);
        return appended;
      } catch (error) {
        if (error !== knownLine) throw error;
      }
    }
  };
}

/** Lines, and the kind of each. */
type Rows = { readonly kinds: number[]; readonly lines: LedgerLine[] };

/** @throws knownLine */
function insertAll(
  inserts: readonly Insert[],
  { kinds, lines }: Rows,
  push: (values: SQLQueryBindings[], line: LedgerLine) => void,
): void {
  let at = 0;
  for (const { size, insert } of inserts) {
    for (; lines.length - at >= size; at += size) {
      const values: SQLQueryBindings[] = [];
      for (let next = at; next < at + size; next++) {
        values.push(kinds[next]!);
        push(values, lines[next]!);
      }
      if (insert.run(values).changes < size) throw knownLine;
    }
  }
}

/** Lines of one kind. */
type Group = { readonly kind: Kind & { readonly isNew: boolean }; readonly lines: readonly LedgerLine[] };

/** Written out, as it runs for every call. */
function hasNothingRare({ tokens, costs, errorText }: LedgerLine): boolean {
  return (
    costs !== null &&
    errorText === null &&
    tokens.cacheRead === 0 &&
    tokens.cacheWrite5m === 0 &&
    tokens.cacheWrite1h === 0 &&
    tokens.reasoning === 0 &&
    tokens.audioInput === 0 &&
    tokens.audioOutput === 0 &&
    costs.cacheRead === 0 &&
    costs.cacheWrite === 0 &&
    costs.reasoning === 0 &&
    costs.audioInput === 0 &&
    costs.audioOutput === 0 &&
    costs.other === 0
  );
}

/** In the order of `givenColumns`. Written out, as it runs for every call. */
function pushGiven(values: SQLQueryBindings[], line: LedgerLine): void {
  const { tokens, costs } = line;
  values.push(line.at, line.requestId, line.attempt, line.callOf, line.status, line.firstTokenMs, line.totalMs);
  values.push(tokens.input, tokens.output, line.cost, costs!.input, costs!.output);
}

/** In the order of `ownColumns`. Written out, as most calls of agents have cached tokens. */
function pushAll(values: SQLQueryBindings[], line: LedgerLine): void {
  const { tokens, costs } = line;
  values.push(line.at, line.requestId, line.attempt, line.callOf, line.status, line.firstTokenMs, line.totalMs);
  values.push(line.errorText);
  values.push(tokens.input, tokens.cacheRead, tokens.cacheWrite5m, tokens.cacheWrite1h, tokens.output);
  values.push(tokens.reasoning, tokens.audioInput, tokens.audioOutput, line.cost);
  if (costs === null) {
    for (let kind = 0; kind < costKinds.length; kind++) values.push(null);
    return;
  }
  values.push(costs.input, costs.cacheRead, costs.cacheWrite, costs.output, costs.reasoning);
  values.push(costs.audioInput, costs.audioOutput, costs.other);
}

/** `sums` are in the order of `spanSums`. */
type SpanSum = { readonly span: number; readonly kind: number; readonly sums: readonly number[] };

/** Adds up what goes to the same row, so that a batch of like calls writes it once. */
function sumsOf(groups: readonly Group[]): SpanSum[] {
  const found = new Map<string, SpanSum & { readonly sums: number[] }>();
  for (const { kind, lines } of groups) {
    let hour = Number.NaN;
    let sum: (SpanSum & { readonly sums: number[] }) | undefined;
    for (const line of lines) {
      const own = Math.floor(line.at / hourMs);
      if (own !== hour) {
        hour = own;
        const id = `${hour} ${kind.kind}`;
        sum = found.get(id);
        if (sum === undefined) {
          sum = { span: hour, kind: kind.kind, sums: spanSums.map(() => 0) };
          found.set(id, sum);
        }
      }
      addTo(sum!.sums, line);
    }
  }
  return [...found.values()];
}

/** Nearly always each hour's sums are their day's, as a batch has the lines of a second. */
function daysOf(hours: readonly SpanSum[]): Iterable<SpanSum> {
  const found = new Map<string, SpanSum>();
  for (const { span, kind, sums } of hours) {
    const day = Math.floor(span / 24);
    const id = `${day} ${kind}`;
    const known = found.get(id)?.sums;
    found.set(id, { span: day, kind, sums: known === undefined ? sums : sums.map((value, at) => value + known[at]!) });
  }
  return found.values();
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
