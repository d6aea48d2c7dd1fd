/** A normalised plain answer as a chat completion. */
import type { ChatCompletion, CompletionBody, Envelope } from "./schema.ts";

export function chatCompletion(body: CompletionBody, { id, created, model }: Envelope): ChatCompletion {
  return { id, object: "chat.completion", created, model, ...body };
}
