/**
 * Messages of the public format as Gemini's turns: two roles only, neighbours of one role merged, results under the user's
 * role with their function's name, and thought signatures back on the parts they came on.
 * Source: https://ai.google.dev/api/caching#Content
 */
import type { Content, FunctionResponse, FunctionResponsePart, Part } from "@google/genai";
import type { GoogleRules } from "../../facts/vocabulary/gemini.ts";
import { parseExact } from "../../lib/json/exact.ts";
import { type JsonObject, listOf, objectOf } from "../../lib/json/json.ts";
import { wholeDetails } from "../../protocols/chat/reasoning-details.ts";
import type { AssistantMessage, ChatRequest, ToolMessage, UserMessage } from "../../protocols/chat/schema.ts";
import { spokenText } from "../../protocols/chat/texts.ts";
import { argumentsIn } from "../../protocols/chat/tools.ts";
import { ApiError } from "../../protocols/errors.ts";
import { anySignature, googleSignature, imagePart } from "../../protocols/generate-content/state.ts";
import { uniqueCallIds } from "../call-ids.ts";
import type { Call } from "../provider.ts";
import { refuseType } from "../tool-types.ts";
import { mediaPart } from "./media.ts";

type Turn = { role: "user" | "model"; parts: Part[] };
type ToolCall = NonNullable<AssistantMessage["tool_calls"]>[number];
type GoogleContents = { systemInstruction?: Content; contents: Content[] };

/**
 * @param instruction stands behind the caller's own
 * @throws ApiError naming the message or part that this provider can't take
 */
export function conversationOf(call: Call, rules: GoogleRules, instruction?: string): GoogleContents {
  const system: Part[] = [];
  const turns: Turn[] = [];
  /** The functions of earlier calls, by the call's id. */
  const called = new Map<string, string>();
  let currentTurn = 0;
  for (const { message, path, ids } of inCallOrder(call.request.messages)) {
    switch (message.role) {
      case "developer":
      case "system":
        system.push(...textParts(message.content));
        break;
      case "user":
        append(turns, "user", userParts(message, path, call));
        currentTurn = turns.length;
        break;
      case "assistant":
        for (const [at, one] of (message.tool_calls ?? []).entries()) {
          if (one.type === "function") called.set(ids[at]!, one.function.name);
        }
        append(turns, "model", modelParts(message, path, ids, rules));
        break;
      case "tool":
        append(turns, "user", resultParts(message, path, ids[0]!, called, call, rules));
        break;
    }
  }
  for (const [at, turn] of turns.entries()) if (turn.role === "model") sign(turn, at >= currentTurn, rules.signatures);
  // An empty word of the user's is the last one all the same.
  if (call.request.messages.at(-1)?.role === "user")
    append(turns, "user", turns.at(-1)?.role === "model" ? [blank] : []);
  const isContinued = call.extras["continuation_token"] !== undefined;
  if (turns.at(-1)?.role === "model" && !rules.prefill && !isContinued) append(turns, "user", [{ text: "Continue." }]);
  if (instruction !== undefined) system.push({ text: instruction });
  if (system.length === 0) return { contents: openedByUser(turns, [blank]) };
  if (rules.system_instruction && turns.length > 0) {
    return { systemInstruction: { parts: system }, contents: openedByUser(turns, [blank]) };
  }
  const [opening, ...rest] = turns;
  if (opening?.role !== "user") return { contents: openedByUser(turns, system) };
  return { contents: [{ role: "user", parts: [...system, ...opening.parts] }, ...rest] };
}

/** Says nothing, which an empty text may not: "Unable to submit request because it has an empty text parameter". */
const blank: Part = { text: " " };

/**
 * The user has the first word: "Please ensure that function call turn comes immediately after a user turn or after a function
 * response turn." Source: https://ai.google.dev/gemini-api/docs/function-calling
 */
function openedByUser(turns: Turn[], parts: Part[]): Turn[] {
  return turns[0]?.role === "user" ? turns : [{ role: "user", parts }, ...turns];
}

type Placed = {
  readonly message: ChatRequest["messages"][number];
  readonly path: string;
  /** The ids of the message's calls, or of its result. */
  readonly ids: readonly string[];
};

/** Puts results without ids into the order of the calls, which alone shows the call that each of them answers. */
function inCallOrder(messages: ChatRequest["messages"]): Placed[] {
  const ids = uniqueCallIds(messages, (id) => id);
  const ranks = new Map<string, number>();
  let calls = 0;
  let group = 0;
  const placed = messages.map((message, at) => {
    if (message.role !== "tool") group += 1;
    if (message.role === "assistant") for (const id of ids[at]!) ranks.set(id, calls++);
    const rank = message.role === "tool" ? (ranks.get(ids[at]![0]!) ?? calls) : -1;
    return { message, path: `messages[${at}]`, ids: ids[at]!, group, rank };
  });
  return placed.toSorted((a, b) => a.group - b.group || a.rank - b.rank);
}

function append(turns: Turn[], role: Turn["role"], parts: Part[]): void {
  if (parts.length === 0) return;
  const last = turns.at(-1);
  if (last?.role === role) last.parts.push(...parts);
  else turns.push({ role, parts });
}

