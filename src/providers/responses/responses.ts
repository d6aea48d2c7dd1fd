/**
 * The Responses format (`/v1/responses`), as xAI and OpenAI speak it; what differs between them is in `quirks.ts`.
 * Sources: https://docs.x.ai/docs/guides/chat, https://platform.openai.com/docs/api-reference/responses
 */
import { Type } from "@sinclair/typebox";
import type { Quirks } from "../../facts/vocabulary/chat.ts";
import { ResponsesRules } from "../../facts/vocabulary/responses.ts";
import {
  derive,
  isObject,
  type JsonObject,
  listOf,
  numberOf,
  objectOf,
  textOf,
  withEach,
} from "../../lib/json/json.ts";
import { Open, Words } from "../../lib/json/schemas.ts";
import { withoutFields } from "../../lib/json/without-fields.ts";
import type { Extras } from "../../protocols/chat/extras.ts";
import type { ChatRequest, Tool, ToolChoice } from "../../protocols/chat/schema.ts";
import { calledIn, toolName } from "../../protocols/chat/tools.ts";
import { ApiError } from "../../protocols/errors.ts";
import { compactionName } from "../../protocols/responses/compaction.ts";
import { holdsThoughts } from "../../protocols/responses/reasoning.ts";
import { isChange } from "../../protocols/responses/references.ts";
import { refusedFields } from "../client-fields.ts";
import { idsFor } from "../made-ids.ts";
import { effortHere } from "../openai-compatible/request.ts";
import { refusedSampling } from "../openai-compatible/sampling.ts";
import { unwrappingDecoder, withoutWrappedCalls } from "../parallel-calls.ts";
import type { Account, Call, NativeRoute, RemoteProvider, TokenCounter } from "../provider.ts";
import { refuseType } from "../tool-types.ts";
import { nativeCompaction } from "./compaction.ts";
import { earlierItems, inputItems, withType } from "./input.ts";
import { completionOf } from "./output.ts";
import type { ResponsesQuirks } from "./quirks.ts";
import { ResponsesStream } from "./stream.ts";

/** The extra options of a provider that speaks this format. */
const responsesExtras = Type.Object({
  use_responses_api: Type.Optional(Type.Boolean({ description: "true: the provider's stateful responses mode." })),
  store: Type.Optional(Type.Boolean({ description: "true: the conversation context is kept server-side." })),
  reasoning_summary: Type.Optional(
    Words(["auto", "concise", "detailed"], {
      description: "Responses mode: how the model's thoughts are summed up.",
    }),
  ),
  include: Type.Optional(
    Type.Array(Type.String(), { description: "Responses mode: more of the output, e.g. file_search_call.results." }),
  ),
  server_tools: Type.Optional(
    Type.Array(Open({ type: Type.String({ minLength: 1 }) }), {
      description: 'Responses mode: tools that the provider runs itself, in its own form, e.g. {"type":"web_search"}.',
    }),
  ),
});

/** The address of calls of this format. @param path `responses`, or what lies below it */
/** @param model of a call that is sent; absent for what is asked of all */
export type ResponsesAddress = (path: string, account: Account, model?: string) => string;

const usualAddress: ResponsesAddress = (path, { baseUrl }) => `${baseUrl}/${path}`;

/** Calls of clients of this format: their body goes as it came. */
export function nativeResponses(quirks: ResponsesQuirks, addressOf = usualAddress): NativeRoute {
  return {
    encode: (body, call, headers) => ({ url: addressOf("responses", call.account), headers, body }),
    decode: (body, text, call) => completionOf(body, text, quirks, idsFor(call)),
    streamDecoder: (call) => new ResponsesStream(quirks, idsFor(call)),
    upstreamResponseId,
    ...(!quirks.takesChanges && { takes: (body) => !listOf(body["input"]).some(isChange) }),
    earlier: (messages) => earlierItems(messages, quirks),
    fit: (body, call) => withoutClearText(quirks.messageTypes === true ? withTypes(body, call) : body, call),
  };
}

