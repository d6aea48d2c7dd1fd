/** The OpenAPI operations of usage: a key's own, and everybody's in the admin API. */
import { Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { ledgerFilters } from "../../store/ledger-columns.ts";
import { callEnds } from "../../store/usage.ts";
import { groupWords, maxRows } from "../../usage/report.ts";
import { describeOperation } from "./describe.ts";
import { keyed, metadataFilter, tags } from "./descriptions.ts";

const Totals = {
  calls: Type.Integer({ description: "Attempts, however they ended." }),
  ended: Type.Record(Type.String(), Type.Integer()),
  tokens: Type.Record(Type.String(), Type.Integer()),
  cost_micro_dollars: Type.Integer({ description: "Millionths of a dollar, of the calls whose cost is known." }),
  costs_micro_dollars: Type.Record(Type.String(), Type.Integer()),
  unknown_cost_calls: Type.Integer({ description: "How many calls the cost leaves out." }),
  estimated_calls: Type.Integer({ description: "How many calls have estimated counts." }),
};

const Usage = Type.Object({
  object: Type.Literal("usage"),
  since: Type.String(),
  until: Type.String(),
  by: Type.Array(Type.String()),
  data: Type.Array(
    Type.Object(Totals, { description: "With a member for each group, such as day; key_name beside key." }),
  ),
  total: Type.Object(Totals),
  has_more: Type.Boolean(),
  next: Type.Union([Type.String(), Type.Null()], { description: "Where the next page begins: after=<next>." }),
});

const HeldBudget = Type.Object({
  id: Type.String({ description: "<scope>/<period>, as x-troupe-budget names it." }),
  scope: Type.String({ description: "key:<id>, tag:<name>, tier:<name> or all." }),
  period: Type.String({ description: "day or month, in UTC, or prepaid." }),
  span: Type.String({ description: "2026-11-22, 2026-11 or prepaid." }),
  limit_micro_dollars: Type.Integer(),
  spent_micro_dollars: Type.Integer(),
  reserved_micro_dollars: Type.Integer({ description: "By calls that are under way." }),
  left_micro_dollars: Type.Integer(),
  resets_at: Type.Union([Type.String(), Type.Null()], { description: "When it opens again; null: not by itself." }),
});
const OwnUsage = Type.Object({
  ...Usage.properties,
  budgets: Type.Array(HeldBudget, { description: "Every budget that the key's calls count against." }),
});

const parameter = (name: string, description: string, schema: object = { type: "string" }) => ({
  name,
  in: "query",
  schema,
  description,
});

const time = "A day (2026-11-22), a time, Unix seconds, or a span (7d, 24h).";
const times = [
  parameter("since", `${time} Default: 30 days.`),
  parameter("until", "Likewise. Default: the end of today in UTC."),
];

/** What chooses lines of the ledger. @param left is not chosen by */
export const ledgerParameters = (...left: readonly string[]): Record<string, unknown>[] => [
  ...times.filter(({ name }) => !left.includes(name)),
  ...ledgerFilters
    .filter((name) => !left.includes(name))
    .map((name) =>
      name === "ended"
        ? parameter(name, "Only calls that ended so.", { type: "string", enum: callEnds })
        : parameter(name, `Only calls of that ${name.replace("_", " ")}; empty: those without one.`),
    ),
  metadataFilter,
];

/** @param everybody whether it is the admin API's */
function described(tag: string, operationId: string, summary: string, description: string, everybody: boolean) {
  return describeOperation({
    tag,
    operationId,
    summary,
    description,
    errors: [400, 403, ...keyed],
    response: { schema: everybody ? Usage : OwnUsage },
    parameters: [
      parameter("by", `${groupWords}. Default: day.`),
      ...ledgerParameters(...(everybody ? [] : ["key"])),
      parameter("after", "The next of the page before."),
      parameter("limit", "The most rows of a page.", { type: "integer", minimum: 1, maximum: maxRows, default: 1000 }),
    ],
  });
}

export const describeUsage = (surface: SurfaceName): Record<string, unknown> =>
  described(
    tags[surface],
    `${surface}Usage`,
    "What the key's calls used and cost, and what is left of its budgets",
    "By the ledger; on both surfaces together. Rows are in the order of their groups. Budgets are as they stand now, whatever is asked for.",
    false,
  );

export const describeAdminUsage = (): Record<string, unknown> =>
  described(
    "Admin",
    "adminUsage",
    "What all calls used and cost",
    "By the ledger, in the words of /v1/usage. Rows are in the order of their groups.",
    true,
  );
