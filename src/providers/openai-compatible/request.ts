/**
 * A chat completions request as one particular upstream takes it. What needs no change is sent as it came, unknown fields too.
 * Source: https://platform.openai.com/docs/api-reference/chat/create
 */
import type { Quirks } from "../../facts/vocabulary/chat.ts";
import { derive, type JsonObject, keepSame, withEach } from "../../lib/json/json.ts";
import { words } from "../../lib/text/words.ts";
import { wholeDetails } from "../../protocols/chat/reasoning-details.ts";
import type { AssistantMessage, ChatRequest, Message, ToolChoice } from "../../protocols/chat/schema.ts";
import { saysNoArguments, toolName } from "../../protocols/chat/tools.ts";
import { dropRefused } from "../client-fields.ts";
import type { Call } from "../provider.ts";
import { refusedSampling } from "./sampling.ts";
import { withTypedVariants } from "./schemas.ts";
import { inOrder } from "./turns.ts";

export function requestBody(call: Call, quirks: Quirks): JsonObject {
  const { request } = call;
  const body: JsonObject = { ...request, model: call.model, messages: inOrder(messagesFor(call, quirks), quirks) };
  // A client of this format may send what it likes.
  if (call.clientFormat !== undefined) dropRefused(body, quirks);
  limitTokens(body, quirks);
  askForUsage(body, quirks);
  if (quirks.thinking_field === true || request.reasoning_effort !== undefined) setReasoning(body, call, quirks);
  if (quirks.thinking_flag !== undefined) switchThinking(body, call, quirks.thinking_flag);
  if (quirks.allowed_tools !== true) narrowTools(body, request.tool_choice);
  if (quirks.required_choice === false && body["tool_choice"] === "required") body["tool_choice"] = "auto";
  if (quirks.typed_variants === true) writeSchemas(body);
  if (request.response_format !== undefined) setResponseFormat(body, quirks);
  if (body["store"] === true && call.account.upstreamStore !== true) dropStore(body);
  for (const name of quirks.options ?? noNames) if (call.extras[name] !== undefined) body[name] = call.extras[name];
  if (quirks.sampling !== undefined) {
    for (const name of refusedSampling(call, quirks, body["reasoning_effort"])) delete body[name];
  }
  for (const name of quirks.dropped ?? noNames) drop(body, name);
  for (const name of quirks.dropped_when_neutral ?? noNames) if (isNeutral(name, body[name])) drop(body, name);
  for (const name in quirks.renamed) rename(body, name, quirks.renamed[name]!);
  return body;
}

const noNames: readonly string[] = [];

/** Options that hold only beside another one. */
const besides: Readonly<Record<string, readonly string[]>> = {
  tools: ["tool_choice", "parallel_tool_calls"],
  logprobs: ["top_logprobs"],
  modalities: ["audio"],
};

/** Removes a field, with what is refused without it. */
function drop(body: JsonObject, name: string): void {
  if (body[name] === undefined) return;
  delete body[name];
  if (Object.hasOwn(besides, name)) for (const option of besides[name]!) delete body[option];
}

/**
 * Removes what would store the answer upstream: it is stored here. There a list of stored completions needs no id, and so shows each
 * key what others keep; metadata are refused without it: https://platform.openai.com/docs/api-reference/chat/create#chat-create-metadata
 */
function dropStore(body: JsonObject): void {
  delete body["store"];
  delete body["metadata"];
}

/** Never both of them: the newer one says what the caller means. */
function limitTokens(body: JsonObject, { max_tokens_field }: Quirks): void {
  if (body["max_completion_tokens"] !== undefined) delete body["max_tokens"];
  if (max_tokens_field === "max_tokens") rename(body, "max_completion_tokens", "max_tokens");
  if (max_tokens_field === "max_completion_tokens") rename(body, "max_tokens", "max_completion_tokens");
}

/** Counts are wanted of every stream; whether the caller sees them is decided on the way back. */
function askForUsage(body: JsonObject, { stream_usage, usage_include }: Quirks): void {
  if (usage_include !== true) delete body["usage"];
  if (stream_usage === false) delete body["stream_options"];
  else if (body["stream"] === true) {
    const options = body["stream_options"] as JsonObject | undefined;
    body["stream_options"] = options?.["include_usage"] === true ? options : { ...options, include_usage: true };
  }
}

function setReasoning(body: JsonObject, { request, extras }: Call, { efforts, thinking_field }: Quirks): void {
  const effort = request.reasoning_effort;
  if (thinking_field === true) {
    const thinking = extras["thinking"] as JsonObject | undefined;
    if (thinking !== undefined) {
      body["thinking"] = keepSame(thinking, { ...thinking, type: switchOf(thinking["type"] === "disabled") });
    } else if (effort !== undefined) body["thinking"] = { type: switchOf(effort === "none") };
  }
  const known = effortHere(effort, efforts);
  if (known === undefined) delete body["reasoning_effort"];
  else body["reasoning_effort"] = known;
}

