/**
 * Reads answers of upstreams that speak chat completions, with tolerance for all the known deviations:
 * anything that can be read in one way only is read so, whoever sent it.
 * Source: https://platform.openai.com/docs/api-reference/chat/object
 */
import type { Quirks } from "../../facts/vocabulary/chat.ts";
import {
  countOf,
  countsByName,
  isEmpty,
  isObject,
  type JsonObject,
  listOf,
  objectOf,
  textOf,
} from "../../lib/json/json.ts";
import { words } from "../../lib/text/words.ts";
import { billedPlaces } from "../../protocols/billed/places.ts";
import { billedBy, toldIn } from "../../protocols/billed/reading.ts";
import { DetailNumbers } from "../../protocols/chat/reasoning-details.ts";
import {
  type AnswerMessage,
  type Choice,
  type CompletionBody,
  type CustomToolCall,
  type FinishReason,
  impossible,
  type Logprobs,
  type OtherToolCall,
  type ToolCall,
  type Usage,
} from "../../protocols/chat/schema.ts";
import { calledIn, isOtherKind, writtenArguments } from "../../protocols/chat/tools.ts";
import { InvalidAnswer, UpstreamFault } from "../../protocols/errors.ts";
import type { MakeId } from "../made-ids.ts";
import { annotationsOf, logprobsOf, metadataOf, objectIn, objectsIn, textIn, thinkingBlocksOf } from "../reading.ts";
import { faultStatus, isFault, saysError } from "./faults.ts";
import { plainCompletionOf } from "./plain-answer.ts";
import { ThinkTags } from "./think-tags.ts";

/**
 * @param echo a text that is no answer but a repetition of what was sent; where that is a quirk, also before the answer
 * @throws UpstreamFault when the body is an error; InvalidAnswer when it is neither that nor an answer
 */
export function completionOf(
  given: unknown,
  text: string,
  quirks: Quirks,
  makeId: MakeId,
  echo?: string,
): CompletionBody {
  // Google's form of errors, which its endpoint of this kind keeps.
  const body = Array.isArray(given) && given.length === 1 ? given[0] : given;
  if (!isObject(body)) throw new InvalidAnswer("something that is no answer");
  const plain = echo === undefined ? plainCompletionOf(body, quirks) : undefined;
  return plain ?? anyCompletionOf(body, text, quirks, makeId, echo);
}

/** Reads any answer, the plain ones among them. */
export function anyCompletionOf(
  body: JsonObject,
  text: string,
  quirks: Quirks,
  makeId: MakeId,
  echo?: string,
): CompletionBody {
  if (isFault(body)) throw new UpstreamFault(text, faultStatus(body), usageOf(body["usage"], quirks));
  const said = objectsIn(body, "choices");
  if (said.length === 0) throw new InvalidAnswer("something that is no answer");
  const choices = said.map((choice, at) => choiceOf(choice, at, text, quirks, makeId));
  if (echo !== undefined) for (const { message } of choices) withoutEcho(message, echo, quirks);
  const usage = usageOf(body["usage"], quirks);
  const metadata = metadataOf(body["metadata"]);
  return {
    choices,
    ...(usage === undefined ? {} : { usage }),
    ...(metadata === undefined ? {} : { metadata }),
    ...extrasOf(body, knownTopLevel),
  };
}

function choiceOf(choice: JsonObject, at: number, text: string, quirks: Quirks, makeId: MakeId): Choice {
  if (saysError(choice["error"]) || isFailure(choice["finish_reason"]))
    throw new UpstreamFault(text, faultStatus(choice));
  const answered = objectIn(choice, "message") ?? {};
  if (!choice["finish_reason"] && !saysAnything(answered)) throw new InvalidAnswer("an empty choice");
  const { content, thoughts } = textsOf(answered, quirks.think_tags === true ? new ThinkTags() : undefined, true);
  const index = indexOf(choice, at);
  const calls = callsOf(answered, (count) => makeId("call", index, count));
  const message: AnswerMessage = { role: "assistant", content: content ?? null };
  if (calls.length > 0 && content === "") message.content = null;
  if (thoughts) message.reasoning_content = thoughts;
  if (calls.length > 0) message.tool_calls = calls;
  const extras = extrasOf(answered, knownInMessage);
  const details = extras["reasoning_details"];
  if (details !== undefined) extras["reasoning_details"] = new DetailNumbers().number(details as JsonObject[]);
  return {
    index,
    message: isEmpty(extras) ? message : { ...message, ...extras },
    finish_reason: finishReasonOf(choice, calls.length > 0) ?? (calls.length > 0 ? "tool_calls" : "stop"),
    ...choiceExtrasOf(choice),
  };
}

