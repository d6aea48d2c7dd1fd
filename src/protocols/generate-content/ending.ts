/** The end of an answer and its counts: in this format's words from those of the inner form, and back. */
import { countOf, type JsonObject, listOf, numberOf, objectOf, textOf } from "../../lib/json/json.ts";
import { inverted, ownMember } from "../../lib/json/own-member.ts";
import { billedPlaces } from "../billed/places.ts";
import { billedBy, toldIn } from "../billed/reading.ts";
import {
  type ChunkBody,
  type FinishReason,
  impossible,
  type Logprobs,
  type TokenLogprob,
  type Usage,
} from "../chat/schema.ts";

/**
 * Every other reason becomes "stop", or "tool_calls" where there are calls, with the reason itself in `metadata`.
 * Source: https://ai.google.dev/api/generate-content#FinishReason
 */
const finishReasons: Readonly<Record<string, FinishReason>> = {
  STOP: "stop",
  MAX_TOKENS: "length",
  // The answer is unfinished, and `continuation_token` continues it.
  CONTINUATION: "length",
  // The answer broke off, and what it holds of a call may not be run; Bedrock's words for the same are read so too.
  MALFORMED_RESPONSE: "length",
  UNEXPECTED_TOOL_CALL: "length",
  TOO_MANY_TOOL_CALLS: "length",
  MISSING_THOUGHT_SIGNATURE: "length",
  SAFETY: "content_filter",
  RECITATION: "content_filter",
  BLOCKLIST: "content_filter",
  PROHIBITED_CONTENT: "content_filter",
  SPII: "content_filter",
  LANGUAGE: "content_filter",
  IMAGE_SAFETY: "content_filter",
  IMAGE_PROHIBITED_CONTENT: "content_filter",
  IMAGE_RECITATION: "content_filter",
  MODEL_ARMOR: "content_filter",
};

const reasons = inverted(finishReasons);

/** @param calls whether the answer calls a function */
export function finishOf(reason: string, calls: boolean): FinishReason {
  const finish = ownMember(finishReasons, reason) ?? "stop";
  return finish === "stop" && calls ? "tool_calls" : finish;
}

export function reasonOf(reason: unknown): string | undefined {
  return typeof reason === "string" && reason !== "" && reason !== "FINISH_REASON_UNSPECIFIED" ? reason : undefined;
}

/** Calls have no reason of their own. */
const reasonFor = (finish: FinishReason): string =>
  finish === "tool_calls" || finish === "function_call" ? "STOP" : (ownMember(reasons, finish) ?? "OTHER");

/** @param metadata where Google's own reason stands, of an answer of its models that was translated */
export function finishReason(
  finish: FinishReason | null | undefined,
  index: number,
  metadata: ChunkBody["metadata"] = {},
): string {
  const own = metadata[index === 0 ? "finish_reason" : `finish_reason.${index}`];
  return own !== undefined && /^[A-Z][A-Z_]+$/.test(own) ? own : reasonFor(finish ?? "stop");
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

/** Counts that are zero are left out of this JSON. @param groundings of the candidates, whose searches are billed beside the tokens */
export function usageOf(counts: JsonObject, groundings: readonly JsonObject[] = []): Usage {
  const count = (name: string) => countOf(counts[name]) ?? 0;
  const prompt_tokens = count("promptTokenCount") + count("toolUsePromptTokenCount");
  const completion_tokens = count("candidatesTokenCount") + count("thoughtsTokenCount");
  const candidates = groundings.map((groundingMetadata) => ({ groundingMetadata }));
  const found = toldIn(billedPlaces.gemini, { usageMetadata: counts, candidates });
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: countOf(counts["totalTokenCount"]) ?? prompt_tokens + completion_tokens,
    prompt_tokens_details: {
      cached_tokens: count("cachedContentTokenCount"),
      ...audioTokens(counts["promptTokensDetails"]),
    },
    completion_tokens_details: {
      reasoning_tokens: count("thoughtsTokenCount"),
      ...audioTokens(counts["candidatesTokensDetails"]),
    },
    ...billedBy(found, { serviceTier: tierOf(found.serviceTier) }),
  };
}

/** A tier by either of the two names that say it, `SERVICE_TIER_FLEX` and Vertex's `ON_DEMAND_FLEX`. */
export function tierOf(word: string | undefined): string | undefined {
  const tier = word?.replace(/^SERVICE_TIER_/, "");
  if (tier === undefined || /unspecified$/i.test(tier)) return undefined;
  return /^ON_DEMAND|^PROVISIONED/.test(tier) ? tier.toLowerCase().replace(/^on_demand_?/, "") || "standard" : tier;
}

function audioTokens(details: unknown): { audio_tokens?: number } {
  const audio_tokens = modalityTokens(details, "AUDIO");
  return audio_tokens === undefined ? {} : { audio_tokens };
}

function modalityTokens(details: unknown, modality: string): number | undefined {
  const found = listOf(details)
    .map(objectOf)
    .find((entry) => entry?.["modality"] === modality);
  return countOf(found?.["tokenCount"]);
}

export function logprobsOf(result: JsonObject | undefined): Logprobs | undefined {
  const chosen = listOf(result?.["chosenCandidates"]);
  if (chosen.length === 0) return undefined;
  const tops = listOf(result?.["topCandidates"]);
  const content = chosen.map((token, at): TokenLogprob => {
    const top = listOf(objectOf(tops[at])?.["candidates"]);
    return { ...tokenLogprob(token), top_logprobs: top.map(tokenLogprob) };
  });
  return { content };
}

function tokenLogprob(value: unknown): { token: string; logprob: number; bytes: number[] } {
  const { token, logProbability } = objectOf(value) ?? {};
  const text = textOf(token) ?? "";
  return {
    token: text,
    logprob: Number.isFinite(logProbability) ? (logProbability as number) : impossible,
    bytes: [...Buffer.from(text)],
  };
}
