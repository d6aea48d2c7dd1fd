/** The columns of the ledger, and of its sums by day, by the names that every database gives them. */
import { snakeCaseNumbered } from "../lib/snake-case.ts";
import { callEnds, costKinds, type LedgerFilter, type LedgerGroup, tokenKinds } from "./store.ts";

export const dayMs = 86_400_000;

export const tokenColumns = tokenKinds.map((kind) => `${snakeCaseNumbered(kind)}_tokens`);
export const costColumns = costKinds.map((kind) => `${snakeCaseNumbered(kind)}_cost`);

/** By what a day's sums are told apart, and in this order their key. */
export const dimensions = ["key_id", "tags", "surface", "format", "model", "persona", "provider", "upstream_model"];
export const sumColumns = ["calls", ...callEnds, "unknown_costs", "estimated", ...tokenColumns, "cost", ...costColumns];

/** Groups that are a column; each database has an expression of its own for the others. */
export const groupColumns: { readonly [Group in Exclude<LedgerGroup, "day" | "tag">]: string } = {
  key: "key_id",
  surface: "surface",
  format: "format",
  model: "model",
  persona: "persona",
  provider: "provider",
  upstreamModel: "upstream_model",
};

export const filters: readonly [name: keyof LedgerFilter, column: string][] = [
  ["keyId", "key_id"],
  ["surface", "surface"],
  ["model", "model"],
  ["persona", "persona"],
  ["provider", "provider"],
  ["upstreamModel", "upstream_model"],
];
