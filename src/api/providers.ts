/** Providers, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { titled, Words } from "../lib/json/schemas.ts";
import { type Answer, OrNull } from "./shape.ts";
import { failureReasons } from "./words.ts";

const Reason = Type.String({ description: `${failureReasons.join(", ")}.` });

export const ProviderCooldown = Type.Object({
  model: OrNull(Type.String(), { description: "The only model that it is in cooldown for; null: all." }),
  reason: Reason,
  until: Type.String(),
  workers: Type.Integer({ description: "In how many of the server's workers; 1 without workers." }),
});
export type ProviderCooldown = Answer<typeof ProviderCooldown>;

export const ProviderKey = Type.Object({
  fingerprint: Type.String({ description: "Of the key; empty where there is none." }),
  name: OrNull(Type.String(), { description: "The key's name in the configuration." }),
  endpoint: Type.String(),
  weight: Type.Number(),
  calls_under_way: Type.Integer(),
  first_token_ms: OrNull(Type.Number(), { description: "A moving average of the last minutes." }),
  rests: Type.Array(ProviderCooldown),
  breaker: Type.Object({
    state: Words(["closed", "open", "half_open"]),
    reason: OrNull(Reason),
    until: OrNull(Type.String()),
    workers: Type.Integer({ description: "In how many of the server's workers it is in this state." }),
    failures: Type.Integer({ description: "In a row." }),
  }),
});
export type ProviderKey = Answer<typeof ProviderKey>;

export const Provider = Type.Object({
  object: Type.Literal("provider"),
  id: Type.String(),
  dialect: Type.String(),
  state: Words(["ok", "degraded", "resting"], {
    description: "degraded: some of its keys or endpoints are in cooldown; resting: all are.",
  }),
  strategy: Type.String(),
  keys: Type.Array(ProviderKey, {
    description: "As the server knows them that answers, all of its workers together; each key at each endpoint.",
  }),
  workers: OrNull(
    Type.Object({
      workers: OrNull(Type.Integer(), { description: "null: the supervisor did not answer." }),
      answered: Type.Integer({ description: "Those whose state this is." }),
    }),
    { description: "null: there are no workers." },
  ),
});
export type Provider = Answer<typeof Provider>;

export const ProviderList = Type.Object({ object: Type.Literal("list"), data: Type.Array(Provider) });
export type ProviderList = Answer<typeof ProviderList>;
export type Workers = Provider["workers"];

export const ProviderDetail = Type.Object({
  ...Provider.properties,
  last_hour: Type.Object(
    {
      attempts: Type.Integer(),
      failures: Type.Integer({ description: "Without those that are the request's own." }),
      error_rate: OrNull(Type.Number()),
      first_token_ms: Type.Object({ p50: OrNull(Type.Integer()), p95: OrNull(Type.Integer()) }),
    },
    { description: "By the ledger; of its last 500 attempts where there were more." },
  ),
  last_errors: Type.Array(
    Type.Object({
      at: Type.String(),
      request_id: Type.String(),
      reason: Reason,
      status: OrNull(Type.Integer()),
      error_code: OrNull(Type.String(), { description: "In the upstream's word." }),
      error_text: OrNull(Type.String(), { description: "As much of what it said as a call's line has." }),
      key: OrNull(Type.String(), { description: "The fingerprint, where there are several." }),
      endpoint: OrNull(Type.String()),
    }),
    { description: "The newest first, 10 at most, of the last hour." },
  ),
});
export type ProviderDetail = Answer<typeof ProviderDetail>;
export type ProviderError = ProviderDetail["last_errors"][number];

export const ProviderTested = Type.Object({
  object: Type.Literal("provider.tested"),
  provider: Type.String(),
  model: Type.String(),
  results: Type.Array(
    Type.Object({
      fingerprint: Type.String(),
      endpoint: Type.String(),
      answered: Type.Boolean(),
      status: OrNull(Type.Integer()),
      reason: OrNull(Reason),
      message: OrNull(Type.String(), { description: "The beginning of the error." }),
      answer: OrNull(Type.String(), { description: "The beginning of the answer's text." }),
      tokens: OrNull(Type.Object({ input: Type.Integer(), output: Type.Integer() }), {
        description: "As the provider counted them.",
      }),
      cost_micro_dollars: OrNull(Type.Integer(), { description: "null: unknown." }),
      milliseconds: Type.Integer(),
    }),
  ),
});
export type ProviderTested = Answer<typeof ProviderTested>;

titled({ Provider, ProviderDetail, ProviderKey });