const openaiAddress = /^https:\/\/(?:[a-z]{2}\.)?api\.openai\.com(?:\/|$)/;

/**
 * Without the clear text of thoughts that another server gave earlier in the conversation: `array_above_max_length`, "Expected an array with
 * maximum length 0": https://github.com/router-for-me/CLIProxyAPI/issues/5825
 */
function withoutClearText(body: JsonObject, { account }: Call): JsonObject {
  const { input } = body;
  if (!Array.isArray(input) || !openaiAddress.test(account.baseUrl)) return body;
  const isClear = (item: unknown) =>
    isObject(item) && item["type"] === "reasoning" && !item["encrypted_content"] && holdsThoughts(item);
  return input.some(isClear)
    ? {
        ...body,
        input: derive(
          input,
          input.filter((item) => !isClear(item)),
        ),
      }
    : body;
}

/** Addresses of a project in Foundry; other resources of Azure take bodies as they come. */
const foundryProject = /^https:\/\/[^/]+\.services\.ai\.azure\.|\/api\/projects\//;

function withTypes(body: JsonObject, { account }: Call): JsonObject {
  const { input } = body;
  if (!Array.isArray(input) || !foundryProject.test(account.baseUrl)) return body;
  const typed = withEach(input, (item) => (isObject(item) ? withType(item) : item));
  return typed === input ? body : { ...body, input: typed };
}

/**
 * Deletes what an upstream stored.
 * Source: https://platform.openai.com/docs/api-reference/responses/delete, https://docs.x.ai/docs/api-reference,
 * https://learn.microsoft.com/azure/ai-foundry/openai/how-to/responses#delete-response
 */
function forgetResponse(addressOf = usualAddress): NonNullable<RemoteProvider["forget"]> {
  return (responseId, account) => ({
    method: "DELETE",
    url: addressOf(`responses/${encodeURIComponent(responseId)}`, account),
  });
}

/** @param body of a plain answer */
function upstreamResponseId(body: unknown): string | undefined {
  const response = objectOf(body);
  return response?.["object"] === "response" ? textOf(response["id"]) : undefined;
}

/** The fields that are counted. Source: https://platform.openai.com/docs/api-reference/responses/input-tokens */
const promptFields = [
  ...["model", "input", "instructions", "tools", "tool_choice", "text", "reasoning"],
  ...["parallel_tool_calls", "truncation", "previous_response_id"],
];

/** The differences of a call's model, in both formats. */
export type Rules = Quirks & ResponsesRules;

/** Where an account has this format, if it has. */
type Place = {
  readonly responsesAddress?: ResponsesAddress;
  /** The option that says so by false. Absent: every account has it. */
  readonly responsesOption?: string;
};

