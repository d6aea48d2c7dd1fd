/** Variants of personas, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { titled, Words } from "../lib/json/schemas.ts";
import { type Answer, OrNull } from "./shape.ts";

const WindowCount = Type.Object({
  count: Type.Integer(),
  stops_at: OrNull(Type.Integer(), {
    description: "The least that stops it, if it is worse than the others; of cost: more than it.",
  }),
  others: Type.Integer(),
});

export const Variant = Type.Object({
  object: Type.Literal("persona.variant"),
  name: Type.String(),
  weight: Type.Integer(),
  share: Type.Number({ description: "Of the callers, while none is stopped." }),
  state: Words(["serving", "stopped"], { description: "stopped: by itself or by hand." }),
  stopped_at: OrNull(Type.String()),
  reason: OrNull(Type.String(), { description: "error_rate, refusals, p95_seconds, cost, or operator: by hand." }),
  calls: Type.Integer({ description: "By the ledger, here and below: attempts, in all versions of the persona." }),
  finished: Type.Integer(),
  broken: Type.Integer(),
  refused: Type.Integer(),
  cost_micro_dollars: Type.Integer(),
  unknown_cost_calls: Type.Integer(),
  window: OrNull(
    Type.Object({
      calls: Type.Integer({ description: "Of the variant in the present window, or in the one that stopped it." }),
      of: Type.Integer(),
      other_calls: Type.Integer(),
      windows: Type.Integer({ description: "Windows that ended without a stop." }),
      errors: WindowCount,
      refusals: WindowCount,
      slow: WindowCount,
      cost_micro_dollars: WindowCount,
    }),
    { description: "What it is judged by; null: it never stops itself." },
  ),
});
export type Variant = Answer<typeof Variant>;

export const Variants = Type.Object({
  object: Type.Literal("list"),
  persona: Type.String(),
  version: Type.String(),
  data: Type.Array(Variant),
});
export type Variants = Answer<typeof Variants>;

titled({ Variant, Variants });
