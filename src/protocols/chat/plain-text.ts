/** Recognizes the most common chunk: a fragment of the first choice's text, and no more. */
import type { ChunkChoice } from "./schema.ts";

/** @returns the text of a choice of index 0 that holds nothing else; undefined for any other */
export function plainText(choice: ChunkChoice): string | undefined {
  const { index, delta, finish_reason, logprobs } = choice;
  if (index !== 0 || finish_reason !== null || logprobs != null || typeof delta.content !== "string") return undefined;
  for (const name in delta) if (name !== "content") return undefined;
  for (const name in choice) {
    if (name !== "index" && name !== "delta" && name !== "finish_reason" && name !== "logprobs") return undefined;
  }
  return delta.content;
}
