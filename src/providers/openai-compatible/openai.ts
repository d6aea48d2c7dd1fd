/** OpenAI, and any server that follows it to the letter: https://platform.openai.com/docs/api-reference/chat */

import { openaiResponses } from "../responses/quirks.ts";
import { openAiCompatible } from "./openai-compatible.ts";
import type { Quirks } from "./quirks.ts";

export const openAiQuirks: Quirks = {
  allowed_tools: true,
  refusal_parts: true,
  // Longer ids, made by other providers, are refused: "string too long. Expected a string with maximum length 40".
  tool_call_ids: "at_most_40_characters",
};

export const openai = openAiCompatible({
  name: "openai",
  baseUrl: "https://api.openai.com/v1",
  environment: { keys: ["OPENAI_API_KEY"], baseUrl: ["OPENAI_BASE_URL"] },
  models: [
    "gpt-6-astra",
    "gpt-6-sol",
    "gpt-6-luna",
    "gpt-5.6-sol",
    "gpt-5.6-terra",
    "gpt-5.6-luna",
    "gpt-5.5",
    "gpt-5.4",
    "gpt-5.4-mini",
  ],
  responses: openaiResponses,
  // "Invalid 'tools': array too long. Expected an array with maximum length 128": https://github.com/zed-industries/zed/issues/32946
  maxTools: 128,
  quirks: openAiQuirks,
  // "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
  // https://platform.openai.com/docs/guides/reasoning
  modelRules: [
    ...["o1*", "o3*", "o4*", "gpt-5*", "gpt-6*"].map((match) => ({
      match,
      max_tokens_field: "max_completion_tokens" as const,
    })),
    // "none", which other formats' callers send to switch thinking off, is taken from gpt-5.1 on. Models that do not think refuse
    // the field, and older ones can't be without it: https://platform.openai.com/docs/api-reference/chat/create
    ...["gpt-5", "gpt-5-20*", "gpt-5-mini*", "gpt-5-nano*"].map((match) => ({ match, efforts: { none: "minimal" } })),
    ...["gpt-3*", "gpt-4*", "chatgpt-*", "gpt-5-*", "o1*", "o3*", "o4*"].map((match) => ({
      match,
      efforts: { none: null },
    })),
    // "This is a chat model and not supported in the v1/completions endpoint", say all others.
    ...["gpt-3.5-turbo-instruct*", "davinci-002", "babbage-002", "ft:davinci-002*", "ft:babbage-002*"].map((match) => ({
      match,
      completions: true,
    })),
  ],
});