/** A provider that speaks this format where it is asked to, or has to, and its other one elsewhere. */
export function withResponses(
  chat: RemoteProvider,
  quirks: ResponsesQuirks,
  rulesOf: (call: Call) => Rules,
  { responsesAddress: addressOf = usualAddress, responsesOption = "" }: Place,
): RemoteProvider {
  const own = nativeResponses(quirks, addressOf);
  const native: NativeRoute = {
    ...own,
    fit: (body, call, headers) => withFitSampling(own.fit?.(body, call, headers) ?? body, call, rulesOf(call)),
  };
  const compaction = quirks.compacts === true ? nativeCompaction(addressOf) : undefined;
  const speaks = (call: Call) => {
    if (call.account.options[responsesOption] === false) return false;
    const asked = call.extras["use_responses_api"];
    if (asked !== undefined) return asked === true;
    const rules = rulesOf(call);
    return rules.responses_only === true || (call.request.tools !== undefined && needsResponses(call.request, rules));
  };
  const bodyOf = (call: Call) => requestBody(call, quirks, rulesOf(call));
  return {
    ...chat,
    formatOf: (call) => (speaks(call) ? "responses" : chat.format),
    alike: (call, other) => ({ ...call, extras: { ...call.extras, use_responses_api: speaks(other) } }),
    // No two of these share a field; Type.Composite would look into each, a dozen times a start.
    extras: Type.Object({ ...chat.extras.properties, ...responsesExtras.properties }),
    modelRules: Type.Object({ ...chat.modelRules?.properties, ...ResponsesRules.properties }),
    remoteMedia(call) {
      const wanted = chat.remoteMedia?.(call) ?? [];
      return wanted.length > 0 && speaks(call) ? [] : wanted;
    },
    holdsConversation: (call) => quirks.holdsConversation && speaks(call) && isStored(call, rulesOf(call)),
    counter: (call) =>
      quirks.countsInput && call.account.options[responsesOption] !== false ? counterOf(bodyOf(call), call) : undefined,
    encode: (call) =>
      speaks(call)
        ? { url: addressOf("responses", call.account, call.model), body: JSON.stringify(bodyOf(call)) }
        : chat.encode(call),
    decode(body, text, call) {
      const answer = (speaks(call) ? native : chat).decode(body, text, call);
      return call.request.tools === undefined ? answer : withoutWrappedCalls(answer, call);
    },
    streamDecoder(call) {
      const decoder = (speaks(call) ? native : chat).streamDecoder(call);
      return call.request.tools === undefined ? decoder : unwrappingDecoder(decoder, call);
    },
    upstreamResponseId,
    native(format, call) {
      if (call.account.options[responsesOption] === false) return chat.native?.(format, call);
      if (format === compactionName) return compaction;
      return format === "responses" ? native : chat.native?.(format, call);
    },
    forget: forgetResponse(addressOf),
  };
}

/** A persona's call in its caller's own body, as its model takes it. */
function withFitSampling(body: JsonObject, call: Call, rules: Rules): JsonObject {
  if (call.isPersonas !== true) return body;
  const effort = objectOf(body["reasoning"])?.["effort"] ?? undefined;
  return withoutFields(body, refusedSampling(call, rules, effort));
}

/** True for tools that chat completions refuse of this model. */
function needsResponses({ tools = [], reasoning_effort }: ChatRequest, rules: Rules): boolean {
  if (tools.length === 0 || rules.tools_road === undefined || !tools.every(isOurs)) return false;
  const effort = effortHere(reasoning_effort, rules.efforts);
  return rules.tools_road === "responses_beside_effort"
    ? effort !== undefined
    : rules.tools_road === "responses" && effort !== "none";
}

function counterOf(body: JsonObject, { account }: Call): TokenCounter {
  const prompt = Object.fromEntries(Object.entries(body).filter(([name]) => promptFields.includes(name)));
  return {
    request: { url: usualAddress("responses/input_tokens", account), body: JSON.stringify(prompt) },
    tokensIn: (counted) => numberOf(objectOf(counted)?.["input_tokens"]),
  };
}

/** Tools of a type that is not known here go as they came, which chat completions alone can do. */
const isOurs = ({ type }: Tool): boolean => type === "function" || type === "custom";

/** Who did not ask for this road does not expect that the upstream keeps the answer: elsewhere it is kept here alone. */
function isStored({ extras, request, account }: Call, { responses_only }: Rules): boolean {
  const isAsked =
    extras["use_responses_api"] !== undefined || responses_only === true || account.upstreamStore === true;
  return isAsked && (extras["store"] ?? request.store) === true;
}

/** Request fields that are said in another way here, or must not come from a caller: `conversation` names what others stored. */
const translated = [
  ...["model", "messages", "functions", "function_call", "max_tokens", "max_completion_tokens", "n"],
  ...["reasoning_effort", "response_format", "verbosity", "tools", "tool_choice", "web_search_options"],
  ...["logprobs", "top_logprobs", "stream", "stream_options", "usage", "store", "modalities"],
  ...["input", "previous_response_id", "conversation", "background", "background_options", "parallel_tool_calls"],
];
/** Request fields without a counterpart in this format. */
const dropped = ["stop", "presence_penalty", "frequency_penalty", "logit_bias", "prediction", "audio"];

