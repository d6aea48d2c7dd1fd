/** The object of a response, in any state of its life. */
import type { JsonObject } from "../../lib/json/json.ts";
import type { Envelope, Usage } from "../chat/schema.ts";
import { type ResponseStatus, usageFields } from "./ending.ts";
import { echoOf, type ResponsesOptions } from "./options.ts";

/** What has become of a response so far; nothing of it for one that has not begun. */
export type ResponseState = {
  readonly output?: readonly JsonObject[];
  /** In the inner form. */
  readonly usage?: Usage | null | undefined;
  /** Of an incomplete one. */
  readonly reason?: string | undefined;
  /** Of a failed one. */
  readonly error?: ResponseError | undefined;
  /** The one that the upstream served it with. */
  readonly serviceTier?: unknown;
};

export type ResponseError = { readonly code: string; readonly message: string };

/** @returns the whole object: each member that the format requires is there */
export function responseObject(
  { output = [], usage, reason, error, serviceTier }: ResponseState,
  { id, created, model, completed }: Envelope,
  options: ResponsesOptions,
  status: ResponseStatus,
): JsonObject {
  return {
    id,
    object: "response",
    created_at: created,
    status,
    completed_at: status === "completed" ? (completed?.() ?? null) : null,
    error: error ?? null,
    incomplete_details: reason === undefined ? null : { reason },
    model,
    output,
    ...echoOf(options),
    ...(typeof serviceTier === "string" && { service_tier: serviceTier }),
    usage: usage == null ? null : usageFields(usage),
  };
}
