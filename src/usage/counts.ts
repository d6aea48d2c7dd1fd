/** Token counts by kind, from the usage of an answer in the inner form. */
import type { Usage } from "../protocols/chat/schema.ts";
import type { TokenCounts } from "../store/store.ts";

export const noTokens: TokenCounts = {
  input: 0,
  cacheRead: 0,
  cacheWrite5m: 0,
  cacheWrite1h: 0,
  output: 0,
  reasoning: 0,
  audioInput: 0,
  audioOutput: 0,
};

/** Upstreams may say anything: what is no count is none, and a part is never more than the whole. */
export function tokensOf(usage: Usage): TokenCounts {
  const { prompt_tokens_details: prompt, completion_tokens_details: completion } = usage;
  const input = countOf(usage.prompt_tokens);
  const output = countOf(usage.completion_tokens);
  const cacheRead = Math.min(input, countOf(prompt?.["cached_tokens"]));
  const cacheWrite = Math.min(input - cacheRead, countOf(prompt?.["cache_write_tokens"]));
  return {
    input,
    cacheRead,
    cacheWrite5m: cacheWrite,
    cacheWrite1h: 0,
    output,
    reasoning: Math.min(output, countOf(completion?.["reasoning_tokens"])),
    audioInput: Math.min(input, countOf(prompt?.["audio_tokens"])),
    audioOutput: Math.min(output, countOf(completion?.["audio_tokens"])),
  };
}

/** Beyond this no upstream counts: sums stay exact. */
const maxCount = 1_000_000_000;

function countOf(value: unknown): number {
  return typeof value === "number" && value > 0 ? Math.min(maxCount, Math.trunc(value)) : 0;
}
