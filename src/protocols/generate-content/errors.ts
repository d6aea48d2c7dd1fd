/**
 * Errors in this format's own form.
 * Source: https://cloud.google.com/apis/design/errors
 */
import type { JsonObject } from "../../lib/json/json.ts";
import { inverted, ownMember } from "../../lib/json/own-member.ts";
import type { ApiError } from "../errors.ts";
import type { ErrorFields } from "../protocol.ts";

/** Statuses by the words of `status`. Source: https://ai.google.dev/gemini-api/docs/troubleshooting#error-codes */
export const googleStatuses: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 400,
  FAILED_PRECONDITION: 400,
  OUT_OF_RANGE: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  ABORTED: 409,
  ALREADY_EXISTS: 409,
  RESOURCE_EXHAUSTED: 429,
  CANCELLED: 499,
  INTERNAL: 500,
  UNIMPLEMENTED: 501,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
};

const wordByStatus = inverted(googleStatuses);

function wordOfStatus(status: number): string {
  const known = ownMember(wordByStatus, status === 529 ? "503" : String(status));
  return known ?? (status < 500 ? "INVALID_ARGUMENT" : "INTERNAL");
}

const statusByWord: Readonly<Record<string, number>> = {
  ...googleStatuses,
  // Words of other formats for the same, in `type` or `code`.
  invalid_request_error: 400,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  overloaded_error: 503,
  server_is_overloaded: 503,
  upstream_unavailable: 503,
  upstream_unreachable: 503,
  upstream_invalid_response: 503,
  draining: 503,
  overloaded: 503,
  timeout_error: 504,
};

/** The status of an error within a stream. The official client raises those alone whose code is one of HTTP's. */
function statusOfFields({ code, status, type }: ErrorFields): number {
  const known = [code, status].find((one) => typeof one === "number" && one >= 400 && one < 600);
  if (known !== undefined) return known as number;
  const word = [status, code, type].find((one) => typeof one === "string" && Object.hasOwn(statusByWord, one));
  return word === undefined ? 500 : statusByWord[word as string]!;
}

export function errorBody(status: number, message: string, details: readonly JsonObject[] = []): JsonObject {
  return {
    error: { code: status, message, status: wordOfStatus(status), ...(details.length > 0 && { details }) },
  };
}

/** Google's clients read the place, and the time to wait, in details: https://google.aip.dev/193 */
export function apiErrorBody({ status, message, param, headers }: ApiError): object {
  const details: JsonObject[] = [];
  if (status < 500 && param !== "") {
    const fieldViolations = [{ field: param, description: message }];
    details.push({ "@type": "type.googleapis.com/google.rpc.BadRequest", fieldViolations });
  }
  const seconds = Number(headers["retry-after"]);
  if (status === 429 && Number.isInteger(seconds)) {
    details.push({ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: `${seconds}s` });
  }
  return errorBody(status, message, details);
}

/** An upstream's error in this format. */
export function fieldsBody(error: ErrorFields, status = statusOfFields(error)): JsonObject {
  const { message } = error;
  return errorBody(status, typeof message === "string" ? message : "");
}
