/** Budgets, as the admin API answers them. */
import { Type } from "@sinclair/typebox";
import { titled, Words } from "../lib/json/schemas.ts";
import { type Answer, OrNull } from "./shape.ts";
import { healths, periods } from "./words.ts";

export const scopeWords =
  "key:<id>, tag:<name>, tier:<name> or all, and behind it ' model:<pattern>' where only some models count.";
const modelOf = Type.String({ description: "The models whose calls alone count; absent: all." });

export const Budget = Type.Object({
  object: Type.Literal("budget"),
  id: Type.String({ description: "<scope>/<period>" }),
  scope: Type.String({ description: scopeWords }),
  model: Type.Optional(modelOf),
  name: OrNull(Type.String(), { description: "The key's, where it is a key's budget." }),
  period: Words(periods, { description: "day or month, in UTC, or prepaid." }),
  origin: Words(["set", "configuration"], { description: "set: by this API or troupe budgets; configuration." }),
  dollars: Type.Number(),
  span: Type.String(),
  spent: Type.Number({ description: "Dollars, here and below." }),
  reserved: Type.Number({ description: "By calls that are under way." }),
  left: Type.Number(),
  resets_at: OrNull(Type.String()),
  state: Words(healths, { description: "low: four fifths are used or reserved; spent: nothing is left." }),
  runs_out_at: OrNull(Type.String(), {
    description:
      "When it is used up at the pace of its day or month, or of the last seven days for a prepaid sum; null: not before it opens again, or not known.",
  }),
});
export type Budget = Answer<typeof Budget>;

/** As those have it who are held to it, in the words of their usage. */
export const HeldBudget = Type.Object({
  id: Type.String({ description: "<scope>/<period>, as x-troupe-budget names it." }),
  scope: Type.String({ description: scopeWords }),
  model: Type.Optional(modelOf),
  period: Words(periods, { description: "day or month, in UTC, or prepaid." }),
  span: Type.String({ description: "2026-11-22, 2026-11 or prepaid." }),
  limit_micro_dollars: Type.Integer(),
  spent_micro_dollars: Type.Integer(),
  reserved_micro_dollars: Type.Integer({ description: "By calls that are under way." }),
  left_micro_dollars: Type.Integer(),
  resets_at: OrNull(Type.String(), { description: "When it opens again; null: not by itself." }),
});
export type HeldBudget = Answer<typeof HeldBudget>;

titled({ Budget, HeldBudget });
