/** Answers in the form of a legacy completion. */
import type { Choice, ChunkChoice, CompletionBody, Envelope, Logprobs } from "../chat/schema.ts";

export type CompletionsOptions = {
  /** True where a stream's last chunk has the counts. */
  readonly includeUsage: boolean;
  /** The beginning of every choice: the prompt, where it is to be echoed. */
  readonly echo: string;
};

type TextLogprobs = {
  tokens: string[];
  token_logprobs: number[];
  top_logprobs: Record<string, number>[] | null;
  /** Places, in characters from the beginning of the text. */
  text_offset: number[];
};

/** @param from where the text of these tokens begins */
export function logprobsOf(logprobs: Logprobs | null | undefined, from: number): TextLogprobs | null {
  const content = logprobs?.content;
  if (content == null) return null;
  const answer: TextLogprobs = { tokens: [], token_logprobs: [], top_logprobs: null, text_offset: [] };
  let offset = from;
  for (const { token, logprob, top_logprobs } of content) {
    answer.tokens.push(token);
    answer.token_logprobs.push(logprob);
    answer.text_offset.push(offset);
    offset += token.length;
    if (top_logprobs.length === 0) continue;
    answer.top_logprobs ??= [];
    answer.top_logprobs.push(Object.fromEntries(top_logprobs.map((top) => [top.token, top.logprob])));
  }
  return answer;
}

/** There are no tools in this format: what ended with a call has ended. */
export function finishOf(reason: ChunkChoice["finish_reason"]): string | null {
  return reason === "tool_calls" || reason === "function_call" ? "stop" : reason;
}

export function textCompletion(
  { choices, usage, metadata, system_fingerprint }: CompletionBody,
  { id, created, model }: Envelope,
  { echo }: CompletionsOptions,
): object {
  return {
    id,
    object: "text_completion",
    created,
    model,
    choices: choices.map((choice) => choiceOf(choice, echo)),
    ...(usage !== undefined && { usage }),
    ...(metadata !== undefined && { metadata }),
    ...(system_fingerprint !== undefined && { system_fingerprint }),
  };
}

function choiceOf({ index, message, finish_reason, logprobs }: Choice, echo: string): object {
  return {
    text: echo + (message.content ?? message.refusal ?? ""),
    index,
    logprobs: logprobsOf(logprobs, echo.length),
    finish_reason: finishOf(finish_reason),
  };
}
