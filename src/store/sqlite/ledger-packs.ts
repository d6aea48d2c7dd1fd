/**
 * The sums of days that are over, packed column by column: SQLite takes a microsecond to read a row of twenty sums, and a day of many users has
 * thousands of them in each rollup that knows users. Packs are made in the background, go with whatever changes their day's sums, and
 * questions read the rows where there are none.
 */
import type { Database } from "bun:sqlite";
import { sumColumns } from "../ledger/columns.ts";
import { type Rollup, rollups } from "../sql/ledger-rollups.ts";

/** What lies behind it: the sums of that day whose dimensions have larger ids, and all later days. */
export type SumsPlace = readonly [day: number, id: number];
/** Before every id, and behind it. */
export const [beforeIds, behindIds]: readonly [number, number] = [-1, Number.MAX_SAFE_INTEGER];

type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array;

export type PackedSums = {
  readonly ids: Float64Array;
  /** In the order of the names that were asked for; undefined where all are 0. */
  readonly sums: readonly (Numbers | undefined)[];
};

export type LedgerPacks = {
  /** Where the next pack of a rollup begins. */
  nextFrom(rollup: Rollup, place: SumsPlace, beforeDay: number): SumsPlace | undefined;
  /** The pack that begins there, and where it ends; undefined where another process removed it. */
  read(
    rollup: Rollup,
    from: SumsPlace,
    names: readonly string[],
  ): { readonly packed: PackedSums; readonly to: SumsPlace } | undefined;
  /** Within the transaction that changes the sums of that day. */
  changed(day: number): void;
  /** Of days before that one, whose sums go. */
  remove(beforeDay: number): void;
  /** Makes one pack, if a day that is over has sums in none: some 10 ms. @returns false where there is nothing left to do */
  packSome(): boolean;
};

/** Rows of a pack at most, and of a rollup's day that is packed at least: fewer are read as fast. */
const [mostRows, fewestRows] = [4_000, 500];

export function ledgerPacks(database: Database): LedgerPacks {
  const ids = rollups.map(({ id }) => id).join(", ");
  const made = () => ({
    next: database.prepare<unknown, number[]>(
      `select day, after from ledger_packs where rollup = ? and (day, after) >= (?, ?) and day < ? order by day, after limit 1`,
    ),
    pack: database.prepare<{ until: number; sums: Uint8Array }, number[]>(
      "select until, sums from ledger_packs where rollup = ? and day = ? and after = ?",
    ),
    forget: database.prepare<unknown, [number]>(`delete from ledger_packs where rollup in (${ids}) and day = ?`),
    wait: database.prepare<unknown, [number]>("insert into ledger_unpacked values (?) on conflict do nothing"),
    remove: ["ledger_packs", "ledger_unpacked"].map((table) =>
      database.prepare<unknown, [number]>(`delete from ${table} where day < ?`),
    ),
    waiting: database.prepare<{ day: number | null }, []>(
      "select min(day) as day from ledger_unpacked where day < (select max(day) from ledger_unpacked)",
    ),
    done: database.prepare<unknown, [number]>("delete from ledger_unpacked where day = ?"),
    isLarge: database.prepare<unknown, number[]>(
      `select 1 from ledger_days where rollup = ? and day = ? limit 1 offset ${fewestRows - 1}`,
    ),
    end: database.prepare<{ id: number | null }, number[]>(
      "select max(until) as id from ledger_packs where rollup = ? and day = ?",
    ),
    rows: database.prepare<unknown, number[]>(
      `select dimensions_id, ${sumColumns.join(", ")} from ledger_days where rollup = ? and day = ? and dimensions_id > ? order by dimensions_id limit ${mostRows}`,
    ),
    insert: database.prepare<unknown, (number | Uint8Array)[]>("insert into ledger_packs values (?, ?, ?, ?, ?)"),
  });
  let statements: ReturnType<typeof made> | undefined;
  const asked = () => (statements ??= made());
  const packSome = database.transaction((): boolean => {
    const { waiting, done, isLarge, end, rows, insert } = asked();
    const { day } = waiting.get()!;
    if (day === null) return false;
    for (const { id } of rollups) {
      const after = end.get(id, day)!.id ?? beforeIds;
      if (after === behindIds || (after === beforeIds && isLarge.get(id, day) === null)) continue;
      const found = rows.values(id, day, after) as number[][];
      const until = found.length < mostRows ? behindIds : found.at(-1)![0]!;
      insert.run(id, day, after, until, packedFrom(found));
      return true;
    }
    done.run(day);
    return true;
  });
  return {
    nextFrom: ({ id }, [day, after], beforeDay) =>
      asked().next.values(id, day, after, beforeDay)[0] as SumsPlace | undefined,
    read({ id }, [day, after], names) {
      const found = asked().pack.get(id, day, after);
      if (found === null) return undefined;
      const { until, sums } = found;
      return { packed: unpacked(sums, names), to: until === behindIds ? [day + 1, beforeIds] : [day, until] };
    },
    changed(day) {
      asked().forget.run(day);
      asked().wait.run(day);
    },
    remove(beforeDay) {
      for (const remove of asked().remove) remove.run(beforeDay);
    },
    packSome: () => asked().waiting.get()!.day !== null && packSome.immediate(),
  };
}

