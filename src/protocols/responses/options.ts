/** What a Response says of the request that it answers. */
import { isObject, type JsonObject } from "../../lib/json/json.ts";
import type { Places } from "./places.ts";

/**
 * What an answer repeats of its request, as it was asked; JSON. It is all that is kept of a request beside its conversation:
 * from it the object of a response can be written in any state.
 */
export type ResponsesOptions = { readonly [Name in (typeof echoed)[number]]?: unknown } & {
  /** Where in the request the messages and tools of the inner form stand: for errors. */
  readonly places?: Places;
};

const echoed = [
  "instructions",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "max_tool_calls",
  "max_output_tokens",
  "text",
  "reasoning",
  "temperature",
  "top_p",
  "top_logprobs",
  "truncation",
  "metadata",
  "user",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_retention",
  "service_tier",
  "store",
  "background",
  "previous_response_id",
  "prompt",
  "include",
] as const;

/** @param body checked */
export function optionsOf(body: JsonObject): ResponsesOptions {
  const options: JsonObject = {};
  for (const name of echoed) if (body[name] != null) options[name] = body[name];
  return options;
}

/** The members of every response object that repeat the request, with the format's defaults for what it left out. */
export function echoOf(options: ResponsesOptions): JsonObject {
  const text = isObject(options.text) ? options.text : {};
  const reasoning = isObject(options.reasoning) ? options.reasoning : {};
  return {
    instructions: options.instructions ?? null,
    metadata: options.metadata ?? {},
    parallel_tool_calls: options.parallel_tool_calls ?? true,
    temperature: options.temperature ?? 1,
    top_p: options.top_p ?? 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    top_logprobs: options.top_logprobs ?? 0,
    tool_choice: options.tool_choice ?? "auto",
    tools: Array.isArray(options.tools) ? options.tools.map(wholeTool) : [],
    background: options.background ?? false,
    max_output_tokens: options.max_output_tokens ?? null,
    max_tool_calls: options.max_tool_calls ?? null,
    previous_response_id: options.previous_response_id ?? null,
    prompt_cache_key: options.prompt_cache_key ?? null,
    reasoning: { effort: null, summary: null, ...reasoning },
    safety_identifier: options.safety_identifier ?? null,
    service_tier: options.service_tier ?? "default",
    store: options.store ?? true,
    text: { ...text, format: wholeFormat(text["format"] ?? { type: "text" }) },
    truncation: options.truncation ?? "disabled",
    user: options.user ?? null,
    ...(options.prompt_cache_retention !== undefined && { prompt_cache_retention: options.prompt_cache_retention }),
    ...(options.prompt !== undefined && { prompt: options.prompt }),
  };
}

/** As it was sent; members that typed clients want in a schema are there. */
function wholeFormat(format: unknown): unknown {
  const isSchema = isObject(format) && format["type"] === "json_schema";
  return isSchema ? { description: null, strict: false, ...format } : format;
}

/** As it was sent; members that typed clients want in a function are there. */
function wholeTool(tool: unknown): unknown {
  const isFunction = isObject(tool) && tool["type"] === "function";
  return isFunction ? { description: null, parameters: null, strict: null, ...tool } : tool;
}
