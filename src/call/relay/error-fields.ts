/** What the log and the ledger keep of errors: their kind and origin, never content. */
import type { FailureReason } from "../../api/words.ts";
import type { ApiError } from "../../protocols/errors.ts";

import type { UpstreamError } from "../../upstream/answer.ts";
import { type ErrorNote, errorNote } from "../../usage/ledger/error-note.ts";
import type { RequestLogFields } from "../log-fields.ts";

/** Messages of errors below 500 may quote the caller: those are logged by their code. */
export function describeError(error: ApiError, field: "failure" | "fault"): RequestLogFields {
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
): RequestLogFields {
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
  const stated = statedError(text);
  // Clients can't show an error whose message is not text.
  return { ...known, ...stated, message: typeof stated["message"] === "string" ? stated["message"] : known.message };
}

/** The members of an upstream's error as it has them; none where it has another form. */
function statedError(text: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(text);
    const outer = (Array.isArray(parsed) ? parsed[0] : parsed) as Record<string, unknown> | null;
    const inner = outer?.["error"];
    if (typeof inner === "object" && inner !== null) return inner as Record<string, unknown>;
    if (typeof inner === "string") return { message: inner, code: String(outer?.["code"] ?? "") };
    if (typeof outer?.["message"] === "string") return outer;
    // Gateways of AWS spell it so.
    if (typeof outer?.["Message"] === "string") return { message: outer["Message"] };
  } catch {}
  return {};
}

/** Reasons of the account and its limits: an upstream that refuses by them has not answered the words, and its message is about the account. */
const aboutAccount: ReadonlySet<FailureReason | undefined> = new Set([
  ...(["unauthorized", "quota", "not_found", "rate_limit"] as const),
]);

/**
 * What the ledger keeps of an upstream's error: always its code and the place that it names; its message where it is about the account, or content
 * may be logged.
 */
export function upstreamErrorNote(
  { status, headers, body }: Pick<UpstreamError, "status" | "headers"> & { readonly body: string | Uint8Array },
  reason: FailureReason | undefined,
  withContent: boolean,
): ErrorNote {
  const stated = statedError(typeof body === "string" ? body : new TextDecoder().decode(body));
  const { code, type, param, message } = stated;
  // Google's word, and AWS' in its body or beside it.
  const others = [stated["status"], type, stated["__type"], headers["x-amzn-errortype"]?.split(":")[0]];
  const number = typeof code === "number" && code !== status ? String(code) : undefined;
  const name = [code, ...others, number].find((one) => typeof one === "string" && isName(one)) as string | undefined;
  const isKept = withContent || aboutAccount.has(reason);
  return errorNote(name ?? null, param, isKept && typeof message === "string" ? message : undefined);
}
