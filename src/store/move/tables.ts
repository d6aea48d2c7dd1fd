/**
 * What a move carries from one store into another, table by table, in a form that belongs to neither database. What lives for
 * minutes stays: leases, reservations, windows of tokens, calls under way.
 */
export type ColumnKind = "text" | "integer" | "bytes";
export type Value = string | number | null | Uint8Array;
/** In the order of its table's columns. */
export type Row = readonly Value[];

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

const tokens = `input_tokens cache_read_tokens cache_write_5m_tokens cache_write_1h_tokens output_tokens reasoning_tokens
  audio_input_tokens audio_output_tokens`;
const costs = `cost input_cost cache_read_cost cache_write_cost output_cost reasoning_cost audio_input_cost audio_output_cost
  other_cost`;

/** In an order in which each row finds what it refers to. */
export const movedTables: readonly MovedTable[] = [
  table("keys", "id", {
    text: "id name prefix hash tier surfaces models tags old_hash",
    integer: "per_minute tokens_per_minute created_at expires_at last_used_at revoked_at old_until",
  }),
  table("budgets", "scope period", { text: "scope period", integer: "amount updated_at" }),
  table("spending", "scope span", { text: "scope span", integer: "spent" }),
  table("audit", "id", { text: "id actor act subject before after", integer: "at" }),
  table("ledger", "request_id attempt", {
    text: `request_id key_id tags surface format model persona persona_version provider upstream_model ended call_of
      service_tier counted price_source price_date price_note`,
    integer: `attempt at status first_token_ms total_ms ${tokens} ${costs}`,
  }),
  table("ledger_days", "day key_id tags surface format model persona provider upstream_model", {
    text: "key_id tags surface format model persona provider upstream_model",
    integer: `day calls finished broken abandoned refused replayed joined unknown_costs estimated ${tokens} ${costs}`,
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
    text: "id parent holder model metadata upstream_account upstream_id format state",
    integer: "conversation created_at deleted_at",
    bytes: "request input completion shown",
  }),
];

export const columnNames = ({ columns }: MovedTable): readonly string[] => columns.map(([name]) => name);

export const hasBytes = ({ columns }: MovedTable): boolean => columns.some(([, kind]) => kind === "bytes");

/** The values that name a row. */
export function keyOf(table: MovedTable, row: Row): Row {
  const names = columnNames(table);
  return table.key.map((name) => row[names.indexOf(name)] ?? null);
}

const encoder = new TextEncoder();

/** Two rows have one hash where every value is the same, of the same kind. */
export function hashOf(row: Row): bigint {
  return row.reduce<bigint>((hash, value) => {
    const bytes = typeof value === "object" && value !== null ? value : encoder.encode(String(value ?? ""));
    const kind = value === null ? 0n : typeof value === "object" ? 1n : typeof value === "string" ? 2n : 3n;
    return Bun.hash.xxHash64(bytes, hash ^ (kind << 62n) ^ BigInt(bytes.length));
  }, 0n);
}
