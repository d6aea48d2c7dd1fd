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
const againstPolicy = /content.?(?:filter|policy|management)|safety|moderation|prohibited|usage policies/i;

/** Classifies an upstream's error by its status and text. */
export function classifyFailure(error: Pick<UpstreamError, "status" | "body">): FailureClass {
  const { status } = error;
  if (status === 408 || status === 504) return { kind: "transient", timedOut: true };
  // Bedrock's model failed: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html#API_runtime_Converse_Errors
  if (status === 424 || status === 429 || status >= 500) return { kind: "transient", timedOut: false };
  const words = new TextDecoder().decode(error.body.subarray(0, 16_384));
  // Another account, or the same when it is paid for, takes the same request.
  if (status === 400 && isSpent({ status, text: words })) return { kind: "transient", timedOut: false };
  // Some upstreams answer a wrong key with 400: https://ai.google.dev/gemini-api/docs/troubleshooting
  const isInput = (status === 400 || status === 413 || status === 422) && !/api.?key/i.test(words);
  if (!isInput && !(status === 403 && againstPolicy.test(words))) return { kind: "configuration" };
  if (status === 413 || tooLong.test(words)) return { kind: "input", code: "context_length_exceeded" };
  return { kind: "input", code: againstPolicy.test(words) ? "content_filter" : "invalid_value" };
}
