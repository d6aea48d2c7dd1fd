/**
 * Reads the answer that nearly every call gets: one choice with a text, and counts, each as the public reference has it. What deviates in
 * anything is left to `completionOf`, which reads all of them and gives the same for these.
 * Source: https://platform.openai.com/docs/api-reference/chat/object
 */

import type { Quirks } from "../../facts/vocabulary/chat.ts";
import { isObject, type JsonObject } from "../../lib/json/json.ts";
import type { AnswerMessage, Choice, CompletionBody, Usage } from "../../protocols/chat/schema.ts";

/** @returns undefined where anything is not plain */
export function plainCompletionOf(body: JsonObject, quirks: Quirks): CompletionBody | undefined {
  if (quirks.think_tags === true || quirks.usage_without_reasoning === true) return undefined;
  const choice = onlyChoiceIn(body["choices"]);
  if (choice === undefined) return undefined;
  const completion: CompletionBody = { choices: [choice] };
  // Null is the same as absent, here and below.
  if (body["usage"] != null) {
    const usage = plainUsageOf(body["usage"]);
    if (usage === undefined) return undefined;
    completion.usage = usage;
  }
  for (const name in body) {
    const value = body[name];
    if (value === null || frame.has(name)) continue;
    const isText = name === "service_tier" || name === "system_fingerprint";
    if (isText && typeof value === "string") completion[name] = value;
    else if (name !== "object" || value !== "chat.completion") return undefined;
  }
  return completion;
}

/** Members that are read apart, or are ours to write. */
const frame = new Set(["id", "created", "model", "choices", "usage"]);

function onlyChoiceIn(choices: unknown): Choice | undefined {
  const choice: unknown = Array.isArray(choices) && choices.length === 1 ? choices[0] : undefined;
  if (!isObject(choice)) return undefined;
  const { index, finish_reason } = choice;
  if (!isCount(index) || (finish_reason !== "stop" && finish_reason !== "length")) return undefined;
  const message = messageOf(choice["message"]);
  if (message === undefined) return undefined;
  for (const name in choice) {
    if (name === "index" || name === "finish_reason" || name === "message" || choice[name] === null) continue;
    return undefined;
  }
  return { index, message, finish_reason };
}

function messageOf(message: unknown): AnswerMessage | undefined {
  if (!isObject(message) || typeof message["content"] !== "string") return undefined;
  const said: AnswerMessage = { role: "assistant", content: message["content"] };
  for (const name in message) {
    const value = message[name];
    if (name === "role" || name === "content" || value === null) continue;
    if (!Array.isArray(value) || value.length > 0) return undefined;
    if (name === "annotations") said.annotations = [];
    else if (name !== "tool_calls") return undefined;
  }
  return said;
}

/** The same as `usageOf` gives, where nothing of a quirk is in it. @returns undefined where anything is not plain */
export function plainUsageOf(usage: unknown): Usage | undefined {
  if (!isObject(usage)) return undefined;
  const { prompt_tokens, completion_tokens, total_tokens } = usage;
  if (!isCount(prompt_tokens) || !isCount(completion_tokens) || !isCount(total_tokens)) return undefined;
  const counts: Usage = { prompt_tokens, completion_tokens, total_tokens };
  const { prompt_tokens_details: prompt, completion_tokens_details: completion } = usage;
  if (areCounts(prompt)) counts.prompt_tokens_details = prompt;
  if (areCounts(completion)) counts.completion_tokens_details = completion;
  for (const name in usage) if (!Object.hasOwn(counts, name) && usage[name] !== null) return undefined;
  return counts;
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** True if they are counts by their names, one at least. */
function areCounts(details: unknown): details is Record<string, number> {
  if (!isObject(details)) return false;
  let isAny = false;
  for (const name in details) {
    if (name === "__proto__" || !isCount(details[name])) return false;
    isAny = true;
  }
  return isAny;
}
