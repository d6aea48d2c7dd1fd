import { type Static, Type } from "@sinclair/typebox";
import { Open } from "../lib/schemas.ts";

export const Model = Open({
  id: Type.String({ description: "<namespace>/<name>" }),
  object: Type.Literal("model"),
  created: Type.Integer({ description: "Unix time in seconds." }),
  owned_by: Type.String(),
  name: Type.String({ description: "For people; clients that list models show it." }),
  description: Type.Optional(Type.String()),
  tier: Type.Optional(Type.String({ description: "The lowest plan that may use it (orchestrator)." })),
  greeting: Type.Optional(Type.String({ description: "How a persona opens a conversation, for clients to show." })),
  tags: Type.Optional(Type.Array(Type.String(), { description: "Words to find a persona by." })),
});
export const ModelList = Type.Object({ object: Type.Literal("list"), data: Type.Array(Model) });

export type Model = Static<typeof Model>;
export type ModelList = Static<typeof ModelList>;