/** The caller's own value of the field goes before. */
function switchThinking(body: JsonObject, { request, extras }: Call, flag: string): void {
  const type = (extras["thinking"] as JsonObject | undefined)?.["type"];
  if (type !== undefined) body[flag] ??= type !== "disabled";
  else if (request.reasoning_effort !== undefined) body[flag] ??= request.reasoning_effort !== "none";
}

/** @returns undefined where the model takes no such effort */
export function effortHere(effort: string | undefined, efforts: Quirks["efforts"] = {}): string | undefined {
  if (effort === undefined) return undefined;
  const known = [effort, "*"].find((name) => Object.hasOwn(efforts, name));
  return known === undefined ? effort : (efforts[known] ?? undefined);
}

function switchOf(off: boolean): "enabled" | "disabled" {
  return off ? "disabled" : "enabled";
}

/** `allowed_tools` said in older words: only those tools, and the mode alone. */
function narrowTools(body: JsonObject, choice: ToolChoice | undefined): void {
  if (typeof choice !== "object" || choice.type !== "allowed_tools") return;
  const allowed = new Set(choice.allowed_tools.tools.map(toolName));
  const tools = ((body["tools"] ?? []) as JsonObject[]).filter((tool) => allowed.has(toolName(tool)));
  body["tools"] = tools;
  body["tool_choice"] = choice.allowed_tools.mode;
  // Where a call is demanded the upstream says what is wrong.
  if (tools.length === 0 && choice.allowed_tools.mode === "auto") drop(body, "tools");
}

function setResponseFormat(body: JsonObject, quirks: Quirks): void {
  const format = body["response_format"] as ChatRequest["response_format"];
  if (format?.type === "json_schema" && quirks.json_schema_as_object === true) {
    const { schema, description } = format.json_schema;
    const wish = description == null ? "Answer with a JSON object" : `Answer with a JSON object (${description})`;
    const instruction =
      schema == null ? `${wish}.` : `${wish} that follows this JSON schema: ${JSON.stringify(schema)}`;
    body["response_format"] = { type: "json_object" };
    body["messages"] = afterSystem(body["messages"] as Message[], { role: "system", content: instruction });
  }
  if (format?.type === "json_object" && quirks.json_object_as_schema === true) {
    body["response_format"] = { type: "json_schema", json_schema: { name: "object", schema: { type: "object" } } };
  }
}

function writeSchemas(body: JsonObject): void {
  for (const name of ["tools", "response_format"])
    if (body[name] !== undefined) body[name] = withTypedVariants(body[name]);
}

/** Instructions stand together, before what was said. */
function afterSystem(messages: readonly Message[], message: Message): Message[] {
  const at = messages.findIndex(({ role }) => role !== "system" && role !== "developer");
  const end = at < 0 ? messages.length : at;
  return [...messages.slice(0, end), message, ...messages.slice(end)];
}

/** The value that is the same as nothing, for fields that some upstreams refuse whatever they hold. */
const neutral: Readonly<Record<string, unknown>> = {
  n: 1,
  logprobs: false,
  presence_penalty: 0,
  frequency_penalty: 0,
  logit_bias: {},
  modalities: ["text"],
  parallel_tool_calls: true,
};

function isNeutral(name: string, value: unknown): boolean {
  return JSON.stringify(value) === JSON.stringify(neutral[name]);
}

const tokenLimits = ["max_tokens", "max_completion_tokens"];
/** The names in Responses and Gemini's format. */
const foreignLimits = ["max_output_tokens", "maxOutputTokens"];

/** @returns the names under which a caller may have said what is sent under this one, the same name first */
export function callerNames(name: string, { renamed = {} }: Quirks): readonly string[] {
  const names = [name, ...Object.keys(renamed).filter((from) => renamed[from] === name)];
  return names.some((one) => tokenLimits.includes(one)) ? [...names, ...tokenLimits, ...foreignLimits] : names;
}

function rename(body: JsonObject, from: string, to: string): void {
  if (body[from] === undefined) return;
  body[to] = body[from];
  delete body[from];
}

/** Keys in which assistant messages of this and other gateways carry thoughts; unknown to most upstreams. */
const thoughtKeys = new Set(
  words(`
    reasoning_content reasoning reasoning_text reasoning_details thinking_blocks content_blocks extra_content
    provider_specific_fields
  `),
);
/** These stand in answers only; clients that send an answer back as it came send them too. */
const answerKeys = new Set(["annotations", "images", "function_call"]);
const thoughtParts = new Set(["thinking", "redacted_thinking", "reasoning"]);