/** Leaves what is not set to the upstream; fields that the public format does not know are passed on as they are. */
function requestBody(given: Call, quirks: ResponsesQuirks, rules: Rules): JsonObject {
  const effort = effortHere(given.request.reasoning_effort, rules.efforts);
  const call = { ...given, request: withoutFields(given.request, refusedSampling(given, rules, effort)) };
  const { request, model } = call;
  refuseImpossible(request);
  const tools = toolsOf(call, quirks);
  return {
    ...passedOn(request, quirks),
    ...present({
      model,
      input: inputItems(request.messages, quirks),
      previous_response_id: call.upstreamResponseId,
      max_output_tokens: limitOf(request, quirks),
      reasoning: present({
        ...objectOf(unknownField(request, "reasoning")),
        effort,
        summary: summaryOf(call.extras, quirks, rules),
      }),
      text: present({
        ...objectOf(unknownField(request, "text")),
        format: formatOf(request),
        verbosity: quirks.verbosity ? request.verbosity : undefined,
      }),
      tools: tools.length > 0 ? tools : undefined,
      // What says how tools are called goes with them where none is left.
      ...((tools.length > 0 || request.tools === undefined) && {
        tool_choice: toolChoiceOf(request.tool_choice, quirks),
        parallel_tool_calls: request.parallel_tool_calls,
      }),
      ...logprobsOf(request, quirks),
      include: includeOf(call, quirks, rules),
      // The upstream's default is true, which no caller of chat completions expects.
      store: isStored(call, rules),
      stream: request.stream,
      stream_options: quirks.streamOptions ? obfuscationOf(request) : undefined,
    }),
  };
}

function refuseImpossible(request: ChatRequest): void {
  if ((request.n ?? 1) > 1) throw ApiError.unsupported("n", "n: only one choice can be had by the Responses API.");
  if (request.modalities?.includes("audio")) {
    throw ApiError.unsupported("modalities", "modalities: audio can't be had by the Responses API.");
  }
}

function limitOf({ max_completion_tokens, max_tokens }: ChatRequest, { minOutputTokens = 1 }: ResponsesQuirks) {
  const limit = max_completion_tokens ?? max_tokens;
  return limit === undefined ? undefined : Math.max(limit, minOutputTokens);
}

function passedOn(request: ChatRequest, quirks: ResponsesQuirks): JsonObject {
  const held = new Set([...translated, ...dropped, ...quirks.dropped, ...refusedFields({})]);
  return Object.fromEntries(Object.entries(request).filter(([name]) => !held.has(name)));
}

/** A field of this format that the caller set by its own name. */
function unknownField(request: object, name: string): unknown {
  return (request as JsonObject)[name];
}

/** Without what is undefined; undefined when nothing is left. */
function present(fields: JsonObject): JsonObject | undefined {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return entries.length > 0 ? Object.fromEntries(entries) : undefined;
}

function summaryOf(extras: Extras, quirks: ResponsesQuirks, rules: Rules): unknown {
  if (extras["reasoning_summary"] !== undefined) return extras["reasoning_summary"];
  const wanted = extras["include_thoughts"] === true && rules.reasoning_items === true;
  return quirks.summaryOnRequest && wanted ? "auto" : undefined;
}

function formatOf({ response_format }: ChatRequest): JsonObject | undefined {
  if (response_format?.type !== "json_schema") return response_format;
  const { name, description, schema, strict } = response_format.json_schema;
  return {
    type: "json_schema",
    name,
    schema: schema ?? {},
    ...(description != null && { description }),
    ...(strict != null && { strict }),
  };
}

function logprobsOf({ logprobs, top_logprobs }: ChatRequest, quirks: ResponsesQuirks): JsonObject {
  if (logprobs !== true) return {};
  return {
    logprobs: quirks.logprobs === "field" ? true : undefined,
    top_logprobs: top_logprobs === undefined ? undefined : Math.min(top_logprobs, quirks.topLogprobsLimit),
  };
}

