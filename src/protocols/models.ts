import { type Static, Type } from "@sinclair/typebox";

export const Model = Type.Object(
  {
    id: Type.String({ description: "<namespace>/<name>" }),
    object: Type.Literal("model"),
    created: Type.Integer({ description: "Unix time in seconds." }),
    owned_by: Type.String(),
    name: Type.String({ description: "For people; clients that list models show it." }),
    description: Type.Optional(Type.String()),
    tier: Type.Optional(Type.String({ description: "The lowest plan that may use it (orchestrator)." })),
  },
  { additionalProperties: true },
);
export const ModelList = Type.Object({ object: Type.Literal("list"), data: Type.Array(Model) });

export type Model = Static<typeof Model>;
export type ModelList = Static<typeof ModelList>;
