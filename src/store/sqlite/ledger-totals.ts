/**
 * Adds up what a question to the ledger asks for. Sums are added here by the ids of their dimensions, column by column, and only those are
 * named: SQLite sorts rows to group them, which takes it several times as long as to read them.
 */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import { callEnds } from "../../api/words.ts";
import { hourMs } from "../../lib/time/duration.ts";
import type { LedgerFilter, LedgerGroup, LedgerSum, SumsPage } from "../contract/usage.ts";
import { firstTokenColumns, sumColumns, timeGroups } from "../ledger/columns.ts";
import {
  Bound,
  type Dialect,
  dimensionConditions,
  dimensionsOf,
  groupColumn,
  sumNames,
  sumsFrom,
} from "../sql/ledger-queries.ts";
import type { Rollup } from "../sql/ledger-rollups.ts";
import type { PackedSums } from "./ledger-packs.ts";

type Value = string | number | null;

/** Which dimensions have sums in one of the question's times. */
type TimeSums = {
  /** For each group that is a time, its text. */
  readonly times: readonly (string | undefined)[];
  /** Places in the columns of sums, by ids. */
  readonly places: Map<number, number>;
};

/** Dimensions whose sums are held before they are named: some 4 MB. */
const maxHeld = 16_000;
/** Dimensions that are looked up in one turn of the event loop: some ten milliseconds. */
const namedTogether = 2_000;

/** Characters of a time in ISO 8601 that say which month, day or hour it is. */
const timeLengths: Readonly<Record<(typeof timeGroups)[number], number>> = { month: 7, day: 10, hour: 13 };
const timeText = (name: LedgerGroup, iso: string): string | undefined => {
  const time = timeGroups.find((one) => one === name);
  return time && iso.slice(0, timeLengths[time]) + (time === "hour" ? ":00Z" : "");
};

const isTime = (name: LedgerGroup): boolean => timeText(name, "") !== undefined;

