/** Classifies the errors that upstreams answer. */
import type { ApiError } from "../protocols/errors.ts";
import type { UpstreamError } from "./answer.ts";
import { isSpent } from "./pool/cooldowns.ts";

/** True where a budget refused a model as nobody knows what it costs: another may have a price. Nothing was asked of anyone. */
export const hasNoPrice = ({ code }: { readonly code: string | null }) => code === "model_without_price";

/** True where a budget refused a model alone, as it has no price or is spent for that model: another may be asked. */
export const isOfModel = (error: ApiError): boolean => hasNoPrice(error) || error.isOfModel;

/** Classes of upstream errors, for callers that do not know the upstream. */
export type FailureClass =
  | { readonly kind: "input"; readonly code: "context_length_exceeded" | "content_filter" | "invalid_value" }
  /** Our key, our address or our model name is wrong. */
  | { readonly kind: "configuration" }
  /** A retry, later or at another upstream, may succeed. */
  | { readonly kind: "transient"; readonly timedOut: boolean };

const tooLong =
  /context.?(?:length|window|limit)|maximum context|too (?:long|many tokens)|exceeds? the (?:maximum|max|limit).*tokens|token count.*exceeds|input.*too large/i;
/**
 * Codes and types that say so in one word: OpenAI's; llama.cpp's (https://github.com/ggml-org/llama.cpp/blob/master/tools/server/server-context.cpp);
 * GitHub Copilot's (https://github.com/microsoft/vscode/issues/289219).
 */
const tooLongCode = /"(?:context_length_exceeded|exceed_context_size_error|model_max_prompt_tokens_exceeded)"/;
/** How others, who have no such code, word it, each as somebody got it; none of it stands in an error of another kind. */
const tooLongWords = [
  /maximum prompt length is \d+/i, // xAI: https://github.com/cline/cline/issues/3120
  /exceeds? the available context size/i, // llama.cpp: as above
  /exceeded model token limit/i, // Moonshot: https://github.com/MoonshotAI/kimi-cli/issues/2011
  /longer than the maximum model length/i, // vLLM: https://github.com/OpenBMB/MiniCPM-V/issues/1048
  /range of input length should be/i, // Alibaba: https://github.com/QwenLM/qwen-code/issues/98
  /total tokens of image and text exceed/i, // Volcengine: https://github.com/agentscope-ai/QwenPaw/issues/272
  /input length \d+ exceeds the maximum length/i, // Volcengine: https://github.com/langgenius/dify/issues/32221
  /prompt exceeds max length/i, // Z.ai: https://github.com/zeroclaw-labs/zeroclaw/issues/4124
  /reduce the length of the messages/i, // Groq: https://github.com/letta-ai/letta/issues/1963; Cerebras: https://github.com/cline/cline/issues/5140
];
/**
 * Text Generation Inference, and Together's: the prompt and what may be answered, together. A bound that leaves no room by itself is no long prompt.
 * Source: https://github.com/huggingface/text-generation-inference/blob/main/router/src/validation.rs
 */
const tooLongTogether = /tokens \+ `?max_new_tokens`? must be <= (\d+)(?:\. Given: \d+ `?inputs`? tokens and (\d+))?/i;
/** Refusals of the request itself by a status of the server's: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/server-common.cpp */
const refusedBy500 = /(?:image|audio) input is not supported|does not support (?:image|audio|multimodal)/i;

const againstPolicy = /content.?(?:filter|policy|management)|safety|moderation|prohibited|usage policies/i;

const saysTooLong = (words: string): boolean =>
  tooLongCode.test(words) ||
  tooLong.test(words) ||
  tooLongWords.some((form) => form.test(words)) ||
  isTooLongTogether(words);

function isTooLongTogether(words: string): boolean {
  const found = tooLongTogether.exec(words);
  return found !== null && !(Number(found[2]) >= Number(found[1]));
}

/** Classifies an upstream's error by its status and text. */
export function classifyFailure(error: Pick<UpstreamError, "status" | "body">): FailureClass {
  const { status } = error;
  if (status === 408 || status === 504) return { kind: "transient", timedOut: true };
  // Bedrock's model failed: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html#API_runtime_Converse_Errors
  if (status === 424 || status === 429) return { kind: "transient", timedOut: false };
  const words = new TextDecoder().decode(error.body.subarray(0, 16_384));
  if (status === 500 && tooLongCode.test(words)) return { kind: "input", code: "context_length_exceeded" };
  if (status === 500 && refusedBy500.test(words)) return { kind: "input", code: "invalid_value" };
  if (status >= 500) return { kind: "transient", timedOut: false };
  // Another account, or the same when it is paid for, takes the same request.
  if (status === 400 && isSpent({ status, text: words })) return { kind: "transient", timedOut: false };
  // Some upstreams answer a wrong key with 400: https://ai.google.dev/gemini-api/docs/troubleshooting
  const isInput = (status === 400 || status === 413 || status === 422) && !/api.?key/i.test(words);
  if (!isInput && !(status === 403 && againstPolicy.test(words))) return { kind: "configuration" };
  if (status === 413 || saysTooLong(words)) return { kind: "input", code: "context_length_exceeded" };
  return { kind: "input", code: againstPolicy.test(words) ? "content_filter" : "invalid_value" };
}
