/**
 * Every place, beside the counts of its prompt and its text, where an answer tells something that is billed: a table for each family, which
 * whatever reads its answers goes by (`billed-reading.ts`). What an upstream says a call cost stands in `usage/counts.ts`.
 */
import { type JsonObject, objectOf } from "../../lib/json/json.ts";

/** What a place counts or names. */
export type Told =
  /** Tokens of the prompt that came from a cache, went into one, and went into one that keeps them for an hour or longer. */
  | "cached"
  | "written"
  | "writtenLong"
  | "audioCached"
  | "reasoning"
  | "imageInput"
  | "imageOutput"
  /** Seconds of a recording that is billed by its length. */
  | "audioSeconds"
  | "serviceTier"
  /** Something else that changes the price, named after the last name of its place. */
  | "surcharge"
  /** Uses of a hosted tool, by its name in prices: their number, or each of them. */
  | `use of ${string}`
  /** Counts of something that was done beside the answer, and is not in the answer's own. */
  | `counts of ${string}`
  /** Counts of the attempt that answered, and its model, where that is not the one that was asked. */
  | "served"
  /** Counts of attempts, those among them that were declined: a declined one costs nothing, unless its output is part of the answer. */
  | "attempt";

export type Place = {
  /** Names of members from the answer on. `[]` stands for each entry of a list, `[name=value]` for those of a kind. */
  readonly at: string;
  readonly is: Told;
  /** Of words: those that change nothing. */
  readonly usual?: readonly string[];
  /** Of entries: those that count. */
  readonly only?: (entry: JsonObject) => boolean;
  readonly source: string;
};

/** A search is billed, and not that its findings are opened: https://platform.openai.com/docs/guides/tools-web-search */
const isSearch = (call: JsonObject): boolean => (objectOf(call["action"])?.["type"] ?? "search") === "search";

const openai = "https://platform.openai.com/docs";
const anthropic = "https://platform.claude.com/docs/en";
const gemini = "https://ai.google.dev/api/generate-content#UsageMetadata";
const builtIn = `${openai}/pricing#built-in-tools`;