const columnCount = 1 + sumColumns.length;
/** Bytes before the columns, of which the first ones say how long each column's numbers are; then columns lie as their numbers have to. */
const headLength = Math.ceil(columnCount / 8) * 8;

const viewed = (width: number, buffer: ArrayBufferLike, from: number, count: number): Numbers => {
  if (width === 8) return new Float64Array(buffer, from, count);
  if (width === 4) return new Uint32Array(buffer, from, count);
  return width === 2 ? new Uint16Array(buffer, from, count) : new Uint8Array(buffer, from, count);
};

/** Where each column lies: those of long numbers come first, and those of no length are all 0. */
function placesOf(widths: Uint8Array, count: number): readonly number[] {
  const places = Array<number>(widths.length);
  let from = headLength;
  for (const width of [8, 4, 2, 1])
    for (const [column, own] of widths.entries())
      if (own === width) {
        places[column] = from;
        from += count * width;
      }
  return places;
}

/** @param rows an id, and its sums */
function packedFrom(rows: readonly (readonly number[])[]): Uint8Array {
  const widths = new Uint8Array(columnCount);
  for (const row of rows)
    for (let at = 0; at < columnCount; at++) widths[at] = Math.max(widths[at]!, widthOf(row[at]!));
  const bytes = new Uint8Array(headLength + rows.length * widths.reduce((sum, width) => sum + width, 0));
  bytes.set(widths);
  for (const [column, from] of placesOf(widths, rows.length).entries()) {
    if (widths[column] === 0) continue;
    const numbers = viewed(widths[column]!, bytes.buffer, from, rows.length);
    for (const [at, row] of rows.entries()) numbers[at] = row[column]!;
  }
  return bytes;
}

function widthOf(value: number): number {
  if (value < 0 || value > 0xffff_ffff) return 8;
  return value > 0xffff ? 4 : value > 0xff ? 2 : Math.min(value, 1);
}

function unpacked(bytes: Uint8Array, names: readonly string[]): PackedSums {
  const widths = bytes.subarray(0, columnCount);
  const count = (bytes.length - headLength) / widths.reduce((sum, width) => sum + width, 0);
  const places = placesOf(widths, count);
  const column = (at: number) =>
    widths[at] === 0 ? undefined : viewed(widths[at]!, bytes.buffer, bytes.byteOffset + places[at]!, count);
  return { ids: new Float64Array(column(0)!), sums: names.map((name) => column(1 + sumColumns.indexOf(name))) };
}
