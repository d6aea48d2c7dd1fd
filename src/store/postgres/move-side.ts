/** A PostgreSQL database as the target of a move. */
import type { StoreConfig } from "../../config/config.ts";
import type { Clock } from "../../lib/time/clock.ts";
import { dayMs, hourMs } from "../../lib/time/duration.ts";
import { DataError } from "../contract/data-error.ts";
import { type Moved, type MoveTarget, movedContentOf } from "../move/move.ts";
import { noteProgress, parametersOf, progressOf, readingOf } from "../move/side.ts";
import type { Parameter, Sql } from "../sql/sql.ts";
import { columnNames, type MovedTable, movedTables, type TableRow } from "../sql/tables.ts";
import { metadataPairsOf } from "./conversation-repository.ts";
import { hasSchema, ownVersion, readVersion, staging } from "./migrations.ts";
import { placeOf } from "./place.ts";
import type { QueryPool } from "./query-pool.ts";
import { bringForward, openPool } from "./store.ts";

/** Tables whose changes are counted by a trigger as those of keys. */
const countedTables = ["keys", "budgets", "facts_state"];

/** The same statements on another schema. */
const inSchema = (pool: QueryPool, schema: string): Sql => {
  const of = (text: string) => text.replaceAll("troupe.", `${schema}.`);
  return {
    run: (text, parameters) => pool.run(of(text), parameters),
    runBoth: (change, next, parameters) => pool.runBoth(of(change), of(next), parameters),
  };
};

const readingIn = (pool: QueryPool, schema: string) =>
  readingOf({ sql: inSchema(pool, schema), joined: "k.call = e.call and k.run = e.run" });

async function isServed(pool: QueryPool): Promise<boolean> {
  const text = "select 1 from troupe.lease_owners where lapses_at > clock_timestamp() limit 1";
  return (await pool.run(text)).length > 0;
}

/** A copy is known by the schema's comment, which says of what, and how it was. */
const copyMark = (identity: string, tables: Moved["tables"] | undefined) =>
  JSON.stringify({ copy_of: identity, tables });

async function isUntouchedCopy(pool: QueryPool, identity: string): Promise<boolean> {
  const text = "select obj_description(to_regnamespace('troupe')::oid, 'pg_namespace') as mark";
  const [found] = await pool.run<{ mark: string | null }>(text);
  if (!found?.mark?.startsWith('{"copy_of":')) return false;
  return found.mark === copyMark(identity, await movedContentOf(readingIn(pool, "troupe")));
}

/** Everything is written to a schema of its own, which gets its name in one step at the end. @throws StorageError */
export async function postgresTarget(settings: StoreConfig, clock: Clock): Promise<MoveTarget> {
  const place = placeOf(settings.url);
  const pool = await openPool(settings, clock);
  let moved = "";
  return {
    ...readingIn(pool, staging),
    place,
    begin(identity, from) {
      moved = `${identity} ${ownVersion()}`;
      return begin(pool, place, moved, from, () => bringForward(pool, settings, clock));
    },
    async startOver() {
      await pool.run(`drop schema if exists ${staging} cascade`);
    },
    async put(table, rows) {
      await openDays(pool, table, rows);
      const { text, values } = insertionOf(table, rows);
      await pool.run(text, values);
      await noteProgress(inSchema(pool, staging), table, rows);
    },
    finish: (copied) => finish(pool, place, copied && copyMark(moved, copied)),
    [Symbol.asyncDispose]: () => pool.close(),
  };
}

async function begin(
  pool: QueryPool,
  place: string,
  identity: string,
  from: string,
  forward: () => Promise<void>,
): Promise<ReadonlyMap<string, TableRow> | undefined> {
  if (!(await hasSchema(pool, staging))) {
    await clear(pool, place, identity);
    await forward();
    await pool.transaction(async (ask) => {
      await ask(`alter schema troupe rename to ${staging}`);
      // They count changes in a table whose name is another one meanwhile.
      for (const name of countedTables) await ask(`alter table ${staging}.${name} disable trigger user`);
    });
  }
  return progressOf(inSchema(pool, staging), identity, { from, place, remove: `it: drop schema ${staging} cascade` });
}

/** Makes room where there is nothing but a copy of the same data. @throws DataError where there is other data, or a server serves */
async function clear(pool: QueryPool, place: string, identity: string): Promise<void> {
  if ((await readVersion(pool, place)) === undefined) return;
  if (await isServed(pool)) throw new DataError(`A server runs on ${place}; stop it first.`);
  if (await isUntouchedCopy(pool, identity)) {
    await pool.run("drop schema troupe cascade");
    return;
  }
  for (const { name } of movedTables)
    if ((await pool.run(`select 1 from troupe.${name} limit 1`)).length > 0)
      throw new DataError(`There is data in ${place} already (troupe.${name}); name another database.`);
}

/** The partitions that the rows go to. */
async function openDays(pool: QueryPool, table: MovedTable, rows: readonly TableRow[]): Promise<void> {
  const dated: Readonly<Record<string, readonly [column: string, length: number]>> = {
    ledger: ["at", dayMs],
    ledger_hours: ["hour", dayMs / hourMs],
    ledger_days: ["day", 1],
  };
  if (!Object.hasOwn(dated, table.name)) return;
  const [column, length] = dated[table.name]!;
  const at = columnNames(table).indexOf(column);
  for (const day of new Set(rows.map((row) => Math.floor(Number(row[at]) / length))))
    await pool.run(`select ${staging}.open_ledger_day($1::text, $2::bigint)::text`, [staging, day]);
}

function insertionOf(table: MovedTable, rows: readonly TableRow[]): { text: string; values: Parameter[] } {
  const names = columnNames(table);
  const isTurn = table.name === "turns";
  const size = names.length + Number(isTurn);
  const texts = rows.map((_, at) => {
    const first = at * size + 1;
    const own = parametersOf(table, names, first);
    const pairs = `(select coalesce(array_agg(pair), '{}') from jsonb_array_elements_text($${first + names.length}::text::jsonb) pair)`;
    return isTurn ? `(${own}, ${pairs})` : `(${own})`;
  });
  const metadata = names.indexOf("metadata");
  const values = rows.flatMap((row) =>
    isTurn ? [...row, metadataPairsOf(row[metadata] as string)] : row,
  ) as Parameter[];
  const text = `insert into ${staging}.${table.name} (${names.join(", ")}${isTurn ? ", pairs" : ""})
    overriding system value values ${texts.join(", ")} on conflict do nothing`;
  return { text, values };
}

/** @param mark of a copy */
async function finish(pool: QueryPool, place: string, mark?: string): Promise<void> {
  if (await hasSchema(pool, "troupe"))
    throw new DataError(
      `A server was started on ${place} meanwhile: stop it, drop its schema "troupe", and try again.`,
    );
  await pool.transaction(async (ask) => {
    for (const [name, column] of [
      ["kept_calls", "call"],
      ["conversations", "conversation"],
    ])
      await ask(
        `select setval(pg_get_serial_sequence('${staging}.${name}', '${column}'),
         (select coalesce(max(${column}), 0) + 1 from ${staging}.${name}), false)`,
      );
    for (const name of countedTables) await ask(`alter table ${staging}.${name} enable trigger user`);
    await ask(`drop table ${staging}.move, ${staging}.moved`);
    await ask(`alter schema ${staging} rename to troupe`);
    // A statement of this kind takes no parameters.
    await ask(`comment on schema troupe is ${mark === undefined ? "null" : `'${mark.replaceAll("'", "''")}'`}`);
  });
}
