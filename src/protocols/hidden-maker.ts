/**
 * An untranslated answer of a persona that keeps to the server which model answers: it has the members that its format has, and no
 * others, and the name that was asked for. Ids stay, as the caller may send them back.
 */
import { parseExact } from "../lib/json/exact.ts";
import { isObject, type JsonObject, objectOf } from "../lib/json/json.ts";
import { ownMember } from "../lib/json/own-member.ts";

/** The members of an object that stay, by their names; under one stands what stays within it. */
type Kept = { readonly [name: string]: true | Kept };

const all = (...names: string[]): Record<string, true> => Object.fromEntries(names.map((name) => [name, true]));

const cacheCounts = all("cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation");
const messageUsage: Kept = {
  ...all("input_tokens", "output_tokens", "output_tokens_details", "server_tool_use", "service_tier"),
  ...cacheCounts,
};
/** https://platform.claude.com/docs/en/api/messages */
const message: Kept = {
  ...all("id", "type", "role", "content", "model", "stop_reason", "stop_sequence", "stop_details"),
  ...all("container", "context_management"),
  usage: messageUsage,
};

/** https://platform.openai.com/docs/api-reference/responses/object */
const response: Kept = {
  ...all("id", "object", "created_at", "completed_at", "status", "background", "error", "incomplete_details"),
  ...all("instructions", "max_output_tokens", "max_tool_calls", "model", "output", "parallel_tool_calls"),
  ...all("previous_response_id", "conversation", "prompt", "prompt_cache_key", "prompt_cache_retention", "reasoning"),
  ...all("safety_identifier", "service_tier", "store", "temperature", "text", "tool_choice", "tools", "top_logprobs"),
  ...all("top_p", "truncation", "user", "metadata"),
  usage: all("input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"),
};

/** What plain answers and events of a format hold. */
const keptIn: Readonly<Record<string, Kept>> = {
  messages: { ...message, ...all("index", "delta", "content_block", "error"), message },
  // https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
  "generate-content": {
    ...all("candidates", "promptFeedback", "modelVersion", "responseId", "error"),
    usageMetadata: {
      ...all("promptTokenCount", "candidatesTokenCount", "totalTokenCount", "cachedContentTokenCount"),
      ...all("thoughtsTokenCount", "toolUsePromptTokenCount", "promptTokensDetails", "candidatesTokensDetails"),
      ...all("cacheTokensDetails", "toolUsePromptTokensDetails"),
    },
  },
  responses: response,
  // https://platform.openai.com/docs/api-reference/completions/object
  completions: {
    ...all("id", "object", "created", "model", "choices", "error"),
    usage: all(
      "prompt_tokens",
      "completion_tokens",
      "total_tokens",
      "prompt_tokens_details",
      "completion_tokens_details",
    ),
  },
};

/** @param model as it was asked for @returns what rewrites a plain answer, or an event's data, of the format; undefined where it has neither */
export function withoutMaker(format: string, model: string): ((data: string) => string) | undefined {
  const kept = ownMember(keptIn, format);
  if (kept === undefined) return undefined;
  const shown = (said: JsonObject): JsonObject => {
    if (format !== "responses" || said["object"] === "response") return only(said, kept, model);
    // An event, whose own members the format has without end.
    const whole = objectOf(said["response"]);
    return whole === undefined ? said : { ...said, response: only(whole, kept, model) };
  };
  return (data) => {
    const said = parseExact(data);
    return isObject(said) ? JSON.stringify(shown(said)) : data;
  };
}

const modelNames: ReadonlySet<string> = new Set(["model", "modelVersion"]);

function only(said: JsonObject, kept: Kept, model: string): JsonObject {
  const entries = Object.entries(said).flatMap(([name, value]) => {
    const within = Object.hasOwn(kept, name) ? kept[name] : undefined;
    if (within === undefined) return [];
    if (modelNames.has(name)) return [[name, typeof value === "string" ? model : value]];
    return [[name, within === true || !isObject(value) ? value : only(value, within, model)]];
  });
  return Object.fromEntries(entries);
}
