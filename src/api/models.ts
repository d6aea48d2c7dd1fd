/** Ends and lists of providers' models, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { Words } from "../lib/json/schemas.ts";
import { Model } from "../protocols/models.ts";
import { type Answer, OrNull, pageSchema } from "./shape.ts";

export const EndState = Words(["ended", "ends_soon", "later"], { description: "ends_soon: within six months." });

const ModelListState = Type.Object({
  provider: Type.String(),
  listed_at: OrNull(Type.String(), {
    description: "When its list came last; null: what is named or well known is listed.",
  }),
  models: Type.Integer({ description: "Of its list." }),
  failure: OrNull(Type.String(), { description: "Why the last question for it failed." }),
});

export const LearnedFact = Type.Object({
  provider: Type.String(),
  model: Type.String(),
  fact: Type.String({ description: "What calls go without, or how they go, as the model refused it." }),
  until: Type.String(),
});
export type LearnedFact = Answer<typeof LearnedFact>;

export const ModelEnding = Type.Object({
  object: Type.Literal("model.ending"),
  id: Type.String({ description: "<provider>/<model>" }),
  provider: Type.String(),
  model: Type.String(),
  shutdown_date: Type.String({ description: "The first day on which it no longer answers." }),
  end_state: EndState,
  calls: Type.Integer({ description: "Of the last seven days." }),
});
export type ModelEnding = Answer<typeof ModelEnding>;

export const ModelPage = Type.Object({
  ...pageSchema(
    Type.Object({
      ...Model.properties,
      end_state: OrNull(EndState, { description: "ends_soon: within six months; null: no end is announced." }),
    }),
  ).properties,
  lists: Type.Array(ModelListState),
  learned: Type.Array(LearnedFact),
});
export type ModelPage = Answer<typeof ModelPage>;