const idForms = { nine_alphanumerics: /^[A-Za-z0-9]{9}$/, at_most_40_characters: /^.{1,40}$/s };

/** @returns the messages themselves where none has to change */
function messagesFor(call: Call, quirks: Quirks): readonly JsonObject[] {
  const { messages } = call.request;
  const ids = quirks.tool_call_ids && idForms[quirks.tool_call_ids];
  for (const message of messages) if (!staysAsSaid(message, quirks, ids)) return changedMessages(call, quirks, ids);
  return messages;
}

function changedMessages(call: Call, quirks: Quirks, ids: RegExp | undefined): readonly JsonObject[] {
  const { messages: said } = call.request;
  const messages: JsonObject[] = [];
  let media: JsonObject[] = [];
  for (const message of said) {
    if (media.length === 0 && staysAsSaid(message, quirks, ids)) {
      messages.push(message);
      continue;
    }
    if (media.length > 0 && message.role !== "tool") {
      messages.push({ role: "user", content: media });
      media = [];
    }
    const sent = messageFor(message, call, quirks);
    if (ids !== undefined) replaceIds(sent, ids);
    if (message.role === "tool" && quirks.tool_images !== true) media.push(...takeMedia(sent));
    messages.push(keepSame(message, sent));
  }
  if (media.length > 0) messages.push({ role: "user", content: media });
  return keepSame<readonly JsonObject[]>(said, messages);
}

/** True for what is certain not to change: a text and who says it, calls of tools and their results, with no more than every upstream takes. */
function staysAsSaid(message: Message, quirks: Quirks, ids: RegExp | undefined): boolean {
  const { role, content } = message;
  if (role === "developer" && quirks.developer_role === "system") return false;
  for (const key in message) {
    if (key === "role" || key === "content") continue;
    if (quirks.message_keys?.includes(key) === false) return false;
    if (role === "tool" && key === "tool_call_id") {
      if (!isFitting(message.tool_call_id, ids)) return false;
    } else if (role === "assistant" && key === "tool_calls" && quirks.reasoning_beside_calls !== true) {
      if (!stayAsMade(message.tool_calls, ids)) return false;
    } else return false;
  }
  return typeof content === "string" || (content === null && role === "assistant");
}

function stayAsMade(calls: unknown, ids: RegExp | undefined): boolean {
  if (!Array.isArray(calls) || calls.length === 0) return false;
  for (const call of calls as JsonObject[]) {
    if (call["extra_content"] !== undefined || call["index"] !== undefined || !isFitting(call["id"], ids)) return false;
    if (lacksArguments(call["function"] as JsonObject | undefined)) return false;
  }
  return true;
}

const isFitting = (id: unknown, ids: RegExp | undefined) => ids === undefined || typeof id !== "string" || ids.test(id);

function messageFor(message: Message, call: Call, quirks: Quirks): JsonObject {
  const sent: JsonObject = {};
  for (const [key, value] of Object.entries(message)) {
    if (value === null && key !== "content") continue;
    if (message.role === "assistant" && (thoughtKeys.has(key) || (answerKeys.has(key) && !quirks.answer_fields)))
      continue;
    sent[key] = value;
  }
  if (message.role === "developer" && quirks.developer_role === "system") sent["role"] = "system";
  if (message.role === "assistant") finishAssistant(sent, message, quirks);
  if (call.media.size > 0) replaceParts(sent, (parts) => inlined(parts, call));
  if (quirks.text_roles?.includes(message.role)) replaceParts(sent, joined);
  if (quirks.message_keys !== undefined) {
    for (const key in sent) if (!quirks.message_keys.includes(key)) delete sent[key];
  }
  return sent;
}

function finishAssistant(sent: JsonObject, message: AssistantMessage, quirks: Quirks): void {
  if (Array.isArray(message.content)) {
    sent["content"] = keepSame(
      message.content,
      message.content.filter(({ type }) => !thoughtParts.has(type)),
    );
  }
  if (Array.isArray(sent["tool_calls"])) {
    const calls = sent["tool_calls"] as JsonObject[];
    sent["tool_calls"] = withEach(calls, plainCall);
    if ((sent["tool_calls"] as unknown[]).length === 0) delete sent["tool_calls"];
  }
  if (quirks.refusal_parts !== true) sayRefusal(sent);
  replayThoughts(sent, message, quirks);
}

const lacksArguments = (called: JsonObject | undefined): boolean =>
  typeof called?.["arguments"] === "string" && called["arguments"] !== "{}" && saysNoArguments(called["arguments"]);

/** Without what only answers carry. Some servers parse the arguments, which an empty text is not fit for. */
function plainCall(said: JsonObject): JsonObject {
  const { extra_content: _, index: _i, ...rest } = said;
  const call = keepSame(said, rest);
  const called = call["function"] as JsonObject | undefined;
  return lacksArguments(called) ? derive(call, { ...call, function: { ...called, arguments: "{}" } }) : call;
}

