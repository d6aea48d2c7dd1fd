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

/** Extracts the error object from an upstream's error body, in any of the usual forms. */
export function errorObjectIn(body: string | Uint8Array): Record<string, unknown> {
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const known = { message: text.slice(0, 2000), type: "server_error", param: "", code: "" };
  try {
    const parsed: unknown = JSON.parse(text);
    const outer = (Array.isArray(parsed) ? parsed[0] : parsed) as Record<string, unknown> | null;
    const inner = outer?.["error"];
    if (typeof inner === "object" && inner !== null) {
      const { message } = inner as { message?: unknown };
      // Clients can't show an error whose message is not text.
      return { ...known, ...inner, message: typeof message === "string" ? message : known.message };
    }
    if (typeof inner === "string") return { ...known, message: inner, code: String(outer?.["code"] ?? "") };
    if (typeof outer?.["message"] === "string") return { ...known, ...outer };
    // Gateways of AWS spell it so.
    if (typeof outer?.["Message"] === "string") return { ...known, message: outer["Message"] };
    return known;
  } catch {
    return known;
  }
}