/** Reasoning that is not stored upstream comes back encrypted, so that the next turn can send it along. */
function includeOf(call: Call, quirks: ResponsesQuirks, rules: Rules): string[] | undefined {
  const include = new Set(listOf(call.extras["include"]) as string[]);
  if (!isStored(call, rules) && rules.reasoning_items === true) include.add("reasoning.encrypted_content");
  if (call.request.logprobs === true && quirks.logprobs === "include") include.add("message.output_text.logprobs");
  return include.size > 0 ? [...include] : undefined;
}

function obfuscationOf({ stream_options }: ChatRequest): JsonObject | undefined {
  const include_obfuscation = stream_options?.include_obfuscation;
  return include_obfuscation == null ? undefined : { include_obfuscation };
}

function toolsOf({ request, extras }: Call, quirks: ResponsesQuirks): unknown[] {
  const allowed = quirks.allowedTools ? undefined : allowedNames(request.tool_choice);
  return [
    ...(request.tools ?? []).flatMap((tool, at) => {
      const isLeftOut = allowed !== undefined && !allowed.has(toolName(tool));
      return isLeftOut ? [] : [toolOf(tool, `tools[${at}]`, quirks)];
    }),
    ...(request.web_search_options === undefined ? [] : [webSearch(request.web_search_options, quirks)]),
    ...listOf(extras["server_tools"]),
  ];
}

/** A function that takes nothing; complete enough for the strict kind. */
const noParameters = { type: "object", properties: {}, required: [], additionalProperties: false };

/** @throws ApiError unsupported_parameter naming the tool, or its type */
function toolOf(tool: Tool, path: string, quirks: ResponsesQuirks): JsonObject | undefined {
  if (tool.type === "function") {
    const { name, description, parameters, strict } = tool.function;
    return present({
      type: "function",
      name,
      description: description ?? undefined,
      parameters: parameters ?? noParameters,
      strict: strict ?? quirks.strictByDefault,
    });
  }
  if (tool.type !== "custom") {
    return refuseType(tool.type, path, " What the provider runs itself stands in server_tools, in its own form.");
  }
  if (!quirks.customTools) throw ApiError.unsupported(path, `${path}: custom tools are not taken here.`);
  const { name, description, format } = tool.custom as JsonObject;
  return present({ type: "custom", name, description: description ?? undefined, format: grammarOf(format) });
}

/** A grammar lies one level deeper in the public format. */
function grammarOf(format: unknown): unknown {
  const { type, grammar } = objectOf(format) ?? {};
  return objectOf(grammar) === undefined ? (format ?? undefined) : { type, ...objectOf(grammar) };
}

function webSearch(options: JsonObject, quirks: ResponsesQuirks): JsonObject | undefined {
  if (!quirks.webSearchOptions) return { type: "web_search" };
  const location = objectOf(options["user_location"]);
  const { approximate, ...rest } = location ?? {};
  return present({
    type: "web_search",
    search_context_size: options["search_context_size"] ?? undefined,
    user_location: location && { ...rest, ...objectOf(approximate) },
  });
}

function toolChoiceOf(choice: ToolChoice | undefined, quirks: ResponsesQuirks): unknown {
  if (choice === undefined || typeof choice === "string") return choice;
  switch (choice.type) {
    case "function":
      return { type: "function", name: choice.function.name };
    case "custom":
      return { type: "custom", name: choice.custom.name };
    case "allowed_tools": {
      const { mode, tools } = choice.allowed_tools;
      return quirks.allowedTools ? { type: "allowed_tools", mode, tools: tools.map(flattened) } : mode;
    }
    default:
      return refuseType(choice.type, "tool_choice");
  }
}

/** `{"type":"function","function":{"name":…}}` as `{"type":"function","name":…}`. */
function flattened(tool: JsonObject): JsonObject {
  const { type, function: _, custom: _custom, ...rest } = tool;
  return { type, ...rest, ...calledIn(tool)?.said };
}

function allowedNames(choice: ToolChoice | undefined): Set<unknown> | undefined {
  if (typeof choice !== "object" || choice.type !== "allowed_tools") return undefined;
  return new Set(choice.allowed_tools.tools.map(toolName));
}
