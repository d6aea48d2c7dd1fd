/** The object of a response, in any state of its life. */
import type { JsonObject } from "../../lib/json/json.ts";
import type { Envelope, Usage } from "../chat/schema.ts";
import { echoOf, type ResponsesOptions } from "./options.ts";

/** Source: https://platform.openai.com/docs/api-reference/responses/object (status) */
export type ResponseStatus = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

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
    usage: usage == null ? null : usageOf(usage),
  };
}

/**
 * Counts mean here what they mean in the inner form: input includes cached tokens, output includes reasoning. All are there, as
 * typed clients want them: https://platform.openai.com/docs/api-reference/responses/object (usage).
 */
export function usageOf({ prompt_tokens, completion_tokens, total_tokens, ...details }: Usage): JsonObject {
  const { prompt_tokens_details: input, completion_tokens_details: output } = details;
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: {
      cached_tokens: input?.["cached_tokens"] ?? 0,
      cache_write_tokens: input?.["cache_write_tokens"] ?? input?.["cache_creation_tokens"] ?? 0,
    },
    output_tokens: completion_tokens,
    output_tokens_details: { reasoning_tokens: output?.["reasoning_tokens"] ?? 0 },
    total_tokens,
  };
}
