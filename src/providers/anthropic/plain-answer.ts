/**
 * Reads the answer that nearly every call gets: text alone. What deviates in anything is left to `AnthropicStream.whole`, which reads all
 * answers and gives the same for these.
 * Source: https://platform.claude.com/docs/en/api/messages
 */
import { isObject, type JsonObject, objectOf } from "../../lib/json/json.ts";
import type { CompletionBody } from "../../protocols/chat/schema.ts";
import { finishReason, servedTier, usageOf } from "../../protocols/messages/ending.ts";
import { servedBy } from "./served.ts";

/** @param asked the model that was asked @returns undefined where anything is not plain */
export function plainCompletionOf(
  { content, stop_reason, usage, model }: JsonObject,
  asked: string,
): CompletionBody | undefined {
  if (!Array.isArray(content) || typeof stop_reason !== "string" || stop_reason === "refusal") return undefined;
  let text = "";
  for (const block of content) {
    if (!isObject(block) || block["type"] !== "text" || block["citations"] != null) return undefined;
    if (typeof block["text"] !== "string") return undefined;
    text += block["text"];
  }
  const counted = objectOf(usage) ?? {};
  const counts = usageOf(counted, { servedBy: servedBy(asked, model) });
  return {
    choices: [
      { index: 0, message: { role: "assistant", content: text }, finish_reason: finishReason(stop_reason, false) },
    ],
    ...(counts !== undefined && { usage: counts }),
    ...servedTier(counted),
  };
}
