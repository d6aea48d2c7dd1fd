/** What the log says of a failure: of which kind it was and where it came from, never what was said. */

import type { ApiError } from "../protocols/errors.ts";
import type { UpstreamError } from "../upstream/call.ts";

/** By their words the errors from 500 on are ours alone; the others may repeat a caller's, and are told by their code. */
export function describeError(error: ApiError, field: "failure" | "fault"): Record<string, unknown> {
  return { [field]: error.status >= 500 ? error.message : error.code, cause: error.cause };
}

/**
 * @param error the object in the upstream's error
 * @param withContent whether what was said may be in the log: an upstream's message may quote it, whatever its status
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
