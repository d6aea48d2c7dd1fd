/** Calls of clients that speak this format themselves: their bodies go as they came. */
import { type JsonObject, numberOf, objectOf } from "../../lib/json/json.ts";
import { configNames } from "../../protocols/generate-content/generation.ts";
import type { Call, NativeBody, NativeRoute, TokenCounter } from "../provider.ts";
import { methodUrl } from "./address.ts";
import { decodeAnswer, GoogleStreamDecoder } from "./answer.ts";
import { changedConfig } from "./request.ts";
import { googleRules, modelName } from "./rules.ts";

/** Without `alt=sse` a stream is one JSON list. */
export function answerUrl(call: Call): string {
  const method = call.request.stream === true ? "streamGenerateContent?alt=sse" : "generateContent";
  return methodUrl(call.account, modelName(call), method);
}

export const native: NativeRoute = {
  encode: (body, call) => ({ url: answerUrl(call), body }),
  decode: decodeAnswer,
  streamDecoder: (call) => new GoogleStreamDecoder(call),
  members,
  counter,
  needsSignatures: (call) => googleRules(call).signatures !== "none",
};

/** Source: https://ai.google.dev/api/tokens */
export function counter(body: NativeBody, call: Call): TokenCounter {
  return {
    request: { url: methodUrl(call.account, modelName(call), "countTokens"), body },
    tokensIn: (answer) => numberOf(objectOf(answer)?.["totalTokens"]),
  };
}

const thinking = ["thinkingConfig"];

/** Fields of `generationConfig` by the inner fields that they are made of. */
const configFields: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(Object.entries(configNames).map(([own, inner]) => [inner, [own]])),
  max_tokens: ["maxOutputTokens"],
  stop: ["stopSequences"],
  response_format: ["responseMimeType", "responseSchema", "responseJsonSchema"],
  reasoning_effort: thinking,
  thinking,
  thinking_budget: thinking,
  thinking_level: thinking,
  thinking_config: thinking,
  include_thoughts: thinking,
};

/** Members of the body that have the very value of an option. */
const options: Readonly<Record<string, string>> = {
  safety_settings: "safetySettings",
  cached_content: "cachedContent",
};

/** @returns undefined where the answer's form has to be asked for in words */
function members(fields: Readonly<Record<string, unknown>>, call: Call): JsonObject | undefined {
  const changed = Object.keys(fields);
  const config = changedConfig(call, googleRules(call), "response_format" in fields);
  if (config === undefined) return undefined;
  const given = objectOf(fields["generation_config"]) ?? {};
  const named = changed.flatMap((name) => (Object.hasOwn(configFields, name) ? configFields[name]! : []));
  const generationConfig = Object.fromEntries([...named, ...Object.keys(given)].map((name) => [name, config[name]]));
  const body = changed.flatMap((name) => (Object.hasOwn(options, name) ? [[options[name]!, fields[name]]] : []));
  return { ...(Object.keys(generationConfig).length > 0 && { generationConfig }), ...Object.fromEntries(body) };
}
