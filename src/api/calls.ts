/** Attempts to answer calls, as the ledger has them and the API answers them. */
import { Type } from "@sinclair/typebox";
import { Open, titled, Words } from "../lib/json/schemas.ts";
import { type Answer, OrNull, pageSchema } from "./shape.ts";
import { callEnds, failureReasons, priceSources } from "./words.ts";

const begun = {
  request_id: Type.String(),
  attempt: Type.Integer(),
  at: Type.String(),
  key: Type.String(),
  key_name: OrNull(Type.String()),
  tags: Type.Array(Type.String()),
  surface: Type.String(),
  format: Type.String({ description: "The client's." }),
  model: Type.String({ description: "As the caller named it." }),
  persona: OrNull(Type.String()),
  persona_version: OrNull(Type.String()),
  variant: OrNull(Type.String()),
  provider: OrNull(Type.String()),
  upstream_model: OrNull(Type.String()),
  upstream_format: OrNull(Type.String()),
  upstream_key: OrNull(Type.String(), {
    description: "The fingerprint, of a provider with several keys or endpoints.",
  }),
  upstream_endpoint: OrNull(Type.String()),
  client: OrNull(Type.String(), { description: "The program that called, by its user agent." }),
  user: OrNull(Type.String(), { description: "The end user, as the request names it." }),
  metadata: OrNull(Type.Record(Type.String(), Type.String())),
};
/** Known once a call has ended. */
export const ending = {
  ended: Words(callEnds),
  failure: OrNull(Words(failureReasons), { description: "Why an upstream failed or refused it." }),
  error_code: OrNull(Type.String(), { description: "The error's code, in the upstream's word or ours." }),
  error_text: OrNull(Type.String(), {
    description:
      "The place in the request that the error names, and what it says: our own, those of upstreams about the account and its limits, and with log.content all.",
  }),
  status: OrNull(Type.Integer()),
  call_of: OrNull(Type.String(), { description: "The request whose answer it is, where it was replayed or joined." }),
  service_tier: OrNull(Type.String()),
  counted: Words(["upstream", "estimated", "unknown", "none"], { description: "Source of the counts." }),
  tokens: Type.Record(Type.String(), Type.Integer()),
  first_token_ms: OrNull(Type.Integer()),
  total_ms: Type.Integer(),
  cost_micro_dollars: OrNull(Type.Integer(), { description: "null: unknown." }),
  costs_micro_dollars: OrNull(Type.Record(Type.String(), Type.Integer())),
  price_source: Words(priceSources),
  price_date: OrNull(Type.String()),
  price_note: OrNull(Type.String()),
};

export const Call = Open({
  object: Type.Literal("call"),
  id: Type.String({ description: "Names the attempt, and the page behind it." }),
  ...begun,
  ...ending,
});
export type Call = Answer<typeof Call>;

export const OpenCall = Open({
  object: Type.Literal("call.open"),
  ...begun,
  age_ms: Type.Integer({ description: "Since the attempt began." }),
});
export type OpenCall = Answer<typeof OpenCall>;

export const CallPage = Type.Object({
  ...pageSchema(Call).properties,
  searched_since: OrNull(Type.String(), {
    description: "No call before then was looked at yet; null: the page is full, or there are no more.",
  }),
});
export type CallPage = Answer<typeof CallPage>;

export const OpenCalls = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(OpenCall),
  has_more: Type.Boolean(),
  total: Type.Integer(),
  workers: OrNull(
    Type.Object({
      workers: OrNull(Type.Integer(), { description: "null: the supervisor did not answer." }),
      answered: Type.Integer({ description: "Those whose calls these are." }),
    }),
    { description: "null: there are no workers." },
  ),
});
export type OpenCalls = Answer<typeof OpenCalls>;

export const CallAttempts = Type.Object({
  object: Type.Literal("call.attempts"),
  request_id: Type.String(),
  attempts: Type.Array(Call),
});
export type CallAttempts = Answer<typeof CallAttempts>;

export const CallContent = Type.Object({
  object: Type.Literal("call.content"),
  request_id: Type.String(),
  messages: OrNull(
    Type.Array(
      Type.Object({
        role: Type.String(),
        text: Type.String({
          description: "Parts that are no text stand as [image_url], say; calls of tools as their JSON.",
        }),
        is_cut: Type.Boolean({ description: "There is more of it than is shown." }),
      }),
    ),
    { description: "Those that came with the call, and the answer last." },
  ),
  missing: OrNull(Words(["log_content_off", "not_stored"]), { description: "Why there are none." }),
});
export type CallContent = Answer<typeof CallContent>;

titled({ OpenCall, Call });
