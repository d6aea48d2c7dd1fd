/** Tries several targets until one answers, for personas that name more than one model. */
import { ApiError } from "../protocols/errors.ts";
import { type Answer, type EventSource, isUpstreamError, type UpstreamError } from "./answer.ts";
import { type CallOptions, type CallTools, callUpstream } from "./call.ts";
import type { Target } from "./target.ts";

/** Classes of upstream errors, for callers that do not know the upstream. */
export type FailureClass =
  | { readonly kind: "input"; readonly code: "context_length_exceeded" | "content_filter" | "invalid_value" }
  /** Our key, our address or our model name is wrong. */
  | { readonly kind: "configuration" }
  /** A retry, later or at another upstream, may succeed. */
  | { readonly kind: "transient"; readonly timedOut: boolean };

const tooLong =
  /context.?length|context.?window|maximum context|too (?:long|many tokens)|exceeds? the (?:maximum|max|limit).*tokens|token count.*exceeds|input.*too large/i;
const againstPolicy = /content.?(?:filter|policy|management)|safety|moderation|prohibited|usage policies/i;

/** Classifies an upstream's error by its status and text. */
export function classifyFailure(error: UpstreamError): FailureClass {
  const { status } = error;
  if (status === 408 || status === 504) return { kind: "transient", timedOut: true };
  if (status === 429 || status >= 500) return { kind: "transient", timedOut: false };
  const words = new TextDecoder().decode(error.body.subarray(0, 16_384));
  // Some upstreams answer a wrong key with 400: https://ai.google.dev/gemini-api/docs/troubleshooting
  const isInput = (status === 400 || status === 413 || status === 422) && !/api.?key/i.test(words);
  if (!isInput && !(status === 403 && againstPolicy.test(words))) return { kind: "configuration" };
  if (status === 413 || tooLong.test(words)) return { kind: "input", code: "context_length_exceeded" };
  return { kind: "input", code: againstPolicy.test(words) ? "content_filter" : "invalid_value" };
}

/** Called with the error of a target before the next one is tried. */
export type FallbackReport = (target: Target, failure: UpstreamError | ApiError) => void;

/**
 * Tries the targets in order until one answers. An error about the input itself is the answer: another model
 * would be asked the same.
 * @throws the last target's ApiError; ClientDisconnected
 */
export function callWithFallback(
  tools: CallTools,
  targets: readonly Target[],
  optionsFor: (target: Target) => CallOptions,
  report: FallbackReport,
): Promise<Answer<EventSource>> {
  const [only] = targets;
  // Fast path: most calls have one target.
  if (only !== undefined && targets.length === 1) return callUpstream(tools, only, optionsFor(only));
  return callInTurn(tools, targets, optionsFor, report);
}

async function callInTurn(
  tools: CallTools,
  targets: readonly Target[],
  optionsFor: (target: Target) => CallOptions,
  report: FallbackReport,
): Promise<Answer<EventSource>> {
  const last = targets.length - 1;
  for (const [at, target] of targets.entries()) {
    try {
      const answer = await callUpstream(tools, target, optionsFor(target));
      const isFinal = !isUpstreamError(answer) || classifyFailure(answer).kind === "input";
      if (isFinal || at === last) return answer;
      report(target, answer);
    } catch (error) {
      const isRetriable = error instanceof ApiError && error.status >= 500;
      if (!isRetriable || at === last) throw error;
      report(target, error);
    }
  }
  throw ApiError.internal("no target to call");
}
