/** Log fields for errors: their kind and origin, never content. */

import type { ApiError } from "../protocols/errors.ts";
import type { UpstreamError } from "../upstream/answer.ts";

/** Messages of errors below 500 may quote the caller: those are logged by their code. */
export function describeError(error: ApiError, field: "failure" | "fault"): Record<string, unknown> {
  return { [field]: error.status >= 500 ? error.message : error.code, cause: error.cause };
}

/**
 * @param error the object in the upstream's error
 * @param withContent whether content may be logged: an upstream's message may quote it
 */
export function describeUpstreamError(
  { status }: UpstreamError,
  { type, code, message }: Readonly<Record<string, unknown>>,
  withContent: boolean,
): Record<string, unknown> {
  const names = [type, code].filter(isName);
  return {
    upstream_status: status,
    ...(names.length > 0 && { upstream_error: names.join(" ") }),
    ...(withContent && { upstream_message: String(message).slice(0, 500) }),
  };
}

/** A type or a code is one word or a number; what is longer, or has spaces in it, was not made for programs. */
function isName(value: unknown): value is string | number {
  return typeof value === "number" || (typeof value === "string" && /^[\w.:/-]{1,64}$/.test(value));
}