function withoutEcho(message: AnswerMessage, echo: string, { repeats_prefill }: Quirks): void {
  if (message.content === echo) message.content = "";
  else if (repeats_prefill === true && message.content?.startsWith(echo))
    message.content = message.content.slice(echo.length);
}

function saysAnything(message: JsonObject): boolean {
  for (const name in message) if (name !== "role" && message[name] != null) return true;
  return false;
}

/** A choice's number; upstreams that give only one may leave it out. */
export function indexOf(choice: JsonObject, otherwise: number): number {
  const { index } = choice;
  return Number.isInteger(index) && (index as number) >= 0 ? (index as number) : otherwise;
}

type Texts = { content: string | undefined; thoughts: string | undefined };

/**
 * The text and the thoughts of a message or a fragment of one.
 * Mistral says both in one array: https://docs.mistral.ai/capabilities/reasoning
 * Databricks too: https://docs.databricks.com/aws/en/machine-learning/model-serving/query-reason-models
 * @throws InvalidAnswer where there is something else
 */
export function textsOf(from: JsonObject, tags: ThinkTags | undefined, isWhole: boolean): Texts {
  let thoughts = thoughtsIn(from);
  let content: string | undefined;
  if (!Array.isArray(from["content"])) content = textIn(from, "content");
  else {
    const parts = objectsIn(from, "content");
    content = parts.map((part) => (part["type"] === "text" ? textIn(part, "text") : "")).join("");
    thoughts ??= parts.map(thoughtsOfPart).join("");
  }
  if (tags === undefined || content === undefined) return { content, thoughts };
  const split = tags.push(content, isWhole);
  return { content: split.content, thoughts: (thoughts ?? "") + split.thoughts };
}

/** The same text may stand in two members: https://docs.vllm.ai/en/latest/features/reasoning_outputs.html */
export function thoughtsIn(from: JsonObject): string | undefined {
  const named = [from["reasoning_content"], from["reasoning"], from["reasoning_text"]];
  return named.find((text) => typeof text === "string" && text !== "") as string | undefined;
}

function thoughtsOfPart(part: JsonObject): string {
  if (part["type"] === "thinking") return thinkingOf(part);
  if (part["type"] !== "reasoning") return "";
  return listOf(part["summary"])
    .map((one) => (isObject(one) ? stringOf(one["text"]) : ""))
    .join("");
}

function thinkingOf({ thinking }: JsonObject): string {
  if (!Array.isArray(thinking)) return stringOf(thinking);
  return thinking.map((part) => (isObject(part) ? stringOf(part["text"]) : "")).join("");
}

export function stringOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

type AnyToolCall = ToolCall | CustomToolCall | OtherToolCall;

function callsOf(message: JsonObject, makeId: (count: number) => string): AnyToolCall[] {
  return objectsIn(message, "tool_calls").flatMap((call, at) => callOf(call, stringOf(call["id"]) || makeId(at)) ?? []);
}

/** Leaves out a call with neither a name nor anything else. @throws InvalidAnswer for one with arguments and no name */
function callOf(call: JsonObject, id: string): AnyToolCall | undefined {
  if (isOtherKind(call)) return { ...call, id } as OtherToolCall;
  const called = calledIn(call);
  if (called === undefined) return undefined;
  const { said } = called;
  const isCustom = called.kind === "custom";
  const name = textIn(said, "name") ?? "";
  const input = isCustom ? (textIn(said, "input") ?? "") : argumentsOf(said["arguments"]);
  if (name === "" && input !== "") throw new InvalidAnswer("a call without a name");
  if (name === "") return undefined;
  if (isCustom) return { id, type: "custom", custom: { name, input } };
  const extra = isObject(call["extra_content"]) ? { extra_content: call["extra_content"] } : {};
  return { id, type: "function", function: { name, arguments: writtenArguments(input) }, ...extra };
}

