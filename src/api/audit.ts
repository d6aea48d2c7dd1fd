/** The audit, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { titled } from "../lib/json/schemas.ts";
import { type Answer, type Listed, OrNull } from "./shape.ts";

export const AuditEntry = Type.Object({
  object: Type.Literal("act"),
  id: Type.String(),
  at: Type.String(),
  actor: Type.String({
    description:
      "A key's id, user:<name> as a proxy names it, cli:<name> of whoever ran a command, or file:<name> for a change of a file.",
  }),
  actor_name: OrNull(Type.String(), { description: "Of a key." }),
  act: Type.String({ description: "key.create and its like." }),
  subject: Type.String(),
  subject_name: OrNull(Type.String(), { description: "The name of a key, or of the key whose budget it is." }),
  before: Type.Unknown(),
  after: Type.Unknown(),
});
export type AuditEntry = Answer<typeof AuditEntry>;
export type AuditPage = Listed<AuditEntry>;

titled({ AuditEntry });
