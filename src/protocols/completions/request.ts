/** A legacy completion as a call in the inner form: its prompt becomes the user's message. */
import type { JsonObject } from "../../lib/json/json.ts";
import { checked } from "../body/checked.ts";
import { withoutNulls } from "../chat/request.ts";
import type { ChatRequest } from "../chat/schema.ts";
import { ApiError } from "../errors.ts";
import { CompletionsBody } from "./schema.ts";

/** @throws ApiError invalid_value or missing_field */
export function checkCompletions(parsed: JsonObject): CompletionsBody {
  const given = checked(CompletionsBody, withoutNulls(parsed));
  if (given.stream_options !== undefined && given.stream !== true) {
    throw ApiError.invalidValue("stream_options", "stream_options is only allowed with stream: true.");
  }
  return given;
}

/** The prompt, where it is one text. */
export function promptText({ prompt }: CompletionsBody): string | undefined {
  if (typeof prompt === "string") return prompt;
  const [only] = prompt;
  return prompt.length === 1 && typeof only === "string" ? only : undefined;
}

export function innerRequest(given: CompletionsBody): ChatRequest {
  const { prompt: _, logprobs, echo: _e, suffix: _s, best_of: _b, ...rest } = given;
  return {
    ...rest,
    messages: [{ role: "user", content: promptText(given) ?? "" }],
    ...(typeof logprobs === "number" && { logprobs: true, ...(logprobs > 0 && { top_logprobs: logprobs }) }),
  } as ChatRequest;
}

/** Refuses what chat completions can't be asked for. */
export function refusalOf(given: CompletionsBody): ApiError | undefined {
  const { prompt, suffix, best_of, n, echo, logprobs, max_tokens } = given;
  const model = "this model is called by chat completions";
  if (promptText(given) === undefined) {
    const what = typeof prompt[0] === "string" ? "several prompts" : "tokens";
    return ApiError.unsupported("prompt", `prompt must be one text: ${model}, which take no ${what}.`);
  }
  if (suffix) return ApiError.unsupported("suffix", `suffix is not supported: ${model}, which can't fill in.`);
  if (best_of != null && best_of !== (n ?? 1)) {
    return ApiError.unsupported("best_of", `best_of is not supported: ${model}, which give all that they make.`);
  }
  if (max_tokens === 0) {
    return ApiError.unsupported("max_tokens", `max_tokens can't be 0: ${model}, which write at least one token.`);
  }
  if (echo === true && logprobs != null) {
    return ApiError.unsupported("echo", `echo can't be had with logprobs: ${model}, which have none for a prompt.`);
  }
  return undefined;
}
