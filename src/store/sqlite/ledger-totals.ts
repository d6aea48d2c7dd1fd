/**
 * Adds up what a question to the ledger asks for. The rows of sums are added here by their kinds' numbers, and only those kinds are named:
 * SQLite sorts rows to group them, which takes it several times as long as to read them.
 */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import { callEnds } from "../../api/words.ts";
import { hourMs } from "../../lib/time/duration.ts";
import { firstTokenColumns, sumColumns, timeGroups } from "../ledger-columns.ts";
import { Bound, type Dialect, groupColumn, kindConditions, kindsOf, sumFrom, sumNames } from "../ledger-queries.ts";
import type { Rollup } from "../ledger-rollups.ts";
import type { LedgerFilter, LedgerGroup, LedgerSum, SumsPage } from "../usage.ts";

type Value = string | number | null;

/** What one kind of lines has in one of the question's times. */
type KindSums = {
  readonly kind: number;
  /** For each group that is a time, its text. */
  readonly times: readonly (string | undefined)[];
  readonly sums: number[];
};

/** Kinds whose sums are held before they are named: some 4 MB. */
const maxHeld = 16_000;
/** Kinds that are looked up in one turn of the event loop: some ten milliseconds. */
const namedTogether = 2_000;

/** Characters of a time in ISO 8601 that say which month, day or hour it is. */
const timeLengths: Readonly<Record<(typeof timeGroups)[number], number>> = { month: 7, day: 10, hour: 13 };
const timeText = (name: LedgerGroup, iso: string): string | undefined => {
  const time = timeGroups.find((one) => one === name);
  return time && iso.slice(0, timeLengths[time]) + (time === "hour" ? ":00Z" : "");
};

const isTime = (name: LedgerGroup): boolean => timeText(name, "") !== undefined;

export class LedgerTotals {
  /** What `add()` takes of each row of sums, behind its hour and its kind. */
  readonly columns: readonly string[];
  readonly #database: Database;
  readonly #dialect: Dialect;
  readonly #filter: LedgerFilter;
  readonly #by: readonly LedgerGroup[];
  readonly #page: SumsPage;
  readonly #held = new Map<number | string, KindSums>();
  #found = new Map<string, { readonly group: readonly string[]; readonly sums: number[] }>();
  /** The last group that has room on the page, once some had none. */
  #last: readonly string[] | undefined;

  constructor(database: Database, dialect: Dialect, filter: LedgerFilter, by: readonly LedgerGroup[], page: SumsPage) {
    this.#database = database;
    this.#dialect = dialect;
    this.#filter = filter;
    this.#by = by;
    this.#page = page;
    this.columns =
      page.firstTokens === true ? sumColumns : sumColumns.filter((name) => !firstTokenColumns.includes(name));
  }

  get isFull(): boolean {
    return this.#held.size > maxHeld;
  }

  /** @param rows `[hour, kind, ...sums]`, those of an hour beside each other */
  add(rows: readonly (readonly number[])[]): void {
    const isTimed = this.#by.some(isTime);
    let times: readonly (string | undefined)[] = [];
    let [hour, time] = [Number.NaN, ""];
    for (const row of rows) {
      const [rowHour, kind] = row as [number, number];
      if (isTimed && rowHour !== hour) {
        const iso = new Date(rowHour * hourMs).toISOString();
        times = this.#by.map((name) => timeText(name, iso));
        [hour, time] = [rowHour, times.join(" ")];
      }
      const id = isTimed ? `${time} ${kind}` : kind;
      const sums = this.#held.get(id)?.sums;
      if (sums === undefined) this.#held.set(id, { kind, times, sums: row.slice(2) });
      else for (let at = 0; at < sums.length; at++) sums[at]! += row[at + 2]!;
    }
  }

  /** Finds the groups of the kinds that were added, all of one rollup. @param pause gives others their turn */
  async name(rollup: Rollup, pause: () => Promise<void>): Promise<void> {
    const held = [...this.#held.values()];
    this.#held.clear();
    const calls = this.columns.indexOf("calls");
    for (let from = 0; from < held.length; from += namedTogether) {
      const some = held.slice(from, from + namedTogether);
      const named = this.#named(rollup, [...new Set(some.map(({ kind }) => kind))]);
      for (const { kind, times, sums } of some)
        for (const [ended, counted, names] of named.get(kind) ?? []) {
          const ends = callEnds.map((end) => (end === ended ? sums[calls]! : 0));
          const estimated = counted === "estimated" ? sums[calls]! : 0;
          const group = names.map((name, at) => times[at] ?? String(name));
          this.#merge(group, [...sums, ...ends, estimated]);
        }
      await pause();
    }
  }

  page(): LedgerSum[] {
    const names = sumNames(this.#page);
    if (this.#by.length === 0 && this.#found.size === 0) this.#merge([], Array<number>(names.length).fill(0));
    this.#cut();
    return [...this.#found.values()].map(({ group, sums }) =>
      sumFrom(group, Object.fromEntries(names.map((name, at) => [name, sums[at]!]))),
    );
  }

  /** Those that fit the question, each with the texts of its groups: once, or once for each of its tags. */
  #named(rollup: Rollup, kinds: readonly number[]) {
    const isTagged = this.#by.includes("tag");
    const tag = isTagged ? this.#filter.where?.["tag"] : undefined;
    const { table, of } = kindsOf(rollup);
    const bound = new Bound(this.#dialect);
    const groups = this.#by.map((name) => (isTime(name) ? "''" : groupColumn(name, this.#dialect)));
    const sql = `select ${["k.kind", "k.ended", "k.counted", ...groups].join(", ")}
      from ${table} k ${isTagged ? this.#dialect.withTags : ""}
      where ${of} and k.kind in (select value from json_each(${bound.put(JSON.stringify(kinds))}))
      ${kindConditions(this.#filter, this.#dialect, bound)} ${tag === undefined ? "" : `and t.value = ${bound.put(tag)}`}`;
    const rows = this.#database.query<SQLQueryBindings[], SQLQueryBindings[]>(sql).values(...bound.values);
    const named = new Map<number, [ended: Value, counted: Value, names: Value[]][]>();
    for (const [kind, ended, counted, ...names] of rows as unknown as [number, Value, Value, ...Value[]][]) {
      const known = named.get(kind);
      if (known === undefined) named.set(kind, [[ended, counted, names]]);
      else known.push([ended, counted, names]);
    }
    return named;
  }

  /** Of the groups behind the page's beginning as many are kept as the page has, so their number is bounded. */
  #merge(group: readonly string[], sums: number[]): void {
    const { after, limit } = this.#page;
    if (after !== undefined && compared(group, after) <= 0) return;
    if (this.#last !== undefined && compared(group, this.#last) > 0) return;
    const id = group.join("\0");
    const known = this.#found.get(id)?.sums;
    if (known === undefined) this.#found.set(id, { group, sums });
    else for (let at = 0; at < known.length; at++) known[at]! += sums[at]!;
    if (this.#found.size > 2 * limit + maxHeld) this.#cut();
  }

  #cut(): void {
    const kept = [...this.#found].sort(([, a], [, b]) => compared(a.group, b.group)).slice(0, this.#page.limit);
    this.#last = kept.at(-1)?.[1].group;
    this.#found = new Map(kept);
  }
}

function compared(a: readonly string[], b: readonly string[]): number {
  for (const [at, name] of a.entries()) if (name !== b[at]) return name < b[at]! ? -1 : 1;
  return 0;
}