function textParts(content: string | readonly { text: string }[]): Part[] {
  const texts = typeof content === "string" ? [content] : content.map(({ text }) => text);
  return texts.filter((text) => text !== "").map((text) => ({ text }));
}

function userParts({ content }: UserMessage, path: string, { media }: Call): Part[] {
  if (typeof content === "string") return textParts(content);
  return content.flatMap((part, at) =>
    part.type === "text" ? textParts(part.text) : [mediaPart(part, `${path}.content[${at}]`, media)],
  );
}

function modelParts(message: AssistantMessage, path: string, ids: readonly string[], rules: GoogleRules): Part[] {
  const calls = message.tool_calls ?? [];
  const signatures = replayedSignatures(message, calls);
  const text = spokenText(message);
  const images = listOf((message as JsonObject)["images"]).flatMap((image) => imagePart(image, googleSignature));
  const callParts = calls.map((one, at) =>
    callPart(one, `${path}.tool_calls[${at}]`, ids[at]!, signatures.calls[at], rules),
  );
  const own = signatures.message === undefined ? {} : { thoughtSignature: signatures.message };
  // A signature without a text of its own came on an empty one, at the end.
  if (text === "" && signatures.message !== undefined) return [...images, ...callParts, { text: "", ...own }];
  return [...(text === "" ? [] : [{ text, ...own }]), ...images, ...callParts];
}

function callPart(
  call: ToolCall,
  path: string,
  id: string,
  thoughtSignature: string | undefined,
  rules: GoogleRules,
): Part {
  if (call.type === "custom")
    throw ApiError.unsupported(path, `${path}: custom tools are not supported by this provider.`);
  if (call.type !== "function") return refuseType(call.type, path);
  const { name, arguments: written } = call.function;
  // A text that is no JSON object is still the model's.
  const args = argumentsIn(written) ?? { arguments: written };
  const functionCall = { ...(rules.call_ids && { id }), name, args };
  return { functionCall, ...(thoughtSignature !== undefined && { thoughtSignature }) };
}

function resultParts(
  message: ToolMessage,
  path: string,
  id: string,
  called: ReadonlyMap<string, string>,
  call: Call,
  rules: GoogleRules,
): Part[] {
  const { content } = message;
  const name = called.get(id) ?? message.name;
  if (name == null) {
    throw ApiError.invalidValue(
      `${path}.tool_call_id`,
      `${path}.tool_call_id names no tool call of an earlier message.`,
    );
  }
  const parts = typeof content === "string" ? [] : content;
  const texts =
    typeof content === "string" ? [content] : parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
  const media = parts.flatMap((part, at) =>
    part.type === "text" ? [] : [mediaPart(part, `${path}.content[${at}]`, call.media)],
  );
  const functionResponse: FunctionResponse = {
    ...(rules.call_ids && { id }),
    name,
    response: (message as JsonObject)["is_error"] === true ? { error: texts.join("\n") } : responseOf(texts.join("\n")),
  };
  if (!rules.media_results) return [{ functionResponse }, ...media];
  if (media.length > 0) functionResponse.parts = media as FunctionResponsePart[];
  return [{ functionResponse }];
}

function responseOf(text: string): JsonObject {
  const parsed = text.trimStart().startsWith("{") ? objectOf(parseExact(text)) : undefined;
  return parsed ?? { output: text };
}

/** The name in other gateways of this provider's entries in `reasoning_details`. */
const detailFormat = "google-gemini-v1";

type Signatures = { message: string | undefined; calls: readonly (string | undefined)[] };

/** The signatures that an echoed message carries, in the fields we write or in other gateways'. */
function replayedSignatures(message: AssistantMessage, calls: readonly ToolCall[]): Signatures {
  const details = wholeDetails(message.reasoning_details).filter(
    ({ type, format }) => type === "reasoning.encrypted" && format === detailFormat,
  );
  const found = calls.map((call) => {
    const named = details.find(({ id }) => id === call.id)?.["data"];
    return callSignature(call as JsonObject) ?? presentText(named);
  });
  const others = details.filter(({ id }) => !calls.some((call) => call.id === id));
  const loose = presentText(others[0]?.["data"]);
  if (calls.length === 0) return { message: signatureOf(message) ?? loose, calls: found };
  return { message: signatureOf(message), calls: [found[0] ?? loose, ...found.slice(1)] };
}

function callSignature(call: JsonObject): string | undefined {
  return signatureOf(call) ?? signatureOf(objectOf(call["function"]) ?? {});
}

/** The state of a message, a call, or a call's function. */
function signatureOf(carrier: object): string | undefined {
  const { extra_content, thought_signature, provider_specific_fields } = carrier as JsonObject;
  const specific = objectOf(provider_specific_fields) ?? {};
  return (
    googleSignature(extra_content) ??
    presentText(thought_signature) ??
    presentText(specific["thought_signature"]) ??
    presentText(listOf(specific["thought_signatures"])[0])
  );
}

function presentText(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Only the current turn is checked upstream: what follows the last message of the user. */
function sign({ parts }: Turn, current: boolean, signatures: GoogleRules["signatures"]): void {
  const firstCall = parts.find(({ functionCall }) => functionCall !== undefined);
  if (signatures === "parts") for (const part of parts) part.thoughtSignature ??= anySignature;
  else if (signatures === "calls" && current && firstCall !== undefined) firstCall.thoughtSignature ??= anySignature;
}