export class LedgerTotals {
  /** What `add()` takes of each row of sums, behind its hour and its id. */
  readonly columns: readonly string[];
  readonly #database: Database;
  readonly #dialect: Dialect;
  readonly #filter: LedgerFilter;
  readonly #by: readonly LedgerGroup[];
  readonly #page: SumsPage;
  /** By their times. */
  readonly #held = new Map<string, TimeSums>();
  #heldCount = 0;
  /** What they have, for each of `columns`; as long as the largest number held so far needs. */
  #sums: Float64Array<ArrayBuffer>[];
  /** One column of a pack. */
  #doubles = new Float64Array();
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
    this.#sums = this.columns.map(() => new Float64Array());
  }

  get isFull(): boolean {
    return this.#heldCount > maxHeld;
  }

  /** @param rows `[hour, id, ...sums]`, those of an hour beside each other */
  add(rows: readonly (readonly number[])[]): void {
    const places = new Int32Array(rows.length);
    for (let from = 0, to = 0; from < rows.length; from = to) {
      const hour = rows[from]![0]!;
      while (to < rows.length && rows[to]![0] === hour) to++;
      this.#find(
        hour,
        Float64Array.from(rows.slice(from, to), (row) => row[1]!),
        places.subarray(from, to),
      );
    }
    for (const [column, sums] of this.#sums.entries())
      for (const [at, row] of rows.entries()) sums[places[at]!]! += row[column + 2]!;
  }

  /** @param hour the first of its day */
  addPacked(hour: number, { ids, sums }: PackedSums): void {
    const places = new Int32Array(ids.length);
    this.#find(hour, ids, places);
    if (ids.length > this.#doubles.length) this.#doubles = new Float64Array(ids.length);
    for (const [column, more] of sums.entries()) {
      if (more === undefined) continue;
      this.#doubles.set(more);
      addAt(this.#sums[column]!, places, this.#doubles);
    }
  }

  /** @param places gets those of the ids in the columns of sums */
  #find(hour: number, ids: Float64Array, places: Int32Array): void {
    const isTimed = this.#by.some(isTime);
    const iso = isTimed ? new Date(hour * hourMs).toISOString() : "";
    const times = this.#by.map((name) => timeText(name, iso));
    const time = times.join(" ");
    let held = this.#held.get(time);
    if (held === undefined) {
      held = { times, places: new Map() };
      this.#held.set(time, held);
    }
    for (let at = 0; at < ids.length; at++) {
      const id = ids[at]!;
      let place = held.places.get(id);
      if (place === undefined) {
        place = this.#heldCount++;
        held.places.set(id, place);
      }
      places[at] = place;
    }
    if (this.#heldCount > this.#sums[0]!.length)
      this.#sums = this.#sums.map((sums) => longer(sums, 2 * this.#heldCount));
  }

  /** Finds the groups of the dimensions that were added, all of one rollup. @param pause gives others their turn */
  async name(rollup: Rollup, pause: () => Promise<void>): Promise<void> {
    const calls = this.#sums[this.columns.indexOf("calls")]!;
    const [ends, estimated] = [this.columns.length, this.columns.length + callEnds.length];
    for (const { times, places } of this.#held.values()) {
      const ids = Float64Array.from(places.keys()).sort();
      for (let from = 0; from < ids.length; from += namedTogether) {
        for (const [id, ended, counted, ...names] of this.#named(rollup, ids.subarray(from, from + namedTogether))) {
          const place = places.get(id);
          if (place === undefined) continue;
          const sums = this.#sumsOf(names.map((name, at) => times[at] ?? String(name)));
          if (sums === undefined) continue;
          for (let at = 0; at < ends; at++) sums[at]! += this.#sums[at]![place]!;
          const end = callEnds.indexOf(ended);
          if (end >= 0) sums[ends + end]! += calls[place]!;
          if (counted === "estimated") sums[estimated]! += calls[place]!;
        }
        await pause();
      }
    }
    this.#held.clear();
    this.#heldCount = 0;
    for (const sums of this.#sums) sums.fill(0);
  }

  page(): LedgerSum[] {
    if (this.#by.length === 0) this.#sumsOf([]);
    this.#cut();
    const sumOf = sumsFrom(this.#page);
    return [...this.#found.values()].map(({ group, sums }) => sumOf(group, sums));
  }

  /**
   * Those that fit the question, each with the texts of its groups: once, or once for each of its tags. Where most dimensions from the first to the
   * last are asked for they are read one behind the other, and others among them, in a third of the time that looking each up takes.
   */
  #named(rollup: Rollup, ids: Float64Array) {
    const most = 2 * ids.length;
    const among = this.#namedWhere(
      rollup,
      (bound) => `k.dimensions_id between ${bound.put(ids[0]!)} and ${bound.put(ids.at(-1)!)}`,
      (bound) => `limit ${bound.put(most)}`,
    );
    if (among.length < most) return among;
    const list = JSON.stringify([...ids]);
    return this.#namedWhere(rollup, (bound) => `k.dimensions_id in (select value from json_each(${bound.put(list)}))`);
  }

  #namedWhere(rollup: Rollup, where: (bound: Bound) => string, limit: (bound: Bound) => string = () => "") {
    const isTagged = this.#by.includes("tag");
    const tag = isTagged ? this.#filter.where?.["tag"] : undefined;
    const { table, of } = dimensionsOf(rollup);
    const bound = new Bound(this.#dialect);
    const groups = this.#by.map((name) => (isTime(name) ? "''" : groupColumn(name, this.#dialect)));
    const sql = `select ${["k.dimensions_id", "k.ended", "k.counted", ...groups].join(", ")}
      from ${table} k ${isTagged ? this.#dialect.withTags : ""} where ${of} and ${where(bound)}
      ${dimensionConditions(this.#filter, this.#dialect, bound)} ${tag === undefined ? "" : `and t.value = ${bound.put(tag)}`} ${limit(bound)}`;
    const rows: unknown = this.#database.query<SQLQueryBindings[], SQLQueryBindings[]>(sql).values(...bound.values);
    return rows as [id: number, ended: (typeof callEnds)[number], counted: Value, ...names: Value[]][];
  }

  /**
   * The sums of a group, in the order of `sumNames()`; undefined where the page has it not. Of the groups behind the page's beginning as many
   * are kept as the page has, so their number is bounded.
   */
  #sumsOf(group: readonly string[]): number[] | undefined {
    const { after, limit } = this.#page;
    if (after !== undefined && compared(group, after) <= 0) return undefined;
    if (this.#last !== undefined && compared(group, this.#last) > 0) return undefined;
    const id = group.join("\0");
    const known = this.#found.get(id)?.sums;
    if (known !== undefined) return known;
    if (this.#found.size > 2 * limit + maxHeld) this.#cut();
    const sums = Array<number>(sumNames(this.#page).length).fill(0);
    this.#found.set(id, { group, sums });
    return sums;
  }

  #cut(): void {
    const kept = [...this.#found].sort(([, a], [, b]) => compared(a.group, b.group)).slice(0, this.#page.limit);
    this.#last = kept.at(-1)?.[1].group;
    this.#found = new Map(kept);
  }
}

/** Of one type of numbers, so that it is compiled for that. */
function addAt(sums: Float64Array, places: Int32Array, more: Float64Array): void {
  for (let at = 0; at < places.length; at++) sums[places[at]!]! += more[at]!;
}

function longer(numbers: Float64Array, length: number): Float64Array<ArrayBuffer> {
  const all = new Float64Array(length);
  all.set(numbers);
  return all;
}

function compared(a: readonly string[], b: readonly string[]): number {
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return a[at]! < b[at]! ? -1 : 1;
  return 0;
}