/** Arguments are a JSON text; some upstreams give the value itself. @throws InvalidAnswer for what is neither */
export function argumentsOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.length === 0) return "";
  if (value != null && !isObject(value)) throw new InvalidAnswer("arguments that are none");
  return value == null ? "" : JSON.stringify(value);
}

/** Other words for the same reasons, lower-case. */
const finishReasons: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool_calls",
  content_filter: "content_filter",
  function_call: "function_call",
  // https://docs.mistral.ai/api/#tag/chat
  model_length: "length",
  max_tokens: "length",
  max_output_tokens: "length",
  tool_use: "tool_calls",
  // https://docs.z.ai/api-reference/llm/chat-completion
  sensitive: "content_filter",
  safety: "content_filter",
};

/** https://docs.mistral.ai/api/#tag/chat, https://docs.z.ai/api-reference/llm/chat-completion, https://api-docs.deepseek.com/api/create-chat-completion */
const failures = new Set(["error", "network_error", "insufficient_system_resource"]);

/** True for an end that is no answer: the upstream broke off. */
export function isFailure(reason: unknown): boolean {
  return typeof reason === "string" && failures.has(reason);
}

/** @returns undefined while there is none; the nearest legal value for what nobody documents */
export function finishReasonOf(choice: JsonObject, hasCalls: boolean): FinishReason | undefined {
  const reason = textOf(choice["finish_reason"]) ?? "";
  if (reason === "") return undefined;
  const known = reasonIn(reason) ?? "stop";
  // What cut a call is told in the maker's own word alone: https://openrouter.ai/docs/api-reference/overview#finish-reason
  if (hasCalls && reasonIn(textOf(choice["native_finish_reason"]) ?? "") === "length") return "length";
  return known === "stop" && hasCalls ? "tool_calls" : known;
}

function reasonIn(word: string): FinishReason | undefined {
  const known = [word, word.toLowerCase()].find((one) => Object.hasOwn(finishReasons, one));
  return known === undefined ? undefined : finishReasons[known];
}

/**
 * Counts in the public meaning; what was reported is never guessed over.
 * @param beside members of the answer beside them
 * @returns undefined where nothing was reported
 */
export function usageOf(reported: unknown, quirks: Quirks, beside: JsonObject = {}): Usage | undefined {
  if (!isObject(reported)) return undefined;
  const found = toldIn(billedPlaces.chat, { ...beside, usage: reported });
  const promptDetails = countsByName(reported["prompt_tokens_details"]);
  const completionDetails = countsByName(reported["completion_tokens_details"]);
  fill(promptDetails, "cached_tokens", found.cached, reported["prompt_cache_hit_tokens"] ?? reported["cached_tokens"]);
  fill(promptDetails, "cache_write_tokens", found.written);
  fill(completionDetails, "reasoning_tokens", found.reasoning, reported["reasoning_tokens"]);
  const prompt_tokens = countOf(reported["prompt_tokens"]) ?? 0;
  let completion_tokens = countOf(reported["completion_tokens"]) ?? 0;
  const reasoning = completionDetails["reasoning_tokens"] ?? 0;
  const total = countOf(reported["total_tokens"]);
  if (quirks.usage_without_reasoning === true && total === prompt_tokens + completion_tokens + reasoning) {
    completion_tokens += reasoning;
  }
  return {
    ...extrasOf(reported, usageDetails),
    prompt_tokens,
    completion_tokens,
    total_tokens: total ?? prompt_tokens + completion_tokens,
    ...(isEmpty(promptDetails) ? {} : { prompt_tokens_details: promptDetails }),
    ...(isEmpty(completionDetails) ? {} : { completion_tokens_details: completionDetails }),
    ...billedBy(found),
  };
}

/** @param told by one of its places @param zero a count of nothing by another name, which is told too */
function fill(details: Record<string, number>, name: string, told: number | undefined, zero?: unknown): void {
  const count = details[name] || told || (details[name] ?? countOf(zero));
  if (count !== undefined) details[name] = count;
}

/** Members of the answer's frame that are ours to write, or are read in another place. An empty `error` is none. */
const knownTopLevel = new Set(
  words("id object created model choices usage metadata x_groq prompt error ended_thought"),
);
/** `text` repeats the fragment: https://docs.together.ai/reference/chat-completions-1 */
const knownInChoice = new Set(["index", "message", "delta", "finish_reason", "logprobs", "usage", "error", "text"]);
const thoughts = ["reasoning_content", "reasoning", "reasoning_text"];
/** `index`, `token_id` and `channel` are notes of Mistral, Together and Groq on single fragments. */
const knownInMessage = new Set(["role", "content", "tool_calls", "channel", "index", "token_id", ...thoughts]);
const usageDetails = new Set(["prompt_tokens_details", "completion_tokens_details"]);

