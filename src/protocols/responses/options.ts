/** The members of a response that repeat its request. */
import { isObject, type JsonObject, listOf, objectOf } from "../../lib/json/json.ts";
import type { Places } from "./places.ts";

/** The members of every response object that repeat the request, in their order, with the format's defaults for what it left out. */
const defaults = {
  instructions: null,
  metadata: {},
  parallel_tool_calls: true,
  temperature: 1,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  top_logprobs: 0,
  tool_choice: "auto",
  tools: null,
  background: false,
  max_output_tokens: null,
  max_tool_calls: null,
  previous_response_id: null,
  prompt_cache_key: null,
  reasoning: null,
  safety_identifier: null,
  service_tier: "default",
  store: true,
  text: null,
  truncation: "disabled",
  user: null,
};
/** Members that a request of this format does not have. */
const fixed: ReadonlySet<string> = new Set(["presence_penalty", "frequency_penalty"]);
/** Repeated only where the request has them. */
const optional = ["prompt_cache_retention", "prompt"] as const;

/**
 * The fields of the request that an answer repeats, as they were asked; JSON. It is all that is kept of a request beside its conversation:
 * from it the object of a response can be written in any state.
 */
export type ResponsesOptions = { readonly [Name in keyof typeof defaults | (typeof optional)[number]]?: unknown } & {
  /** Places in the request of the messages and tools of the inner form: for errors. */
  readonly places?: Places;
  /** The names of tools that its input added: answers call them too, and repeat them not. */
  readonly added?: readonly JsonObject[];
};

/** @param body checked */
export function optionsOf(body: JsonObject): ResponsesOptions {
  const names = [...Object.keys(defaults), ...optional].filter((name) => body[name] != null && !fixed.has(name));
  return Object.fromEntries(names.map((name) => [name, body[name]]));
}

export function echoOf({ places: _, added: _added, ...asked }: ResponsesOptions): JsonObject {
  const text = objectOf(asked.text) ?? {};
  return {
    ...defaults,
    ...asked,
    tools: listOf(asked.tools).map(wholeTool),
    reasoning: { effort: null, summary: null, ...objectOf(asked.reasoning) },
    text: { ...text, format: wholeFormat(text["format"] ?? { type: "text" }) },
  };
}

/** The format as it was sent; members that typed clients want in a schema are there. */
function wholeFormat(format: unknown): unknown {
  const isSchema = isObject(format) && format["type"] === "json_schema";
  return isSchema ? { description: null, strict: false, ...format } : format;
}

/** The tool as it was sent; members that typed clients want in a function are there. */
function wholeTool(tool: unknown): unknown {
  const isFunction = isObject(tool) && tool["type"] === "function";
  return isFunction ? { description: null, parameters: null, strict: null, ...tool } : tool;
}
