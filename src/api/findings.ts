/** What checks find, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { titled, Words } from "../lib/json/schemas.ts";
import { type Answer, OrNull } from "./shape.ts";

export const Finding = Type.Object({
  severity: Words(["error", "warning"], { description: "An error keeps the file from being saved." }),
  file: Type.String(),
  line: OrNull(Type.Integer(), { description: "From 1; null: of the file as a whole." }),
  column: OrNull(Type.Integer()),
  path: Type.String({ description: "The field, such as variants[0].model; empty: none." }),
  message: Type.String(),
});
export type Finding = Answer<typeof Finding>;

titled({ Finding });
