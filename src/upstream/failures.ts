/** Classifies the errors that upstreams answer. */
import type { UpstreamError } from "./answer.ts";
import { isSpent } from "./pool/rests.ts";

/** Classes of upstream errors, for callers that do not know the upstream. */
export type FailureClass =
  | { readonly kind: "input"; readonly code: "context_length_exceeded" | "content_filter" | "invalid_value" }
  /** Our key, our address or our model name is wrong. */
  | { readonly kind: "configuration" }
  /** A retry, later or at another upstream, may succeed. */
  | { readonly kind: "transient"; readonly timedOut: boolean };

const tooLong =
  /context.?(?:length|window|limit)|maximum context|too (?:long|many tokens)|exceeds? the (?:maximum|max|limit).*tokens|token count.*exceeds|input.*too large/i;
/** Codes and types that say so in one word: OpenAI's, llama.cpp's and GitHub Copilot's. */
const tooLongCode = /"(?:context_length_exceeded|exceed_context_size_error|model_max_prompt_tokens_exceeded)"/;
/** How others, who have no such code, word it; none of it stands in an error of another kind. */
const tooLongWords = [
  /maximum prompt length is \d+/i, // https://docs.x.ai/docs/key-information/debugging
  /exceeds? the available context size/i, // https://github.com/ggml-org/llama.cpp (tools/server)
  /exceeded model token limit/i, // https://platform.moonshot.ai/docs/api/chat
  /longer than the maximum model length/i, // https://github.com/vllm-project/vllm (decoder prompt)
  /range of input length should be/i, // https://help.aliyun.com/zh/model-studio/error-code
  /total tokens of image and text exceed/i, // https://www.volcengine.com/docs/82379/1299023
  /prompt exceeds max length/i, // https://docs.z.ai/api-reference/api-code (1261)
  /tokens \+ `?max_new_tokens`? must be <=/i, // https://github.com/huggingface/text-generation-inference, Together's too
  /reduce the length of the messages/i, // https://console.groq.com/docs/errors
];
/** Refusals of the request itself by a status of the server's: https://github.com/ggml-org/llama.cpp (tools/server, "mmproj"). */
const refusedBy500 = /(?:image|audio) input is not supported|does not support (?:image|audio|multimodal)/i;

const againstPolicy = /content.?(?:filter|policy|management)|safety|moderation|prohibited|usage policies/i;

const saysTooLong = (words: string): boolean =>
  tooLongCode.test(words) || tooLong.test(words) || tooLongWords.some((form) => form.test(words));

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
