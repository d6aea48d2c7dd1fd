/** The parts of a request that its stored completion shows. */
import type { ChatRequest } from "../protocols/chat/schema.ts";

/**
 * The request's fields that a stored completion shows.
 * Source: https://platform.openai.com/docs/api-reference/chat/get
 */
export function shownOf(request: ChatRequest, requestId: string): Record<string, unknown> {
  return {
    request_id: requestId,
    tool_choice: request.tool_choice ?? null,
    tools: request.tools ?? null,
    seed: request.seed ?? null,
    top_p: request.top_p ?? 1,
    temperature: request.temperature ?? 1,
    presence_penalty: request.presence_penalty ?? 0,
    frequency_penalty: request.frequency_penalty ?? 0,
    input_user: request.user ?? null,
    response_format: request.response_format ?? null,
  };
}
