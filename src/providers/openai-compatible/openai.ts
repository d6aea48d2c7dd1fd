/** OpenAI, and any server that follows it to the letter: https://platform.openai.com/docs/api-reference/chat */

import { Type } from "@sinclair/typebox";
import { listedModels } from "../../facts/facts.ts";
import type { Quirks } from "../../facts/vocabulary/chat.ts";
import { address } from "../native-endpoints.ts";
import { openaiResponses } from "../responses/quirks.ts";
import { openAiCompatible } from "./openai-compatible.ts";

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
  models: listedModels("openai"),
  responses: openaiResponses,
  // Of servers that are listed nowhere, many have chat completions alone.
  options: Type.Object({ responses_base_url: address("Responses") }),
  responsesOption: "responses_base_url",
  responsesAddress: (path, { baseUrl, options: { responses_base_url: own } }) =>
    `${typeof own === "string" ? own.replace(/\/+$/, "") : baseUrl}/${path}`,
  // "Invalid 'tools': array too long. Expected an array with maximum length 128": https://github.com/zed-industries/zed/issues/32946
  maxTools: 128,
  quirks: openAiQuirks,
});
