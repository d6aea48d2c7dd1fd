/** Why an answer ended and what it cost, in this format's words. */
import { type JsonObject, numberOf, objectOf, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/own-member.ts";
import type { ChunkBody, FinishReason, Logprobs, TokenLogprob, Usage } from "../chat/schema.ts";

const reasons: Readonly<Record<FinishReason, string>> = {
  stop: "STOP",
  // Calls have no reason of their own.
  tool_calls: "STOP",
  function_call: "STOP",
  length: "MAX_TOKENS",
  content_filter: "SAFETY",
};

/** @param metadata where Google's own reason stands, of an answer of its models that was translated */
export function finishReason(
  finish: FinishReason | null | undefined,
  index: number,
  metadata: ChunkBody["metadata"] = {},
): string {
  const own = metadata[index === 0 ? "finish_reason" : `finish_reason.${index}`];
  return own !== undefined && /^[A-Z][A-Z_]+$/.test(own) ? own : (ownMember(reasons, finish ?? "stop") ?? "OTHER");
}

/** Thinking is counted apart from the rest of the output here. @returns undefined where nothing was counted */
export function usageMetadata(usage: Usage | null | undefined): JsonObject | undefined {
  if (usage == null || usage.total_tokens === 0) return undefined;
  const { prompt_tokens, completion_tokens, prompt_tokens_details } = usage;
  const cached = numberOf(prompt_tokens_details?.["cached_tokens"]) ?? 0;
  const thoughts = numberOf(objectOf(usage.completion_tokens_details)?.["reasoning_tokens"]) ?? 0;
  return {
    promptTokenCount: prompt_tokens,
    candidatesTokenCount: Math.max(0, completion_tokens - thoughts),
    totalTokenCount: usage.total_tokens,
    ...(cached > 0 && { cachedContentTokenCount: cached }),
    ...(thoughts > 0 && { thoughtsTokenCount: thoughts }),
  };
}

export function logprobsResult(logprobs: Logprobs | null | undefined): JsonObject | undefined {
  const content = logprobs?.content ?? [];
  if (content.length === 0) return undefined;
  return {
    topCandidates: content.map(({ top_logprobs }) => ({ candidates: top_logprobs.map(candidate) })),
    chosenCandidates: content.map(candidate),
  };
}

const candidate = ({ token, logprob }: Pick<TokenLogprob, "token" | "logprob">) => ({ token, logProbability: logprob });

/** https://ai.google.dev/api/generate-content#citationmetadata */
export function citationMetadata(annotations: unknown): JsonObject | undefined {
  const cited = (Array.isArray(annotations) ? annotations : []).flatMap((one) => {
    const { start_index, end_index, url, title } = objectOf(objectOf(one)?.["url_citation"]) ?? {};
    const uri = textOf(url);
    if (uri === undefined) return [];
    return [
      {
        ...(numberOf(start_index) !== undefined && { startIndex: start_index }),
        ...(numberOf(end_index) !== undefined && { endIndex: end_index }),
        uri,
        ...(textOf(title) && { title }),
      },
    ];
  });
  return cited.length === 0 ? undefined : { citationSources: cited };
}
