/**
 * Token counts and log probabilities in the public format's meaning.
 * Source: https://ai.google.dev/api/generate-content#UsageMetadata
 */
import { type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import { type Billed, billed, type Logprobs, type TokenLogprob, type Usage } from "../../protocols/chat/schema.ts";
import { countOf, impossible } from "../reading.ts";

/** Searches that grounded an answer: https://ai.google.dev/gemini-api/docs/google-search#grounded-response */
export const searchesIn = (grounding: JsonObject | undefined): number => listOf(grounding?.["webSearchQueries"]).length;

/** Counts that are zero are left out of this JSON. @param searches of the web, which are billed beside the tokens */
export function usageOf(counts: JsonObject, searches = 0): Usage {
  const count = (name: string) => countOf(counts[name]) ?? 0;
  const prompt_tokens = count("promptTokenCount") + count("toolUsePromptTokenCount");
  const completion_tokens = count("candidatesTokenCount") + count("thoughtsTokenCount");
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
    ...billedOf(counts, searches),
  };
}

function billedOf(counts: JsonObject, searches: number): { [billed]?: Billed } {
  const audioCacheRead = modalityTokens(counts["cacheTokensDetails"], "AUDIO");
  const imageInput = modalityTokens(counts["promptTokensDetails"], "IMAGE");
  const imageOutput = modalityTokens(counts["candidatesTokensDetails"], "IMAGE");
  const serviceTier =
    textOf(counts["serviceTier"])?.replace(/^SERVICE_TIER_/, "") ?? tierOf(textOf(counts["trafficType"]));
  if (!audioCacheRead && !imageInput && !imageOutput && !searches && serviceTier === undefined) return {};
  return {
    [billed]: {
      ...(audioCacheRead && { audioCacheRead }),
      ...(imageInput && { imageInput }),
      ...(imageOutput && { imageOutput }),
      ...(searches > 0 && { tools: { web_search: searches } }),
      ...(serviceTier !== undefined && { serviceTier }),
    },
  };
}

/** In Vertex's word: https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerateContentResponse#TrafficType */
function tierOf(trafficType: string | undefined): string | undefined {
  if (trafficType === undefined || trafficType === "TRAFFIC_TYPE_UNSPECIFIED") return undefined;
  return trafficType.toLowerCase().replace(/^on_demand_?/, "") || "standard";
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

const encoder = new TextEncoder();

function tokenLogprob(value: unknown): { token: string; logprob: number; bytes: number[] } {
  const { token, logProbability } = objectOf(value) ?? {};
  const text = textOf(token) ?? "";
  return {
    token: text,
    logprob: Number.isFinite(logProbability) ? (logProbability as number) : impossible,
    bytes: [...encoder.encode(text)],
  };
}
