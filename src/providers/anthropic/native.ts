/** Calls of clients that speak this format themselves: their bodies go as they came. */
import type { AnthropicRules } from "../../facts/vocabulary/claude.ts";
import { type JsonObject, numberOf, objectOf, textOf } from "../../lib/json/json.ts";
import { words } from "../../lib/text/words.ts";
import { specialWishes } from "../../protocols/messages/ending.ts";
import type {
  Account,
  Call,
  NativeBody,
  NativeRoute,
  PassedHeaders,
  TokenCounter,
  UpstreamRequest,
} from "../provider.ts";
import { fitted } from "./fit.ts";
import { planOutput } from "./output.ts";
import { callersVersion, encodeBody, isSince, outputTokens, sampling, upstreamRequest } from "./request.ts";
import { anthropicRules } from "./rules.ts";
import { AnthropicStream, decodeAnswer } from "./stream.ts";
import { planThinking } from "./thinking.ts";
import { samplingEndsWith } from "./versions.ts";

const reading = {
  decode: decodeAnswer,
  streamDecoder: (call) => new AnthropicStream(call, true),
  upstreamResponseId: (body) => textOf(objectOf(body)?.["id"]),
} satisfies Partial<NativeRoute>;

export const native: NativeRoute = {
  ...reading,
  encode: (body, { account }, headers) => upstreamRequest(account, "", body, callersVersion(headers)),
  fit: fitted,
  members,
  counter: (body, { account }, headers) =>
    counterOf(upstreamRequest(account, "/count_tokens", body, callersVersion(headers))),
};

/**
 * On clouds the address says where a model runs, and there is one speed: https://platform.claude.com/docs/en/build-with-claude/data-residency,
 * https://platform.claude.com/docs/en/build-with-claude/fast-mode
 */
export const cloudTakes: NonNullable<NativeRoute["takes"]> = (body) => specialWishes(body).length === 0;

/** Where another provider's upstream takes calls of this format. */
type Place = Pick<Account, "baseUrl"> & Pick<UpstreamRequest, "keyPlace">;

/**
 * The route to an upstream of another provider that speaks this format too.
 * @param rules of its models, in place of those that their names have here
 */
export function messagesRoute(
  placeIn: (account: Account) => Place,
  rules?: Partial<AnthropicRules>,
): NativeRoute & Required<Pick<NativeRoute, "counter">> {
  // The account's own rules are those of its other format.
  const modelRules = rules === undefined ? [] : [{ ...rules, match: "*" }];
  const requestOf = (path: string, body: NativeBody, { account }: Call, headers: PassedHeaders): UpstreamRequest => {
    const { keyPlace, ...place } = placeIn(account);
    const request = upstreamRequest(place, path, body, callersVersion(headers));
    return keyPlace === undefined ? request : { ...request, keyPlace };
  };
  return {
    ...reading,
    encode: (body, call, headers) => requestOf("", body, call, headers),
    members: (fields, call, headers) => members(fields, { ...call, account: { ...call.account, modelRules } }, headers),
    counter: (body, call, headers) => counterOf(requestOf("/count_tokens", body, call, headers)),
  };
}

const counterOf = (request: UpstreamRequest): TokenCounter => ({
  request,
  tokensIn: (body) => numberOf(objectOf(body)?.["input_tokens"]),
});

/** Fields that are part of a prompt; others are refused: https://platform.claude.com/docs/en/api/messages-count-tokens */
const promptFields = words("model messages system tools tool_choice thinking output_config cache_control");

export function countPrompt(call: Call): TokenCounter {
  const fields = Object.entries(encodeBody(call)).filter(([name]) => promptFields.includes(name));
  const body = JSON.stringify(Object.fromEntries(fields));
  return counterOf(upstreamRequest(call.account, "/count_tokens", body, { betas: [] }));
}

const thinkingFields = ["reasoning_effort", "thinking", "thinking_budget", "include_thoughts"];
const samplingFields = ["temperature", "top_p"] as const;
const tokenFields = ["max_completion_tokens", "max_tokens"];

/**
 * Gives what a persona sets as members of the body that this model takes.
 * @param fields of the inner form that differ from the caller's; those that are none of the body's own are left to the format
 * @returns undefined where the answer would have to be read in another way than it comes
 */
function members(
  fields: Readonly<Record<string, unknown>>,
  call: Call,
  headers: PassedHeaders,
): JsonObject | undefined {
  const own = anthropicRules(call);
  const isSampled = !isSince(headers["anthropic-version"], samplingEndsWith);
  const rules: AnthropicRules = isSampled ? own : { ...own, sampling: "none" };
  const { request } = call;
  const changes = (names: readonly string[]) => names.some((name) => Object.hasOwn(fields, name));
  const thinking = planThinking(call, rules, true);
  const body: JsonObject = {};
  if (changes(samplingFields)) {
    const taken = sampling(request, rules, thinking);
    for (const name of samplingFields) if (Object.hasOwn(fields, name)) body[name] = taken[name];
  }
  const config: JsonObject = {};
  if (changes(thinkingFields)) {
    body["thinking"] = thinking.thinking;
    config["effort"] = thinking.effort;
  }
  if (changes(tokenFields) || (changes(thinkingFields) && thinking.thinking?.budget_tokens !== undefined)) {
    body["max_tokens"] = outputTokens(request, rules, thinking);
  }
  if ("response_format" in fields) {
    const output = planOutput(request, rules);
    if (output.kind !== "format") return undefined;
    config["format"] = { type: "json_schema", schema: output.schema };
  }
  if (Object.keys(config).length > 0) body["output_config"] = config;
  return body;
}
