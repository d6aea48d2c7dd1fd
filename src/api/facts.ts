/** What is known of models and prices, of when it is, and what is not known of the models in use, as the API answers it. */
import { Type } from "@sinclair/typebox";
import { titled, Words } from "../lib/json/schemas.ts";
import { EndState } from "./models.ts";
import { type Answer, OrNull } from "./shape.ts";

const day = { description: "YYYY-MM-DD." };

const ModelInUse = Type.Object({
  id: Type.String({ description: "<account>/<model>" }),
  price: OrNull(Type.String(), { description: "The row that its calls are priced by; null: none is known." }),
  price_change: OrNull(Type.Object({ on: Type.String(day), words: Type.String() }), {
    description: "The next one within 60 days.",
  }),
  assumed: OrNull(Type.String(), { description: "The known model whose facts are taken for it." }),
  shutdown_date: OrNull(Type.String(day)),
  end_state: OrNull(EndState),
});

export const Facts = Type.Object({
  object: Type.Literal("facts"),
  as_of: Type.String(day),
  days_old: Type.Integer(),
  source: OrNull(Type.String(), { description: "The file or address they came from; null: the executable." }),
  sha256: OrNull(Type.String()),
  models_as_of: Type.String(day),
  prices_as_of: Type.String(day),
  update: Type.Object({
    mode: Words(["off", "daily"]),
    from: OrNull(Type.String()),
    keys: Type.Integer({ description: "Of this build, by which published facts are proved; 0: none are taken." }),
    awaited: OrNull(Type.String(), { description: "The SHA-256 of facts that count, and are not here yet." }),
  }),
  last_look: Type.Object({ at: OrNull(Type.String()), failure: OrNull(Type.String()) }),
  models_in_use: Type.Integer({ description: "That files name, or that were called within 30 days." }),
  models: Type.Array(ModelInUse, {
    description:
      "Those in use of which there is something to say: no price, one that changes, an end, or facts that are assumed.",
  }),
});
export type Facts = Answer<typeof Facts>;
export type ModelInUse = Facts["models"][number];

export const Reconciliation = Type.Object({
  object: Type.Literal("reconciliation"),
  account: Type.String({ description: "openai or anthropic." }),
  at: Type.String({ description: "When it was compared." }),
  since: Type.String(day),
  until: Type.String({ description: "The first day that is not of it." }),
  ledger_micro_dollars: OrNull(Type.Integer()),
  reported_micro_dollars: OrNull(Type.Integer(), { description: "null: no cost was reported, only use." }),
  within: Type.Boolean({
    description: "Whether they differ by no more than the tolerance, and all could be compared.",
  }),
  tolerance: Type.Number({ description: "A share of what is reported." }),
  rows_that_differ: Type.Integer({ description: "By day, model and service tier." }),
});
export type Reconciliation = Answer<typeof Reconciliation>;

export const ReconciliationList = Type.Object({ object: Type.Literal("list"), data: Type.Array(Reconciliation) });
export type ReconciliationList = Answer<typeof ReconciliationList>;

titled({ Facts, ModelInUse, Reconciliation });
