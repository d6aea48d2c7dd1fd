/**
 * Carries everything from one store into another. Rows are copied in pages, each of which may be written twice, then every row is read
 * back and compared; only then the target becomes a store that a server would open. Killed at any moment, a move goes on where it was.
 */

import { DataError } from "../contract/data-error.ts";
import { rowWords, StorageError } from "../contract/storage-error.ts";
import type { LedgerRepository } from "../contract/usage.ts";
import {
  hasBytes,
  keepableRow,
  type MovedTable,
  movedTables,
  rowHashOf,
  rowKeyOf,
  type TableRow,
} from "../sql/tables.ts";

/** Ends the calls of killed processes in a source, as only their lines are moved. */
export type SettleCalls = (ledger: LedgerRepository) => Promise<unknown>;

export interface MoveSource extends AsyncDisposable {
  /** A folder, or a server's address without user and password. */
  readonly place: string;
  /** Names what is in it, wherever it is. */
  readonly identity: string;
  count(table: MovedTable): Promise<number>;
  /** Rows after that key, by key. */
  page(table: MovedTable, after: TableRow | undefined, limit: number): Promise<TableRow[]>;
  /** Things that are no part of a move, for people: what each is, and how much of it there is. */
  leftBehind(): Promise<readonly (readonly [what: string, count: number])[]>;
}

export interface MoveTarget extends AsyncDisposable {
  readonly place: string;
  /**
   * Begins a move, or goes on with one.
   * @returns how far it came before, by table; undefined: there was none
   * @throws DataError where there is other data, or another move was begun
   */
  begin(identity: string, from: string): Promise<ReadonlyMap<string, TableRow> | undefined>;
  /** Throws away what was moved so far. */
  startOver(): Promise<void>;
  /** Writes rows that may be there already, and how far the move has come. */
  put(table: MovedTable, rows: readonly TableRow[]): Promise<void>;
  rowsAt(table: MovedTable, keys: readonly TableRow[]): Promise<TableRow[]>;
  count(table: MovedTable): Promise<number>;
  /** Makes it a store. @param copied of a copy of data that live on elsewhere: as long as it is as it was copied, a move of them may replace it */
  finish(copied?: Moved["tables"]): Promise<void>;
}

export type MoveProgress = {
  readonly step: "copy" | "check";
  readonly table: string;
  readonly done: number;
  readonly of: number;
};

export type Moved = {
  readonly resumed: boolean;
  readonly tables: readonly {
    readonly name: string;
    readonly rows: number;
    /** Checksum of all rows, in any order: hexadecimal. */
    readonly checksum: string;
  }[];
  readonly leftBehind: readonly (readonly [what: string, count: number])[];
};

/** Number of rows in a page: few rows with bodies are held at once. */
const pageOf = (table: MovedTable) => (hasBytes(table) ? 10 : 50);

/** @throws DataError, StorageError; what was copied stays for the next try */
export async function move(
  source: MoveSource,
  target: MoveTarget,
  report: (progress: MoveProgress) => void,
  isCopy = false,
): Promise<Moved> {
  const reached = await target.begin(source.identity, source.place);
  await copy(source, target, reached ?? new Map(), report);
  let tables = await movedContentOf(source, target, report);
  if (tables === undefined && reached !== undefined) {
    // A server wrote to the source in between.
    await target.startOver();
    await target.begin(source.identity, source.place);
    await copy(source, target, new Map(), report);
    tables = await movedContentOf(source, target, report);
  }
  if (tables === undefined)
    throw new DataError(`${source.place} changed while it was moved; stop what serves from it, and try again.`);
  const leftBehind = (await source.leftBehind()).filter(([, count]) => count > 0);
  await target.finish(isCopy ? tables : undefined);
  return { resumed: reached !== undefined, tables, leftBehind };
}

type Step = Pick<MoveProgress, "step"> & { readonly after?: ReadonlyMap<string, TableRow> };

/** Gives the source's rows in pages. */
async function* pagesOf(
  source: Pick<MoveSource, "count" | "page">,
  table: MovedTable,
  { step, after }: Step,
  report: (progress: MoveProgress) => void,
): AsyncGenerator<readonly TableRow[]> {
  const of = await source.count(table);
  let last = after?.get(table.name);
  // The last row was changed on its way, and the source does not know it: what was copied is written once more.
  if (last?.some((value) => typeof value === "string" && value.includes("\ufffd"))) last = undefined;
  for (let done = 0; ; ) {
    const rows = await source.page(table, last, pageOf(table));
    if (rows.length === 0) return;
    yield rows.map(keepableRow);
    last = rowKeyOf(table, rows.at(-1)!);
    done += rows.length;
    report({ step, table: table.name, done: Math.min(done, of), of });
  }
}

async function copy(
  source: MoveSource,
  target: MoveTarget,
  after: ReadonlyMap<string, TableRow>,
  report: (progress: MoveProgress) => void,
): Promise<void> {
  for (const table of movedTables)
    for await (const rows of pagesOf(source, table, { step: "copy", after }, report)) await put(target, table, rows);
}

/** @throws DataError naming the row that the target does not take, StorageError where it takes none */
async function put(target: MoveTarget, table: MovedTable, rows: readonly TableRow[]): Promise<void> {
  try {
    await target.put(table, rows);
  } catch (error) {
    if (!(error instanceof StorageError) || error.kind !== "unusable") throw error;
    for (const row of rows) {
      await target.put(table, [row]).catch((cause) => {
        const what = rowWords(table.name, rowKeyOf(table, row)).replace(/^the/, "The");
        throw new DataError(`${what} can't be carried to ${target.place}: ${(cause as Error).message}`);
      });
    }
  }
}

/**
 * Works out what distinguishes one content of a store from every other.
 * @param target is compared with it, row by row
 * @returns undefined where a row is missing in the target, differs, or is one too many
 */
export async function movedContentOf(
  side: Pick<MoveSource, "count" | "page">,
  target?: MoveTarget,
  report: (progress: MoveProgress) => void = () => {},
): Promise<Moved["tables"] | undefined> {
  const found: { name: string; rows: number; checksum: string }[] = [];
  for (const table of movedTables) {
    let sum = 0n;
    let count = 0;
    for await (const rows of pagesOf(side, table, { step: "check" }, report)) {
      const keys = rows.map((row) => rowKeyOf(table, row));
      const there = target && new Set((await target.rowsAt(table, keys)).map(rowHashOf));
      for (const row of rows) {
        const hash = rowHashOf(row);
        if (there?.has(hash) === false) return undefined;
        sum = BigInt.asUintN(64, sum + hash);
      }
      count += rows.length;
    }
    if (target !== undefined && (await target.count(table)) !== count) return undefined;
    found.push({ name: table.name, rows: count, checksum: sum.toString(16).padStart(16, "0") });
  }
  return found;
}
