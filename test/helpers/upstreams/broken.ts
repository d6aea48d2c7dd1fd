/** A stream of a family that breaks: before its first words, behind them, or by the family's own error event. */
import { sseResponse } from "../upstream-server.ts";
import type { AgentFamilyName } from "./agent.ts";

export const breaks = ["before", "after", "by error"] as const;
export type Break = (typeof breaks)[number];

const message = "the model is gone";
/** Each family's error within a stream, as its reference has it. */
const errorEvents: Record<AgentFamilyName, string> = {
  // https://platform.openai.com/docs/api-reference/chat-streaming
  chat: `data: ${JSON.stringify({ error: { message, type: "server_error", param: null, code: null } })}\n\n`,
  // https://platform.claude.com/docs/en/build-with-claude/streaming#error-events
  anthropic: `event: error\ndata: ${JSON.stringify({ type: "error", error: { type: "overloaded_error", message } })}\n\n`,
  // https://ai.google.dev/gemini-api/docs/troubleshooting
  google: `data: ${JSON.stringify({ error: { code: 503, message, status: "UNAVAILABLE" } })}\n\n`,
  // https://platform.openai.com/docs/api-reference/responses-streaming/error
  responses: `event: error\ndata: ${JSON.stringify({ type: "error", sequence_number: 4, code: "server_error", message, param: null })}\n\n`,
};

/** @param whole a stream of text @param words its first fragment */
export async function brokenStream(
  whole: Response,
  family: AgentFamilyName,
  broken: Break,
  words: string,
): Promise<Response> {
  const events = (await whole.text()).split(/(?<=\n\n)/);
  const first = events.findIndex((event) => event.includes(`"${words}"`));
  const kept = events.slice(0, broken === "before" ? first : first + 1);
  return sseResponse(broken === "by error" ? [...kept, errorEvents[family]] : kept);
}
