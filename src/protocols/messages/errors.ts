/**
 * Errors in this format's own form, typed by their status.
 * Source: https://platform.claude.com/docs/en/api/errors
 */
import type { JsonObject } from "../../lib/json/json.ts";
import type { ApiError } from "../errors.ts";
import type { ErrorFields } from "../protocol.ts";

const typeByStatus: Readonly<Record<number, string>> = {
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  409: "conflict_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
  529: "overloaded_error",
};
const knownTypes: ReadonlySet<unknown> = new Set([
  "invalid_request_error",
  "api_error",
  ...Object.values(typeByStatus),
]);

export function typeOfStatus(status: number): string {
  return typeByStatus[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
}

/** What other formats call the same, in `type`, `code` or `status`. */
const typeByWord: Readonly<Record<string, string>> = {
  server_is_overloaded: "overloaded_error",
  slow_down: "overloaded_error",
  overloaded: "overloaded_error",
  draining: "overloaded_error",
  upstream_unavailable: "overloaded_error",
  service_unavailable_error: "overloaded_error",
  UNAVAILABLE: "overloaded_error",
  rate_limit_exceeded: "rate_limit_error",
  insufficient_quota: "rate_limit_error",
  RESOURCE_EXHAUSTED: "rate_limit_error",
  INVALID_ARGUMENT: "invalid_request_error",
  FAILED_PRECONDITION: "invalid_request_error",
  UNAUTHENTICATED: "authentication_error",
  PERMISSION_DENIED: "permission_error",
  NOT_FOUND: "not_found_error",
  DEADLINE_EXCEEDED: "timeout_error",
};

/** Of an error within a stream, where no status tells. */
export function typeOfFields({ type, code, status }: ErrorFields): string {
  const word = [code, status, type].find((one) => typeof one === "string" && Object.hasOwn(typeByWord, one));
  if (word !== undefined) return typeByWord[word as string]!;
  const statusCode = [code, status].find((one) => typeof one === "number" && one >= 400 && one < 600);
  if (knownTypes.has(type)) return type as string;
  return statusCode === undefined ? "api_error" : typeOfStatus(statusCode as number);
}

export function errorBody(type: string, message: string, requestId?: string): JsonObject & { type: string } {
  return { type: "error", error: { type, message }, ...(requestId !== undefined && { request_id: requestId }) };
}

/**
 * Names the place for clients that look for it: the official one goes on without a thread where it reads this.
 * Source: `ThreadUnsupportedRequestErrorDetails` in https://github.com/anthropics/anthropic-sdk-typescript
 */
export function apiErrorBody({ status, message, param }: ApiError, requestId: string): object {
  const body = errorBody(typeOfStatus(status), message, requestId);
  if (param !== "thread") return body;
  const details = { error_code: "thread_unsupported_request", unsupported: [] };
  return { ...body, error: { ...(body["error"] as object), details } };
}
