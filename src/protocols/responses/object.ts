/** The object of a response, in any state of its life. */
import { type JsonObject, objectOf } from "../../lib/json/json.ts";
import type { Envelope, Metadata, Usage } from "../chat/schema.ts";
import { openAiTier } from "../chat/service-tier.ts";
import { type ResponseStatus, usageFields } from "./ending.ts";
import { echoOf, type ResponsesOptions } from "./options.ts";

/** The state of a response so far; empty for one that has not begun. */
export type ResponseState = {
  readonly output?: readonly JsonObject[];
  /** Counts in the inner form. */
  readonly usage?: Usage | null | undefined;
  /** Why it is incomplete, where it is. */
  readonly reason?: string | undefined;
  /** Why it failed, where it did. */
  readonly error?: ResponseError | undefined;
  /** The one that the upstream served it with. */
  readonly serviceTier?: unknown;
  /** Joins the caller's, which is repeated. */
  readonly metadata?: Metadata | undefined;
};

export type ResponseError = { readonly code: string; readonly message: string };

/** @returns the whole object: each member that the format requires is there */
export function responseObject(
  { output = [], usage, reason, error, serviceTier, metadata }: ResponseState,
  envelope: Envelope,
  options: ResponsesOptions,
  status: ResponseStatus,
): JsonObject {
  const { id, created, model } = envelope;
  const echo = echoOf(options);
  return {
    id,
    object: "response",
    created_at: created,
    status,
    completed_at: status === "completed" ? (envelope.completed?.() ?? null) : null,
    error: error ?? null,
    incomplete_details: reason === undefined ? null : { reason },
    model,
    output,
    ...echo,
    ...(metadata !== undefined && { metadata: { ...objectOf(echo["metadata"]), ...metadata } }),
    ...(typeof serviceTier === "string" && { service_tier: openAiTier(serviceTier) }),
    usage: usage == null ? null : usageFields(usage),
  };
}
