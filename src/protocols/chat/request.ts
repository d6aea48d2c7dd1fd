/** A parsed body, checked: a `ChatRequest`, or the one `ApiError` that names what is wrong and where. */
import { derive, isObject, type JsonObject, withEach } from "../../lib/json/json.ts";
import type { PathPart } from "../../lib/json/schema-errors.ts";
import { checkedAt } from "../body/checked.ts";
import { ApiError } from "../errors.ts";
import { withoutEmptyMembers } from "./empty-members.ts";
import { type AssistantMessage, type ChatRequest, ChatRequestBody, type Message } from "./schema.ts";

type Refuse = (error: ApiError) => void;

const raise: Refuse = (error) => {
  throw error;
};

/** @param refuse takes the error of what upstreams of this format judge by themselves; absent: it is thrown @throws ApiError invalid_value or missing_field */
export function checkChatRequest(parsed: JsonObject, refuse = raise): ChatRequest {
  const value =
    parsed["extra_body"] == null
      ? checkedAt(ChatRequestBody, withoutEmptyMembers(parsed), undefined, refuse)
      : checkedWithExtraBody(parsed, refuse);
  const request = withoutNulls(value) as ChatRequest;
  if (!checkTogether(request, refuse)) return request;
  const messages = [...withEach(request.messages, saidNothing)];
  return derive(request, { ...request, messages: derive(request.messages, messages) });
}

function checkedWithExtraBody(parsed: JsonObject, refuse: Refuse): JsonObject {
  const { value, lifted } = withLiteralExtraBody(parsed);
  const isLifted = (path: readonly PathPart[]) => lifted.has(String(path[0]));
  const place = (path: readonly PathPart[]) => (isLifted(path) ? ["extra_body", ...path] : path);
  return checkedAt(ChatRequestBody, withoutEmptyMembers(value), place, refuse);
}

/**
 * Some client libraries send their users' `extra_body` as it stands: its standard fields mean what they mean at the top
 * level, and are checked like those. Options stay where they are; `extras.ts` reads them there.
 */
function withLiteralExtraBody(value: Record<string, unknown>): {
  value: Record<string, unknown>;
  lifted: ReadonlySet<string>;
} {
  const literal = value["extra_body"];
  const lifted = new Set<string>();
  if (!isObject(literal)) throw ApiError.invalidValue("extra_body", "extra_body must be an object.");
  const rest: Record<string, unknown> = {};
  const top: Record<string, unknown> = { ...value, extra_body: rest };
  for (const [key, one] of Object.entries(literal)) {
    if (!Object.hasOwn(ChatRequestBody.properties, key)) rest[key] = one;
    else if (top[key] == null) {
      top[key] = one;
      lifted.add(key);
    }
  }
  return { value: top, lifted };
}

/**
 * An answer that says nothing, with a null as we and others give it, or without a content, as openai-go's `ToParam` sends that back: upstreams
 * want a text there.
 */
function saidNothing(message: Message): Message {
  const isNothing = message.role === "assistant" && message.content == null && !says(message);
  return isNothing ? derive(message, { ...message, content: "" }) : message;
}

const says = ({ content, refusal, audio, tool_calls, function_call }: AssistantMessage): boolean =>
  content != null || refusal != null || audio != null || Boolean(tool_calls?.length) || function_call != null;

/** Rules that hold between fields. @returns whether an answer among the messages says nothing */
function checkTogether(request: ChatRequest, refuse: Refuse): boolean {
  let hasSilent = false;
  if (request.stream_options !== undefined && request.stream !== true) {
    throw ApiError.invalidValue("stream_options", "stream_options is only allowed with stream: true.");
  }
  if (request.top_logprobs !== undefined && request.logprobs !== true) {
    refuse(ApiError.invalidValue("top_logprobs", "top_logprobs needs logprobs: true."));
  }
  const { messages } = request;
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    if (message.role === "assistant" && !says(message)) hasSilent = true;
  }
  return hasSilent;
}

/** @returns the value itself where it has none */
export function withoutNulls(value: Record<string, unknown>): Record<string, unknown> {
  for (const key in value) {
    if (value[key] === null) {
      return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== null));
    }
  }
  return value;
}
