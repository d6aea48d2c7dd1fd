/**
 * The ledger's columns, once: both databases' tables and statements, moves, the admin API and the command line come from this table. A new
 * column is a row here, and the member of `LedgerLine` that fills it.
 *
 * Values that like calls share stand once, as a row of `ledger_dimensions`; a line has the id of its dimensions and what is its own.
 */
import { firstTokenBounds } from "../../api/words.ts";
import { snakeCaseNumbered } from "../../lib/text/snake-case.ts";
import { costKinds, type LedgerLine, tokenKinds } from "../contract/usage.ts";

export type DimensionName = Exclude<
  keyof LedgerLine,
  | "requestId"
  | "attempt"
  | "at"
  | "status"
  | "callOf"
  | "tokens"
  | "cost"
  | "costs"
  | "firstTokenMs"
  | "totalMs"
  | "tier"
  | "variantCall"
  | "beside"
  | "errorText"
>;

/** `as`: the name by which reports group and filter; absent: they do not. */
const shared = [
  { name: "keyId", as: "key" },
  { name: "tags" },
  { name: "surface", as: "surface" },
  { name: "format", as: "format" },
  { name: "model", as: "model" },
  { name: "persona", as: "persona" },
  { name: "personaVersion", as: "persona_version" },
  { name: "variant", as: "variant" },
  { name: "provider", as: "provider" },
  { name: "upstreamModel", as: "upstream_model" },
  { name: "upstreamFormat", as: "upstream_format" },
  { name: "upstreamKey", as: "upstream_key" },
  { name: "upstreamEndpoint", as: "upstream_endpoint" },
  { name: "serviceTier", as: "service_tier" },
  { name: "client", as: "client" },
  { name: "user", as: "user" },
  { name: "metadata" },
  { name: "ended", as: "ended" },
  { name: "failure", as: "failure" },
  { name: "errorCode", as: "error_code" },
  { name: "counted" },
  { name: "priceSource", as: "price_source" },
  { name: "priceDate" },
  { name: "priceNote" },
] as const satisfies readonly { readonly name: DimensionName; readonly as?: string }[];

/** Fails to compile where a member of a line has no row above. */
type All = [Exclude<DimensionName, (typeof shared)[number]["name"]>] extends [never]
  ? readonly DimensionName[]
  : "a row is missing";
export const dimensionNames: All = shared.map(({ name }) => name);
/** The members of a line that reports group and filter by, by their names there. */
export const reportMembers: ReadonlyMap<string, DimensionName> = new Map(
  shared.flatMap((column) => ("as" in column ? [[column.as, column.name] as const] : [])),
);
export const dimensionColumn = (name: DimensionName): string =>
  name === "user" ? "end_user" : snakeCaseNumbered(name);
export const dimensionColumns: readonly string[] = dimensionNames.map(dimensionColumn);

/** Columns that reports group and filter by, by their names there. */
export const reportColumns: ReadonlyMap<string, string> = new Map(
  [...reportMembers].map(([as, name]) => [as, dimensionColumn(name)]),
);

export const ownNames = [
  ...(["at", "requestId", "attempt", "callOf", "status", "firstTokenMs", "totalMs", "errorText"] as const),
] as const;
export const ownTexts: readonly string[] = ["request_id", "call_of", "error_text"];
export const ownColumn = snakeCaseNumbered;
export const tokenColumns: readonly string[] = tokenKinds.map((kind) => `${snakeCaseNumbered(kind)}_tokens`);
export const costColumns: readonly string[] = ["cost", ...costKinds.map((kind) => `${snakeCaseNumbered(kind)}_cost`)];
/** Columns of `ledger`, but for the id of its dimensions. */
export const ownColumns: readonly string[] = [...ownNames.map(ownColumn), ...tokenColumns, ...costColumns];

export const firstTokenColumns: readonly string[] = [...firstTokenBounds.map((ms) => `first_${ms}`), "first_longer"];

/** Columns of the sums over the lines of like dimensions of a rollup in one hour, or one day. How they ended is one of the dimensions. */
export const sumColumns: readonly string[] = [
  ...["calls", "unknown_costs", ...tokenColumns, ...costColumns],
  ...firstTokenColumns,
];

const optionalNumbers = new Set(["status", "first_token_ms", ...costColumns]);
const isOptionalText = (column: string) => column !== "request_id";

/** The tables. @param types of the database, and what a name of a table begins with */
export function ledgerTables(types: {
  readonly text: string;
  readonly number: string;
  readonly prefix: string;
  /** Behind the tables whose rows belong to a day. */
  readonly dated: (column: string) => string;
  readonly plain: string;
  /** Behind a table whose rows lie in the order of their keys. */
  readonly ordered: string;
}): string {
  const { text, number, prefix, dated, plain, ordered } = types;
  const values = dimensionColumns.map((column) => `${column} ${text}`).join(",\n  ");
  const own = ownColumns.map((column) =>
    ownTexts.includes(column)
      ? `${column} ${text}${isOptionalText(column) ? "" : " not null"}`
      : `${column} ${number}${optionalNumbers.has(column) ? "" : " not null"}`,
  );
  return `
create table ${prefix}ledger_dimensions (
  dimensions_id ${number} primary key,
  -- The last one on which a line of it began.
  day ${number} not null,
  ${values}
)${plain};
-- The dimensions of rollups, which know a part of the values: the others are null.
create table ${prefix}ledger_groups (
  rollup ${number} not null,
  dimensions_id ${number} not null,
  -- As above.
  day ${number} not null,
  ${values},
  primary key (rollup, dimensions_id)
)${ordered};
create table ${prefix}ledger (
  ${own.join(",\n  ")},
  dimensions_id ${number} not null,
  primary key (at, request_id, attempt)
)${dated("at")};
create index ledger_by_dimensions on ${prefix}ledger (dimensions_id, at);
${["hour", "day"]
  .map(
    (bucket) => `create table ${prefix}ledger_${bucket}s (
  rollup ${number} not null,
  ${bucket} ${number} not null,
  dimensions_id ${number} not null,
  ${sumColumns.map((column) => `${column} ${number} not null`).join(",\n  ")},
  primary key (rollup, ${bucket}, dimensions_id)
)${dated(bucket)};`,
  )
  .join("\n")}`;
}

/** By what sums are taken, in the words of reports; `metadata.<key>` beside them. */
export const timeGroups = ["month", "day", "hour"] as const;
export const ledgerGroups: readonly string[] = [...timeGroups, "tag", ...reportColumns.keys()];
/** By what lines are chosen; `metadata.<key>` beside them. */
export const ledgerFilters: readonly string[] = ["tag", ...reportColumns.keys()];

const metadataName = /^metadata\.([A-Za-z0-9_-]{1,64})$/;
/** @returns the key of a name such as `metadata.team` */
export const metadataKeyOf = (name: string): string | undefined => metadataName.exec(name)?.[1];
export const isLedgerGroup = (name: string): boolean =>
  ledgerGroups.includes(name) || metadataKeyOf(name) !== undefined;
