/** Why an answer ended and what it cost, in this format's words. */
import { type JsonObject, numberOf, objectOf, textOf } from "../../lib/json/json.ts";
import type { ChunkBody, FinishReason, Usage } from "../chat/schema.ts";

export type StopFields = {
  readonly stop_reason: string | null;
  readonly stop_sequence: string | null;
  readonly stop_details: JsonObject | null;
};

export const notStopped: StopFields = { stop_reason: null, stop_sequence: null, stop_details: null };

/** What is known of an end. */
export type Ending = {
  readonly finish: FinishReason | null | undefined;
  /** The answer holds calls of the caller's tools. */
  readonly calls: boolean;
  /** In the model's or its provider's words. */
  readonly refusal?: string | undefined;
  /** What some servers say beside the reason: the stop sequence that was hit. */
  readonly stoppedAt?: unknown;
};

/**
 * Clients run tools on `tool_use` alone, and some upstreams say something else beside calls, so their presence decides; but an
 * answer cut short may hold half a call, which must not be run.
 * @param stops the request's stop sequences
 */
export function stopFields({ finish, calls, refusal, stoppedAt }: Ending, stops: readonly string[]): StopFields {
  if (finish === "length") return { ...notStopped, stop_reason: "max_tokens" };
  if (finish === "content_filter" || refusal) {
    const stop_details = { type: "refusal", category: null, explanation: refusal || null };
    return { ...notStopped, stop_reason: "refusal", stop_details };
  }
  if (calls) return { ...notStopped, stop_reason: "tool_use" };
  const sequence = textOf(stoppedAt);
  if (sequence !== undefined && stops.includes(sequence)) {
    return { ...notStopped, stop_reason: "stop_sequence", stop_sequence: sequence };
  }
  return { ...notStopped, stop_reason: "end_turn" };
}

/** What vLLM and servers like it say beside `finish_reason`: https://docs.vllm.ai/en/latest/serving/openai_compatible_server */
export const stoppedAt = (choice: object): unknown => (choice as JsonObject)["stop_reason"];

/** The tiers in this format's words. */
const tiers: Readonly<Record<string, string>> = { default: "standard", standard: "standard", priority: "priority" };

/** Tokens from the cache, and those written to it, are counted apart from the others here. */
export function usageFields(usage: Usage | null | undefined, { service_tier }: Pick<ChunkBody, "service_tier"> = {}) {
  const details = usage?.prompt_tokens_details;
  const prompt = usage?.prompt_tokens ?? 0;
  // Some upstreams count what they read among what they wrote, too.
  const read = Math.min(details?.["cached_tokens"] ?? 0, prompt);
  const written = Math.min(details?.["cache_write_tokens"] ?? 0, prompt - read);
  const thinking = numberOf(objectOf(usage?.completion_tokens_details)?.["reasoning_tokens"]);
  const tier = tiers[service_tier ?? ""];
  return {
    input_tokens: prompt - read - written,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
    output_tokens: usage?.completion_tokens ?? 0,
    ...(thinking !== undefined && { output_tokens_details: { thinking_tokens: thinking } }),
    ...(tier !== undefined && { service_tier: tier }),
  };
}
