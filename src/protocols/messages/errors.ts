/**
 * Errors in this format's own form, typed by their status.
 * Source: https://platform.claude.com/docs/en/api/errors
 */
import type { JsonObject } from "../../lib/json/json.ts";
import { inverted, ownMember } from "../../lib/json/own-member.ts";
import type { ApiError } from "../errors.ts";
import { googleStatuses } from "../generate-content/errors.ts";
import type { ErrorFields } from "../protocol.ts";

/** https://platform.claude.com/docs/en/api/errors#http-errors */
export const statusByType: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  conflict_error: 409,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
};

const typeByStatus = inverted(statusByType);

export function typeOfStatus(status: number): string {
  const known = ownMember(typeByStatus, status === 503 ? "529" : String(status));
  return known ?? (status < 500 ? "invalid_request_error" : "api_error");
}

/** Words of other formats for the same, in `type`, `code` or `status`. */
const statusByWord: Readonly<Record<string, number>> = {
  ...googleStatuses,
  server_is_overloaded: 529,
  slow_down: 529,
  overloaded: 529,
  draining: 529,
  upstream_unavailable: 529,
  service_unavailable_error: 529,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
};

/** The type of an error within a stream, which has no status of its own. */
export function typeOfFields({ type, code, status }: ErrorFields): string {
  const word = [code, status, type].find((one) => typeof one === "string" && Object.hasOwn(statusByWord, one));
  if (word !== undefined) return typeOfStatus(statusByWord[word as string]!);
  const statusCode = [code, status].find((one) => typeof one === "number" && one >= 400 && one < 600);
  if (typeof type === "string" && Object.hasOwn(statusByType, type)) return type;
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