/** By family; of several places of one thing the first that tells more than nothing counts. */
export const billedPlaces = {
  chat: [
    { at: "usage.prompt_tokens_details.cached_tokens", is: "cached", source: `${openai}/api-reference/chat/object` },
    { at: "usage.prompt_cache_hit_tokens", is: "cached", source: "https://api-docs.deepseek.com/guides/kv_cache" },
    { at: "usage.cached_tokens", is: "cached", source: "https://platform.moonshot.ai/docs/api/chat" },
    {
      at: "usage.num_cached_tokens",
      is: "cached",
      source: "https://www.npmjs.com/package/@mistralai/mistralai (UsageInfo, 2.7)",
    },
    {
      at: "usage.prompt_token_details.cached_tokens",
      is: "cached",
      source: "https://www.npmjs.com/package/@mistralai/mistralai (UsageInfo, 2.7)",
    },
    {
      at: "usage.prompt_tokens_details.cache_write_tokens",
      is: "written",
      source: "https://openrouter.ai/docs/guides/best-practices/prompt-caching",
    },
    {
      at: "usage.prompt_tokens_details.cache_creation_tokens",
      is: "written",
      source: "https://docs.litellm.ai/docs/completion/prompt_caching",
    },
    {
      at: "usage.prompt_tokens_details.cache_creation_input_tokens",
      is: "written",
      source: "https://www.alibabacloud.com/help/en/model-studio/context-cache",
    },
    {
      at: "usage.prompt_tokens_details.cache_write_tokens_details.ttl_12h_tokens",
      is: "writtenLong",
      source: "https://www.npmjs.com/package/openai (InputTokensDetails, 7.50)",
    },
    {
      at: "usage.completion_tokens_details.reasoning_tokens",
      is: "reasoning",
      source: `${openai}/api-reference/chat/object`,
    },
    {
      at: "usage.reasoning_tokens",
      is: "reasoning",
      source: "https://docs.perplexity.ai/api-reference/chat-completions-post",
    },
    { at: "usage.prompt_audio_seconds", is: "audioSeconds", source: "https://docs.mistral.ai/capabilities/audio" },
    { at: "service_tier", is: "serviceTier", source: `${openai}/api-reference/chat/object` },
    {
      at: "usage.service_tier",
      is: "serviceTier",
      source: "https://www.npmjs.com/package/@mistralai/mistralai (UsageInfo, 2.7)",
    },
  ],
  responses: [
    {
      at: "usage.input_tokens_details.cache_write_tokens_details.ttl_12h_tokens",
      is: "writtenLong",
      source: "https://www.npmjs.com/package/openai (InputTokensDetails, 7.50)",
    },
    { at: "service_tier", is: "serviceTier", source: `${openai}/api-reference/responses/object` },
    {
      at: "tool_usage.image_gen",
      is: "counts of image_generation",
      source: "https://www.npmjs.com/package/openai (Response.ToolUsage, 7.55)",
    },
    {
      at: "tool_usage.web_search.num_requests",
      is: "use of web_search",
      source: "https://www.npmjs.com/package/openai (Response.ToolUsage, 7.55)",
    },
    { at: "output[type=web_search_call]", is: "use of web_search", only: isSearch, source: builtIn },
    { at: "output[type=file_search_call]", is: "use of file_search", source: builtIn },
    { at: "output[type=code_interpreter_call]", is: "use of code_interpreter", source: builtIn },
    { at: "output[type=image_generation_call]", is: "use of image_generation", source: builtIn },
  ],
  messages: [
    {
      at: "usage.cache_creation.ephemeral_1h_input_tokens",
      is: "writtenLong",
      source: `${anthropic}/build-with-claude/prompt-caching`,
    },
    {
      at: "usage.server_tool_use.web_search_requests",
      is: "use of web_search",
      source: `${anthropic}/agents-and-tools/tool-use/web-search-tool#usage-and-pricing`,
    },
    { at: "usage.service_tier", is: "serviceTier", source: `${anthropic}/api/service-tiers` },
    {
      at: "usage.inference_geo",
      is: "surcharge",
      // "not_available" is of models that know no other.
      usual: ["global", "not_available"],
      source: `${anthropic}/manage-claude/data-residency`,
    },
    { at: "usage.speed", is: "surcharge", usual: ["standard"], source: `${anthropic}/build-with-claude/fast-mode` },
    {
      at: "usage.iterations[type=compaction]",
      is: "counts of compaction",
      source: `${anthropic}/build-with-claude/compaction#understanding-usage`,
    },
    {
      at: "usage.iterations[type=advisor_message]",
      is: "counts of advisor",
      source: `${anthropic}/agents-and-tools/tool-use/advisor-tool`,
    },
    {
      at: "usage.iterations[type=fallback_message]",
      is: "served",
      source: `${anthropic}/build-with-claude/refusals-and-fallback`,
    },
    {
      at: "usage.iterations[type=message]",
      is: "attempt",
      source: `${anthropic}/build-with-claude/refusals-and-fallback`,
    },
    // Converse tells it beside its usage, which is read in the words of this family.
    {
      at: "usage.latency",
      is: "surcharge",
      usual: ["standard"],
      source: "https://docs.aws.amazon.com/bedrock/latest/userguide/latency-optimized-inference.html",
    },
  ],
  gemini: [
    { at: "usageMetadata.cacheTokensDetails[modality=AUDIO].tokenCount", is: "audioCached", source: gemini },
    { at: "usageMetadata.promptTokensDetails[modality=IMAGE].tokenCount", is: "imageInput", source: gemini },
    { at: "usageMetadata.candidatesTokensDetails[modality=IMAGE].tokenCount", is: "imageOutput", source: gemini },
    { at: "usageMetadata.serviceTier", is: "serviceTier", source: gemini },
    {
      at: "usageMetadata.trafficType",
      is: "serviceTier",
      source:
        "https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerateContentResponse#TrafficType",
    },
    {
      at: "candidates[].groundingMetadata.webSearchQueries[]",
      is: "use of web_search",
      source: "https://ai.google.dev/gemini-api/docs/google-search#grounded-response",
    },
  ],
} as const satisfies Record<string, readonly Place[]>;

/** Headers of an answer that name its service tier where its body does not. */
export const tierHeaders = {
  /** https://www.npmjs.com/package/@google/genai (3.3) */
  google: "x-gemini-service-tier",
  /** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html */
  bedrock: "x-amzn-bedrock-service-tier",
} as const;
