/** Versions of personas, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { titled } from "../lib/json/schemas.ts";
import { type Answer, OrNull } from "./shape.ts";

const version = {
  object: Type.Literal("persona.version"),
  id: Type.String({ description: "The version: 12 hexadecimal digits." }),
  persona: Type.String(),
  created_at: OrNull(Type.String(), { description: "When it was first kept; null: it is not kept yet." }),
  used_at: OrNull(Type.String(), { description: "When it was last in service or called." }),
  in_service: Type.Boolean(),
  labels: Type.Array(Type.String()),
};

export const PersonaVersion = Type.Object(version);
export type PersonaVersion = Answer<typeof PersonaVersion>;

export const PersonaVersionText = Type.Object({
  ...version,
  source: OrNull(Type.String(), { description: "Its file as it was written; null: that is not known." }),
  resolved: Type.String({ description: "Its content as YAML, includes in place: what versions are compared by." }),
});
export type PersonaVersionText = Answer<typeof PersonaVersionText>;

const Times = Type.Object({ p50: OrNull(Type.Integer()), p95: OrNull(Type.Integer()) });

export const PersonaNumbers = Type.Object({
  object: Type.Literal("list"),
  persona: Type.String(),
  since: Type.String(),
  until: Type.String(),
  data: Type.Array(
    Type.Object({
      version: Type.String({ description: "Empty: not known." }),
      variant: Type.String({ description: "Empty: none." }),
      calls: Type.Integer({ description: "Attempts; replays and joined calls are none." }),
      errors: Type.Integer({ description: "Those that broke, were refused or were interrupted." }),
      cost_micro_dollars: Type.Integer(),
      unknown_cost_calls: Type.Integer(),
      first_token_ms: Times,
      total_ms: Times,
      timed_calls: Type.Integer({ description: "By how many of the latest calls the times are." }),
    }),
  ),
});
export type PersonaNumbers = Answer<typeof PersonaNumbers>;
export type PersonaNumbersRow = PersonaNumbers["data"][number];
export type Times = PersonaNumbersRow["total_ms"];

titled({ PersonaVersion, PersonaVersionText });
