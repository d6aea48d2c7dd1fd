/** Nodes, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { Words } from "../lib/json/schemas.ts";
import type { Answer } from "./shape.ts";

export const parts = ["program", "configuration", "personas"] as const;

export const Node = Type.Object({
  object: Type.Literal("node"),
  id: Type.String({ description: "The name of its machine, and what tells several processes on one apart." }),
  is_this: Type.Boolean({ description: "Whether it is the one that answers." }),
  program: Type.String({ description: "Version and commit." }),
  configuration: Type.String({ description: "The version of its configuration." }),
  personas: Type.String({ description: "The version of its personas." }),
  differs: Type.Array(Words(parts), { description: "In what it serves otherwise than the node that answers." }),
});
export type Node = Answer<typeof Node>;

export const Nodes = Type.Object({
  object: Type.Literal("list"),
  store: Words(["sqlite", "postgres"], { description: "With sqlite there is one node." }),
  data: Type.Array(Node),
});
export type Nodes = Answer<typeof Nodes>;
