/** Keys, as the admin API answers them. */
import { Type } from "@sinclair/typebox";
import { titled, Words } from "../lib/json/schemas.ts";
import { Budget } from "./budgets.ts";
import { type Answer, OrNull, pageSchema } from "./shape.ts";
import { callEnds, keyStates } from "./words.ts";

export const Key = Type.Object({
  object: Type.Literal("key"),
  id: Type.String(),
  name: Type.String(),
  prefix: Type.String({ description: "Its first characters." }),
  state: Words(keyStates),
  tier: Type.String(),
  per_minute: OrNull(Type.Integer()),
  tokens_per_minute: OrNull(Type.Integer()),
  surfaces: Type.Array(Type.String()),
  models: Type.Array(Type.String()),
  tags: Type.Array(Type.String()),
  created_at: Type.String(),
  last_used_at: OrNull(Type.String()),
  expires_at: OrNull(Type.String()),
  revoked_at: OrNull(Type.String()),
  old_key_expires_at: OrNull(Type.String(), {
    description: "Until when the key before the last rotation is taken too.",
  }),
});
export type Key = Answer<typeof Key>;

export const KeyPage = Type.Object({
  ...pageSchema(Key).properties,
  total: Type.Integer({ description: "On all pages." }),
});
export type KeyPage = Answer<typeof KeyPage>;

export const NewKey = Type.Intersect([Type.Object({ key: Type.String({ description: "Shown this once." }) }), Key]);
export type NewKey = Answer<typeof NewKey>;

export const KeyStatus = Type.Object({
  object: Type.Literal("key.status"),
  id: Type.String(),
  last_call: OrNull(
    Type.Object({
      request_id: Type.String(),
      at: Type.String(),
      client: OrNull(Type.String(), { description: "The program that called, by its user agent." }),
      model: Type.String(),
      ended: Words(callEnds),
    }),
  ),
  budgets: Type.Array(Budget, { description: "Every budget that its calls count against, its own first." }),
});
export type KeyStatus = Answer<typeof KeyStatus>;

titled({ Key, KeyStatus, NewKey });
