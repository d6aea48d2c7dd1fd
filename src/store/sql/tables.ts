/**
 * The tables of both databases, with their columns: repositories and moves make their statements from them. A move carries all of these from
 * one store into another. What lives for minutes is not here and stays: leases, reservations, windows of tokens, calls under way.
 */
import { keepable } from "../../lib/text/plain-text.ts";
import { dimensionColumns, ownColumns, ownTexts, sumColumns } from "../ledger/columns.ts";

export type ColumnKind = "text" | "integer" | "bytes";
export type TableValue = string | number | null | Uint8Array;
/** In the order of its table's columns. */
export type TableRow = readonly TableValue[];

export type MovedTable = {
  readonly name: string;
  readonly columns: readonly (readonly [name: string, kind: ColumnKind])[];
  /** The columns that name a row, and by which pages are read. */
  readonly key: readonly string[];
};

type Kinds = { readonly [Kind in ColumnKind]?: string };

/** @param kinds names of columns, separated by spaces */
function table(name: string, key: string, kinds: Kinds): MovedTable {
  const columns = Object.entries(kinds).flatMap(([kind, names]) =>
    names.split(/\s+/).map((column) => [column, kind as ColumnKind] as const),
  );
  return { name, key: key.split(" "), columns };
}

/** In an order in which each row finds what it refers to. */
export const movedTables: readonly MovedTable[] = [
  table("keys", "id", {
    text: "id name prefix hash tier surfaces models tags old_hash",
    integer: "per_minute tokens_per_minute created_at expires_at last_used_at revoked_at old_until",
  }),
  table("budgets", "scope period", { text: "scope period", integer: "amount updated_at" }),
  table("spending", "scope span", { text: "scope span", integer: "spent" }),
  table("variants", "persona version variant", {
    text: "persona version variant reason",
    integer:
      "calls errors refusals slow cost other_calls other_errors other_refusals other_slow other_cost windows updated_at stopped_at",
  }),
  table("audit", "id", { text: "id actor act subject before after", integer: "at" }),
  table("persona_versions", "id", { text: "id persona version content source", integer: "created_at used_at" }),
  table("persona_labels", "persona label", { text: "persona label version", integer: "moved_at" }),
  table("previews", "kind label", {
    text: "kind label revision key key_name personas content",
    integer: "pushed_at ends_at bytes",
  }),
  table("persona_test_runs", "persona", { text: "persona version run", integer: "at passed failed errors" }),
  table("facts_lists", "sha256", {
    text: "sha256 as_of source",
    integer: "is_forced taken_at",
    bytes: "content",
  }),
  table("facts_state", "id", { text: "id in_force refused failure", integer: "due tried_at" }),
  table("alert_causes", "cause", { text: "cause", integer: "since" }),
  table("alert_messages", "id destination", { text: "id destination body", integer: "at attempts due" }),
  table("ledger_dimensions", "dimensions_id", { text: dimensionColumns.join(" "), integer: "dimensions_id day" }),
  table("ledger", "at request_id attempt", {
    text: ownTexts.join(" "),
    integer: ["dimensions_id", ...ownColumns.filter((name) => !ownTexts.includes(name))].join(" "),
  }),
  table("ledger_groups", "rollup dimensions_id", {
    text: dimensionColumns.join(" "),
    integer: "rollup dimensions_id day",
  }),
  table("ledger_hours", "rollup hour dimensions_id", {
    integer: ["rollup", "hour", "dimensions_id", ...sumColumns].join(" "),
  }),
  table("ledger_days", "rollup day dimensions_id", {
    integer: ["rollup", "day", "dimensions_id", ...sumColumns].join(" "),
  }),
  // Finished ones alone: an id whose call was under way or interrupted is called anew all the same.
  table("kept_calls", "call", {
    text: "scope request_id fingerprint run state headers",
    integer: "call created_at expires_at status events body_from bytes",
    bytes: "body",
  }),
  table("kept_events", "call first_id", { text: "run", integer: "call first_id", bytes: "data" }),
  table("conversations", "conversation", { integer: "conversation expires_at" }),
  table("turns", "id", {
    text: "id parent key_holder model metadata upstream_account upstream_id format state",
    integer: "conversation created_at deleted_at",
    bytes: "request input completion shown",
  }),
];

export const columnNames = ({ columns }: Pick<MovedTable, "columns">): readonly string[] =>
  columns.map(([name]) => name);

export function tableOf(name: string): MovedTable {
  return movedTables.find((table) => table.name === name)!;
}

/** PostgreSQL's types of parameters. */
export const sqlTypes: { readonly [Kind in ColumnKind]: string } = { text: "text", integer: "bigint", bytes: "bytea" };

/** A column as rows of repositories name it: `createdAt` of `created_at`. */
const memberOf = (column: string): string => column.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

/** Columns of a table as they are selected, under the names that its rows have in repositories. @param of an alias with a dot */
export const selection = ({ columns }: Pick<MovedTable, "columns">, of = ""): string =>
  columns
    .map(([name, kind]) => `${of}${name}${kind === "integer" ? "::float8" : ""} as "${memberOf(name)}"`)
    .join(", ");

/** Inserts one row of `valuesOf`. */
export function insertion(table: Pick<MovedTable, "name" | "columns">): string {
  const places = table.columns.map(([, kind], at) => `$${at + 1}::${sqlTypes[kind]}`);
  return `insert into troupe.${table.name} (${columnNames(table).join(", ")}) values (${places.join(", ")})`;
}

/** A row of a repository in the order of the columns. */
export function valuesOf(table: Pick<MovedTable, "columns">, row: object): TableValue[] {
  const members = row as Readonly<Record<string, TableValue | undefined>>;
  return columnNames(table).map((name) => members[memberOf(name)] ?? null);
}

export const hasBytes = ({ columns }: MovedTable): boolean => columns.some(([, kind]) => kind === "bytes");

/** The values that name a row. */
export function rowKeyOf(table: MovedTable, row: TableRow): TableRow {
  const names = columnNames(table);
  return table.key.map((name) => row[names.indexOf(name)] ?? null);
}

/** The row as every store can keep it: texts of earlier versions may hold what one of them refuses. */
export const keepableRow = (row: TableRow): TableRow =>
  row.map((value) => (typeof value === "string" ? keepable(value) : value));

const encoder = new TextEncoder();

/** Two rows have one hash where every value is the same, of the same kind. */
export function rowHashOf(row: TableRow): bigint {
  return row.reduce<bigint>((hash, value) => {
    const bytes = typeof value === "object" && value !== null ? value : encoder.encode(String(value ?? ""));
    const kind = value === null ? 0n : typeof value === "object" ? 1n : typeof value === "string" ? 2n : 3n;
    return Bun.hash.xxHash64(bytes, hash ^ (kind << 62n) ^ BigInt(bytes.length));
  }, 0n);
}