/** Sends a refusal as text: it is still part of the conversation. */
function sayRefusal(sent: JsonObject): void {
  const { refusal } = sent;
  delete sent["refusal"];
  if (typeof refusal === "string" && (sent["content"] == null || sent["content"] === "")) sent["content"] = refusal;
  if (!Array.isArray(sent["content"])) return;
  const parts = sent["content"] as JsonObject[];
  sent["content"] = withEach(parts, (part) =>
    part["type"] === "refusal" ? { type: "text", text: part["refusal"] } : part,
  );
}

function replayThoughts(sent: JsonObject, message: AssistantMessage, quirks: Quirks): void {
  const required = quirks.reasoning_beside_calls === true && sent["tool_calls"] !== undefined;
  const thoughts = thoughtsOf(message) ?? (required ? "" : undefined);
  switch (quirks.reasoning_replay) {
    case "reasoning_details":
      if (message.reasoning_details != null) sent["reasoning_details"] = wholeDetails(message.reasoning_details);
      if (thoughts !== undefined) sent["reasoning"] = thoughts;
      return;
    case "thinking_blocks":
      if (message.thinking_blocks != null) sent["thinking_blocks"] = message.thinking_blocks;
      if (thoughts !== undefined) sent["reasoning_content"] = thoughts;
      return;
    case "thinking_part":
      if (thoughts) {
        const said = sent["content"] ?? "";
        const parts =
          typeof said === "string" ? (said === "" ? [] : [{ type: "text", text: said }]) : (said as unknown[]);
        sent["content"] = [{ type: "thinking", thinking: [{ type: "text", text: thoughts }] }, ...parts];
      }
      return;
    case "think_tags":
      if (thoughts && typeof (sent["content"] ?? "") === "string") {
        sent["content"] = `<think>\n${thoughts}\n</think>\n\n${sent["content"] ?? ""}`;
      }
      return;
    case "reasoning":
    case "reasoning_content":
      if (thoughts !== undefined) sent[quirks.reasoning_replay] = thoughts;
  }
}

function thoughtsOf(message: AssistantMessage & JsonObject): string | undefined {
  const given = [message.reasoning_content, message["reasoning"], message["reasoning_text"]];
  const texts = given.filter((text) => typeof text === "string");
  return texts.find((text) => text !== "") ?? texts[0];
}

/** Takes images and files out of a tool's result; they follow in a user message, which is where upstreams take them. */
function takeMedia(sent: JsonObject): JsonObject[] {
  if (!Array.isArray(sent["content"])) return [];
  const content = sent["content"] as JsonObject[];
  const media = content.filter((part) => part["type"] !== "text");
  if (media.length === 0) return [];
  const texts = content.flatMap((part) => (part["type"] === "text" ? [part["text"]] : []));
  sent["content"] = texts.length > 0 ? texts.join("\n") : "The result follows in the next user message.";
  return [{ type: "text", text: `Result of the tool call ${sent["tool_call_id"]}:` }, ...media];
}

function replaceIds(sent: JsonObject, allowed: RegExp): void {
  const fitting = (id: unknown) => (isFitting(id, allowed) ? id : shortId(id as string));
  if (sent["tool_call_id"] !== undefined) sent["tool_call_id"] = fitting(sent["tool_call_id"]);
  if (Array.isArray(sent["tool_calls"])) {
    const calls = sent["tool_calls"] as JsonObject[];
    sent["tool_calls"] = withEach(calls, (call) => keepSame(call, { ...call, id: fitting(call["id"]) }));
  }
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Nine letters and digits, the same for the same id. */
export function shortId(id: string): string {
  let rest = new Bun.CryptoHasher("sha256").update(id).digest().readBigUInt64BE();
  let short = "";
  for (let at = 0; at < 9; at += 1) {
    short += letters[Number(rest % 62n)];
    rest /= 62n;
  }
  return short;
}

function replaceParts(sent: JsonObject, replace: (parts: readonly JsonObject[]) => unknown): void {
  if (Array.isArray(sent["content"])) sent["content"] = replace(sent["content"]);
}

function inlined(parts: readonly JsonObject[], { media }: Call): unknown {
  return parts.map((part) => {
    const image = part["type"] === "image_url" ? (part["image_url"] as JsonObject) : undefined;
    const bytes = image && media.get(image["url"] as string);
    if (bytes === undefined) return part;
    const url = `data:${bytes.mimeType};base64,${bytes.base64}`;
    return derive(part, { ...part, image_url: { ...image, url } });
  });
}

function joined(parts: readonly JsonObject[]): unknown {
  return parts.some(({ type }) => type !== "text") ? parts : parts.map(({ text }) => text).join("\n");
}
