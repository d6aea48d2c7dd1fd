/** Puts messages into the order that single upstreams ask for beyond the public format. */

import type { Quirks } from "../../facts/vocabulary/chat.ts";
import { derive, isObject, type JsonObject, saysNothing } from "../../lib/json/json.ts";

/** @returns the same list where nothing had to change */
export function inOrder(messages: readonly JsonObject[], quirks: Quirks): readonly JsonObject[] {
  let ordered = messages;
  if (quirks.empty_answers === false) ordered = withoutEmptyAnswers(ordered);
  if (quirks.answer_after_tools === true) ordered = withAnswers(ordered);
  if (quirks.alternating === true) ordered = alternating(ordered);
  const last = ordered.at(-1);
  if (quirks.prefill_field === undefined || last?.["role"] !== "assistant" || last["tool_calls"] !== undefined) {
    return ordered;
  }
  return [...ordered.slice(0, -1), derive(last, { [quirks.prefill_field]: true, ...last })];
}

function withoutEmptyAnswers(messages: readonly JsonObject[]): readonly JsonObject[] {
  const isBlank = (part: unknown) => isObject(part) && part["type"] === "text" && part["text"] === "";
  const isEmpty = ({ role, content, tool_calls }: JsonObject) =>
    role === "assistant" &&
    tool_calls === undefined &&
    (saysNothing(content) || (Array.isArray(content) && content.every(isBlank)));
  return messages.some(isEmpty) ? messages.filter((message) => !isEmpty(message)) : messages;
}

/** Adds the answer of a model that has seen a tool's result and was interrupted. */
function withAnswers(messages: readonly JsonObject[]): JsonObject[] {
  return messages.flatMap((message, at) => {
    const interrupts = message["role"] === "user" && messages[at - 1]?.["role"] === "tool";
    return interrupts ? [{ role: "assistant", content: "OK." }, message] : [message];
  });
}

/** Instructions first; then the user and the assistant in turns, beginning and ending with the user. */
function alternating(messages: readonly JsonObject[]): JsonObject[] {
  const turns: JsonObject[] = [];
  for (const message of messages) {
    const late = message["role"] === "system" && turns.some(({ role }) => role !== "system");
    const turn: JsonObject = late ? derive(message, { ...message, role: "user" }) : message;
    const last = turns.at(-1);
    if (last === undefined || !isSameTurn(last, turn)) turns.push(turn);
    else turns[turns.length - 1] = derive(last, { ...last, content: together(last["content"], turn["content"]) });
  }
  const first = turns.findIndex(({ role }) => role !== "system");
  if (turns[first]?.["role"] === "assistant") turns.splice(first, 0, { role: "user", content: "Begin." });
  if (turns.at(-1)?.["role"] === "assistant") turns.push({ role: "user", content: "Continue." });
  return turns;
}

const speakers = new Set<unknown>(["user", "assistant"]);

function isSameTurn(first: JsonObject, second: JsonObject): boolean {
  const calls = first["tool_calls"] !== undefined || second["tool_calls"] !== undefined;
  return speakers.has(first["role"]) && first["role"] === second["role"] && !calls;
}

function together(first: unknown, second: unknown): unknown {
  if (typeof first === "string" && typeof second === "string") return `${first}\n\n${second}`;
  return [...partsOf(first), ...partsOf(second)];
}

function partsOf(content: unknown): unknown[] {
  if (Array.isArray(content)) return content;
  return typeof content === "string" && content !== "" ? [{ type: "text", text: content }] : [];
}
