/**
 * The sums of the ledger in SQLite. What lines add to them is noted in the transaction of the lines, one row behind the other, and added
 * up before the first question, or once there are a thousand: the rows of all sums lie scattered in the file, and each page that
 * a transaction changes is written twice. In one run that was four fifths of what appending lines of many users wrote.
 */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import { sumColumns } from "../ledger/columns.ts";
import { type Rollup, rollups } from "../sql/ledger-rollups.ts";
import type { LedgerPacks } from "./ledger-packs.ts";

/** What lines of like dimensions add to the sums of an hour, in the order of `sumColumns`. */
export type Increment = {
  readonly hour: number;
  /** The ids of their dimensions in each of `rollups`. */
  readonly ids: readonly number[];
  readonly sums: readonly number[];
};

export type LedgerSums = {
  /** Within the transaction that appends the lines. */
  note(increments: readonly Increment[]): void;
  /** Adds what every process has noted, in one transaction: some 20 ms at most. To be called before sums are read. @throws SQLite's errors */
  addUp(): void;
};

/** Rows of one statement, as many as there are of them; one by one each costs a third more. */
const together = 16;
/** Noted by one process before they are added up. */
const maxNoted = 1_000;

/** @returns what inserts rows, and returns how many */
export function inserting(database: Database, table: string, columns: readonly string[], onConflict = "") {
  const row = `(${columns.map(() => "?").join(", ")})`;
  const insertOf = (rows: number) =>
    database.prepare(
      `insert into ${table} (${columns.join(", ")}) values ${Array(rows).fill(row).join(", ")} ${onConflict}`,
      // Bun takes all values as one list too, which its types do not say: one by one, they are copied into several.
    ) as unknown as { run(values: readonly SQLQueryBindings[]): { readonly changes: number } };
  const [many, one] = [insertOf(together), insertOf(1)];
  return <T>(rows: readonly T[], push: (values: SQLQueryBindings[], row: T) => void): number => {
    let inserted = 0;
    for (let at = 0; at < rows.length; ) {
      const size = rows.length - at >= together ? together : 1;
      const values: SQLQueryBindings[] = [];
      for (let end = at + size; at < end; at++) push(values, rows[at]!);
      inserted += (size === 1 ? one : many).run(values).changes;
    }
    return inserted;
  };
}

const dayOf = (hour: number) => Math.floor(hour / 24);

type Sum = {
  readonly rollup: number;
  readonly bucket: number;
  readonly id: number;
  readonly sums: number[];
};

/** The sums that grow by increments, in the order of their rows. */
function sumsOf(
  increments: readonly Increment[],
  bucketOf: (hour: number) => number,
  isKept: (rollup: Rollup) => boolean,
) {
  const found: Sum[] = [];
  for (const [at, rollup] of rollups.entries()) {
    if (!isKept(rollup)) continue;
    const own = new Map<string, Sum>();
    for (const { hour, ids, sums } of increments) {
      const [bucket, id] = [bucketOf(hour), ids[at]!];
      const name = `${bucket} ${id}`;
      const known = own.get(name)?.sums;
      if (known === undefined) own.set(name, { rollup: rollup.id, bucket, id, sums: sums.slice() });
      else for (let place = 0; place < sums.length; place++) known[place]! += sums[place]!;
    }
    found.push(...[...own.values()].sort((a, b) => a.bucket - b.bucket || a.id - b.id));
  }
  return found;
}

/** @param packs of the same database */
export function ledgerSums(database: Database, packs: LedgerPacks): LedgerSums {
  const grow = sumColumns.map((name) => `${name} = ${name} + excluded.${name}`).join(", ");
  const adding = (bucket: "hour" | "day") => {
    const columns = ["rollup", bucket, "dimensions_id", ...sumColumns];
    const add = inserting(
      database,
      `ledger_${bucket}s`,
      columns,
      `on conflict (rollup, ${bucket}, dimensions_id) do update set ${grow}`,
    );
    return (sums: readonly Sum[]) =>
      add(sums, (values, { rollup, bucket: of, id, sums: own }) => values.push(rollup, of, id, ...own));
  };
  const made = () => {
    const noted = database.prepare<unknown, []>(
      `select hour, dimensions_ids, ${sumColumns.join(", ")} from ledger_increments`,
    );
    return {
      insert: inserting(database, "ledger_increments", ["hour", "dimensions_ids", ...sumColumns]),
      noted: () => noted.values() as [hour: number, ids: string, ...sums: number[]][],
      forget: database.prepare("delete from ledger_increments"),
      ...{ addHours: adding("hour"), addDays: adding("day") },
    };
  };
  // Made when first needed, as most commands need none of it.
  let statements: ReturnType<typeof made> | undefined;
  let notedHere = 0;
  const addUp = () => {
    statements ??= made();
    const { noted, forget, addHours, addDays } = statements;
    const increments = noted().map(([hour, ids, ...sums]) => ({ hour, ids: JSON.parse(ids) as number[], sums }));
    notedHere = 0;
    if (increments.length === 0) return;
    addHours(
      sumsOf(
        increments,
        (hour) => hour,
        ({ hasHours }) => hasHours,
      ),
    );
    addDays(sumsOf(increments, dayOf, () => true));
    for (const day of new Set(increments.map(({ hour }) => dayOf(hour)))) packs.changed(day);
    forget.run();
  };
  const isAny = database.prepare<unknown, []>("select 1 from ledger_increments limit 1");
  const addAll = database.transaction(addUp);
  return {
    note(increments) {
      statements ??= made();
      statements.insert(increments, (values, { hour, ids, sums }) => values.push(hour, JSON.stringify(ids), ...sums));
      notedHere += increments.length;
      if (notedHere >= maxNoted) addUp();
    },
    addUp() {
      if (isAny.get() !== null) addAll.immediate();
    },
  };
}