/**
 * Padding against the guessing of tokens by their length: OpenAI's, Mistral's, and that of GitHub's Copilot. What we send has lengths
 * of its own.
 */
const padding = new Set(["obfuscation", "p", "padding"]);

export function isPadding(key: string): boolean {
  return padding.has(key);
}

type Lens = (value: unknown) => unknown;

/** Readers of members that other formats or typed clients look into: a value of another kind is absent. */
const lenses: ReadonlyMap<string, Lens> = new Map<string, Lens>([
  ["refusal", textOf],
  ["annotations", annotationsOf],
  ["thinking_blocks", thinkingBlocksOf],
  ["reasoning_details", (value) => listOf(value).filter(isObject)],
  ["extra_content", objectOf],
  ["audio", audioOf],
  ["function_call", functionCallOf],
  ["service_tier", textOf],
  ["system_fingerprint", textOf],
]);

/** https://platform.openai.com/docs/api-reference/chat/object (audio) */
export function audioOf(value: unknown): JsonObject | undefined {
  const { id, data, transcript, expires_at } = objectOf(value) ?? {};
  const texts = Object.entries({ id, data, transcript }).filter(([, text]) => typeof text === "string");
  const expires = countOf(expires_at);
  if (texts.length === 0 && expires === undefined) return undefined;
  return { ...Object.fromEntries(texts), ...(expires !== undefined && { expires_at: expires }) };
}

/** A call, or a fragment of one. */
function functionCallOf(value: unknown): JsonObject | undefined {
  const { name, arguments: written } = objectOf(value) ?? {};
  if (typeof name !== "string" && typeof written !== "string") return undefined;
  return { ...(typeof name === "string" && { name }), arguments: stringOf(written) };
}

/** Gives all other members; fields that an upstream invents are the caller's to read. */
function extrasOf(from: JsonObject, known: ReadonlySet<string>): JsonObject {
  const extras: JsonObject = {};
  for (const key in from) {
    if (known.has(key) || from[key] == null || isPadding(key)) continue;
    const lens = lenses.get(key);
    const value = lens === undefined ? from[key] : lens(from[key]);
    if (value !== undefined) extras[key] = value;
  }
  return extras;
}

export function chunkExtrasOf(chunk: JsonObject): JsonObject {
  return extrasOf(chunk, knownTopLevel);
}
export function choiceExtrasOf(choice: JsonObject): { logprobs?: Logprobs; [extra: string]: unknown } {
  const logprobs = choiceLogprobs(choice["logprobs"]);
  return { ...(logprobs && { logprobs }), ...withoutEmpty(extrasOf(choice, knownInChoice)) };
}
/** Leaves out a fragment's empty members, which many upstreams repeat in each. */
export function deltaExtrasOf(delta: JsonObject): JsonObject {
  return withoutEmpty(extrasOf(delta, knownInMessage));
}

function withoutEmpty(fields: JsonObject): JsonObject {
  for (const key in fields) {
    const value = fields[key];
    if (value === "" || (typeof value === "object" && value !== null && isEmpty(value))) delete fields[key];
  }
  return fields;
}

/** In today's form, or in that of the older completions, which Together still gives: https://docs.together.ai/docs/logprobs */
function choiceLogprobs(value: unknown): Logprobs | undefined {
  if (!isObject(value)) return undefined;
  if (!Array.isArray(value["tokens"])) {
    const { content, refusal } = value;
    return {
      content: Array.isArray(content) ? logprobsOf(content) : null,
      ...(refusal !== undefined && { refusal: Array.isArray(refusal) ? logprobsOf(refusal) : null }),
    };
  }
  const chances = Array.isArray(value["token_logprobs"]) ? value["token_logprobs"] : [];
  return {
    content: value["tokens"].map((token, at) => ({
      token: stringOf(token),
      logprob: Number.isFinite(chances[at]) ? chances[at] : impossible,
      bytes: null,
      top_logprobs: [],
    })),
  };
}
