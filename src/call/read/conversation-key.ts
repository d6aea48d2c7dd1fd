/** The conversation that a call is part of, so that all of its calls go to one key and endpoint, where the prompt's cache is. */

import { type Source, wholeText } from "../../protocols/body/source.ts";
import type { ChatRequest, Message } from "../../protocols/chat/schema.ts";
import type { Conversation } from "../plan/conversation.ts";
import type { CallScope } from "../scope.ts";
import type { Plan } from "../surface.ts";
import { sessionOf } from "./session.ts";

/**
 * Members of a body that name it. Sources: https://platform.openai.com/docs/guides/prompt-caching,
 * https://openrouter.ai/docs/guides/best-practices/prompt-caching
 */
const members = ["prompt_cache_key", "session_id"];

/** Characters at the beginning and at the end of a text that tell it from others. */
const head = 2048;
const tail = 1024;

/**
 * A conversation that is continued by `previous_response_id` is known by its beginning, as each of its answers has another id.
 * @returns a short hash
 */
export function conversationKey({ context, asked }: CallScope, plan: Plan, { whole }: Conversation): string {
  const { source } = asked;
  for (const name of members) {
    const value = source.parsed[name];
    if (typeof value === "string" && value !== "") return hashOf(value);
  }
  return sessionKey(context.request) ?? hashOf(plan.persona?.id ?? "", ...beginning(whole, source));
}

/** @returns the same, where headers alone name it */
export function sessionKey(request: Request): string | undefined {
  const session = sessionOf(request);
  return session === undefined ? undefined : hashOf(session);
}

/** Of the first system text and the first of the user's. */
function beginning({ messages }: ChatRequest, source: Source): string[] {
  const system = messages.find(({ role }) => role === "system" || role === "developer");
  const user = messages.find(({ role }) => role === "user");
  return [system, user].flatMap((message) =>
    message === undefined ? "" : [message.role, ...textsOf(message, source)],
  );
}

function textsOf({ content }: Message, source: Source): string[] {
  const excerptOf = (text: string) => excerpt(wholeText(source, text));
  if (typeof content === "string") return excerptOf(content);
  return (content ?? []).slice(0, 8).flatMap((part) => excerptOf("text" in part ? part.text : JSON.stringify(part)));
}

const excerpt = (text: string) => [text.slice(0, head), text.length > head ? text.slice(-tail) : ""];

const hashOf = (...texts: readonly string[]) => Bun.hash(texts.join("\0")).toString(36);
