/** What calls used and cost, as the API answers it. */
import { Type } from "@sinclair/typebox";
import { titled } from "../lib/json/schemas.ts";
import { HeldBudget } from "./budgets.ts";
import { type Answer, OrNull } from "./shape.ts";
import { firstTokenBounds } from "./words.ts";

export const UsageSums = Type.Object({
  calls: Type.Integer({ description: "Attempts, however they ended." }),
  ended: Type.Union([Type.Record(Type.String(), Type.Integer()), Type.String()], {
    description: "Attempts by how they ended. In rows that were asked for by how calls ended: how theirs did.",
  }),
  tokens: Type.Record(Type.String(), Type.Integer()),
  cost_micro_dollars: Type.Integer({ description: "Millionths of a dollar, of the calls whose cost is known." }),
  costs_micro_dollars: Type.Record(Type.String(), Type.Integer()),
  unknown_cost_calls: Type.Integer({ description: "How many calls the cost leaves out." }),
  estimated_calls: Type.Integer({ description: "How many calls have estimated counts." }),
  first_token_ms: Type.Optional(
    Type.Object(
      {
        calls: Type.Integer({ description: "Those that had a first token." }),
        ...{ p50: OrNull(Type.Integer()), p95: OrNull(Type.Integer()), p99: OrNull(Type.Integer()) },
      },
      {
        description: `With first_token=true. The ledger counts times in buckets that end at ${firstTokenBounds.join(", ")} ms; within one it is interpolated, and beyond the last one that is given.`,
      },
    ),
  ),
});
export type UsageSums = Answer<typeof UsageSums>;
/** Of all rows together, or of one that was not asked for by how calls ended. */
export type UsageTotals = Omit<UsageSums, "ended"> & { readonly ended: Readonly<Record<string, number>> };
/** With a member for each group that was asked for. */
export type UsageRow = UsageTotals & { readonly [group: string]: unknown; readonly key_name?: string | null };

export const Usage = Type.Object({
  object: Type.Literal("usage"),
  since: Type.String(),
  until: Type.String(),
  by: Type.Array(Type.String()),
  data: Type.Array(UsageSums, { description: "Each with a member for each group, such as day; key_name beside key." }),
  total: UsageSums,
  rows: Type.Optional(Type.Integer({ description: "With top: how many rows there are in all." })),
  has_more: Type.Boolean(),
  next: OrNull(Type.String(), { description: "Where the next page begins: after=<next>." }),
});
export type Usage = Answer<typeof Usage>;

export const OwnUsage = Type.Object({
  ...Usage.properties,
  budgets: Type.Array(HeldBudget, { description: "Every budget that the key's calls count against." }),
});
export type OwnUsage = Answer<typeof OwnUsage>;

const LedgerState = Type.Object(
  {
    newest_call_at: OrNull(Type.String(), { description: "When the newest counted call began; null: there is none." }),
    lines_waiting: Type.Integer({ description: "Ended calls that are not written yet, of the process that answers." }),
    lag_seconds: Type.Number({ description: "How long the oldest of them has waited." }),
    retention_days: Type.Integer({ description: "How long lines are kept." }),
  },
  { description: "How new and how old what is counted can be." },
);

/** Of all calls, for who runs the server. */
export const AllUsage = Type.Object({ ...Usage.properties, ledger: LedgerState });
export type AllUsage = Omit<Answer<typeof AllUsage>, "data" | "total"> & {
  readonly data: readonly UsageRow[];
  readonly total: UsageTotals;
};

titled({ UsageSums, Usage: OwnUsage });
