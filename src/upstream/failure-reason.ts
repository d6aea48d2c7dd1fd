/** Names the reason for which an attempt was left, for the ledger, the log and metrics. */
import type { FailureReason } from "../api/words.ts";
import { ApiError, type UpstreamFault } from "../protocols/errors.ts";

import type { UpstreamError } from "./answer.ts";
import { classifyFailure } from "./failures.ts";
import { cooldownAfterAnswer } from "./pool/cooldowns.ts";

/** Bytes of an error that are looked at. */
const maxText = 16_384;
/** The reason depends on neither. */
const known = { now: 0, failures: { key: 1, model: 1, endpoint: 1 } };

/** @returns the reason by an error that the upstream answered: the one for which something goes into cooldown, or the request's own */
export function answeredFailure(error: Pick<UpstreamError, "status" | "headers" | "body">): FailureReason {
  const { status, headers, body } = error;
  const { reason } = cooldownAfterAnswer(
    { status, headers, text: new TextDecoder().decode(body.subarray(0, maxText)) },
    known,
  );
  if (reason !== undefined) return reason;
  const found = classifyFailure(error);
  if (found.kind !== "input") return status === 403 ? "unauthorized" : "not_found";
  if (found.code === "context_length_exceeded") return "context_length";
  return found.code === "content_filter" ? "content_filter" : "invalid_request";
}

/** @returns the reason by an error of our own; undefined where no upstream failed */
export function thrownFailure(error: unknown): FailureReason | undefined {
  if (!(error instanceof ApiError)) return undefined;
  if (error.code === "upstream_timeout") return "timeout";
  if (error.code === "upstream_unreachable") return "unreachable";
  return error.code.startsWith("upstream_") ? "broken" : undefined;
}

/** @returns the reason by an error within a stream */
export function streamFailure(fault: UpstreamFault | ApiError): FailureReason {
  if (fault instanceof ApiError) return thrownFailure(fault) ?? "broken";
  const { reason } = cooldownAfterAnswer({ status: fault.status, headers: {}, text: fault.payload }, known);
  return reason ?? "invalid_request";
}
