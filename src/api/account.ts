/** What who holds a key sees of it. */
import { type TString, Type } from "@sinclair/typebox";
import { titled } from "../lib/json/schemas.ts";
import { HeldBudget } from "./budgets.ts";
import { type Answer, OrNull } from "./shape.ts";
import { UsageSums } from "./usage.ts";

const Sums = <Group extends string>(group: Group) =>
  Type.Array(
    Type.Intersect([
      Type.Object({ [group]: OrNull(Type.String()) } as Record<Group, ReturnType<typeof OrNull<TString>>>),
      UsageSums,
    ]),
  );

/** What `GET /v1/account` answers. */
export const Account = Type.Object({
  object: Type.Literal("account"),
  key: Type.Object({
    id: Type.String(),
    name: Type.String(),
    tier: Type.String(),
    surfaces: Type.Array(Type.String()),
    models: Type.Array(Type.String(), { description: "Patterns of the models that it may call." }),
    tags: Type.Array(Type.String()),
    created_at: Type.String(),
    expires_at: OrNull(Type.String()),
    old_key_expires_at: OrNull(Type.String()),
  }),
  limits: Type.Object({
    requests_per_minute: Type.Integer({ description: "On the orchestrator." }),
    tokens_per_minute: OrNull(Type.Integer()),
  }),
  usage: Type.Object({
    since: Type.String(),
    until: Type.String(),
    by_day: Sums("day"),
    by_model: Sums("model"),
    total: UsageSums,
  }),
  budgets: Type.Array(HeldBudget, { description: "Every budget that the key's calls count against." }),
  models: Type.Object({
    data: Type.Array(
      Type.Object({
        id: Type.String(),
        surface: Type.String(),
        description: Type.Optional(Type.String()),
      }),
    ),
    has_more: Type.Boolean(),
  }),
  failed: Type.Array(
    Type.Object({
      at: Type.String(),
      request_id: Type.String(),
      model: Type.String(),
      ended: Type.String(),
      status: OrNull(Type.Integer()),
      error_code: OrNull(Type.String()),
      error_text: OrNull(Type.String()),
    }),
    { description: "The last calls that failed or were refused, the newest first." },
  ),
  rotation: Type.Object({
    allowed: Type.Boolean(),
    grace_seconds: Type.Integer({ description: "How long the old secret is taken beside the new one." }),
  }),
  base_urls: Type.Record(Type.String(), Type.String(), { description: "Paths of the surfaces on this address." }),
});
export type Account = Answer<typeof Account>;

titled({ Account });
