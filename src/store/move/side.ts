/** Parts of a side of a move that are alike in both databases. */
import { DataError } from "../contract/data-error.ts";
import type { Parameter, Sql } from "../sql/sql.ts";
import { columnNames, type MovedTable, rowKeyOf, sqlTypes, type TableRow, type TableValue } from "../sql/tables.ts";
import type { MoveSource, MoveTarget } from "./move.ts";

/** @param joined how stored events belong to their call `k` */
type SideOptions = { readonly sql: Sql; readonly joined: string };
export type Reading = Pick<MoveSource, "count" | "page"> & Pick<MoveTarget, "rowsAt">;

/** Parameters of a table's columns, from that number on. */
export function parametersOf({ columns }: MovedTable, names: readonly string[], first: number): string {
  const kinds = new Map(columns);
  return names.map((name, at) => `$${first + at}::${sqlTypes[kinds.get(name)!]}`).join(", ");
}

/** Finished calls alone are moved, and what belongs to them. */
function sourceOf({ name }: MovedTable, joined: string): string {
  if (name === "kept_calls") return "(select * from troupe.kept_calls where state = 'finished') r";
  if (name === "kept_events")
    return `(select e.call, k.run, e.first_id, e.data from troupe.kept_events e join troupe.kept_calls k on ${joined}
      where k.state = 'finished') r`;
  return `troupe.${name} r`;
}

export function readingOf({ sql, joined }: SideOptions): Reading {
  const rows = async (table: MovedTable, rest: string, values: readonly TableValue[]): Promise<TableRow[]> => {
    const names = columnNames(table);
    const selected = table.columns.map(([name, kind]) => `r.${name}${kind === "integer" ? "::float8" : ""} as ${name}`);
    const text = `select ${selected.join(", ")} from ${sourceOf(table, joined)} ${rest}`;
    const found = await sql.run<Record<string, TableValue>>(text, values as readonly Parameter[]);
    return found.map((row) => names.map((name) => row[name] ?? null));
  };
  const keyIn = ({ key }: MovedTable) => key.map((name) => `r.${name}`).join(", ");
  return {
    async count(table) {
      const text = `select count(*)::float8 as count from ${sourceOf(table, joined)}`;
      return (await sql.run<{ count: number }>(text))[0]!.count;
    },
    page(table, after, limit) {
      const where = after === undefined ? "" : `where (${keyIn(table)}) > (${parametersOf(table, table.key, 1)})`;
      return rows(table, `${where} order by ${keyIn(table)} limit ${limit}`, after ?? []);
    },
    rowsAt(table, keys) {
      const size = table.key.length;
      const wanted = keys.map((_, at) => `(${parametersOf(table, table.key, at * size + 1)})`).join(", ");
      return rows(table, `where (${keyIn(table)}) in (values ${wanted})`, keys.flat());
    },
  };
}

/**
 * Begins to write down how far a move has come, in the database that it fills, or reads it.
 * @param sql of what is filled
 * @param from where the data come from, and `remove` how to remove what another move left, for people
 * @returns how far it came before, by table; undefined: there was none. @throws DataError where another one was begun
 */
export async function progressOf(
  sql: Sql,
  identity: string,
  { from, place, remove }: { readonly from: string; readonly place: string; readonly remove: string },
): Promise<ReadonlyMap<string, TableRow> | undefined> {
  await sql.run("create table if not exists troupe.move (identity text not null, place text not null)");
  await sql.run("create table if not exists troupe.moved (name text primary key, last text not null)");
  const [found] = await sql.run<{ identity: string; place: string }>("select identity, place from troupe.move");
  if (found === undefined) {
    await sql.run("insert into troupe.move values ($1::text, $2::text)", [identity, from]);
    return undefined;
  }
  if (found.identity !== identity)
    throw new DataError(`A move of other data (${found.place}) to ${place} was begun; finish it, or remove ${remove}.`);
  const reached = await sql.run<{ name: string; last: string }>("select name, last from troupe.moved");
  return new Map(reached.map(({ name, last }) => [name, JSON.parse(last) as TableRow]));
}

/** Writes down that rows up to the last of those are there. */
export async function noteProgress(sql: Sql, table: MovedTable, rows: readonly TableRow[]): Promise<void> {
  const mark = `insert into troupe.moved values ($1::text, $2::text) on conflict (name) do update set last = excluded.last`;
  await sql.run(mark, [table.name, JSON.stringify(rowKeyOf(table, rows.at(-1)!))]);
}
