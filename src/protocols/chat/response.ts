/** Plain answers: as a chat completion, and for formats that write them as they write streams. */
import type { AnswerMessage, ChatCompletion, CompletionBody, Delta, Envelope, ToolCallDelta } from "./schema.ts";
import { openAiTier } from "./service-tier.ts";

export function chatCompletion(body: CompletionBody, { id, created, model }: Envelope): ChatCompletion {
  const completion = { id, object: "chat.completion", created, model } as ChatCompletion;
  for (const name in body) completion[name] = body[name];
  if (typeof body.service_tier === "string") completion.service_tier = openAiTier(body.service_tier);
  // Some clients want the member: https://github.com/OpenRouterTeam/typescript-sdk
  completion["system_fingerprint"] ??= null;
  return completion;
}

/** A whole message as a stream's only fragment. */
export function deltaOf({ tool_calls, role: _, ...message }: AnswerMessage): Delta {
  const calls = tool_calls?.map((call, index): ToolCallDelta => ({ index, ...call }));
  return { ...message, ...(calls !== undefined && { tool_calls: calls }) };
}
