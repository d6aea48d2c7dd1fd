/** An upstream's error: its body as it came, and the headers of it that callers may see. */
import type { HeaderFields } from "../lib/http/parser.ts";
import { parseJson } from "../lib/json/json.ts";
import { ApiError } from "../protocols/errors.ts";
import type { RemoteProvider } from "../providers/provider.ts";
import type { UpstreamError } from "./answer.ts";
import { ClientDisconnected, type UpstreamAnswer } from "./client.ts";
import type { CallObserver } from "./observer.ts";
import { isLimitHeader } from "./pool/cooldowns.ts";

/** The media type of an error within an answer that was none. */
export function typeOf(payload: string): string {
  return parseJson(payload) === undefined ? "text/plain; charset=utf-8" : "application/json";
}

/** Reads an upstream's error unchanged. A redirect is never followed: that could send the key to another host. */
export async function readUpstreamError(
  answer: UpstreamAnswer,
  provider: RemoteProvider,
  name: string,
  observer: Pick<CallObserver, "upstreamFailed">,
  format = provider.format,
): Promise<UpstreamError> {
  const { status } = answer;
  if (status < 400) {
    throw ApiError.unavailable("upstream_invalid_response", `${name} answered with status ${status}.`);
  }
  let body: Uint8Array;
  try {
    body = await answer.bytes();
  } catch (error) {
    if (error instanceof ClientDisconnected) {
      observer.upstreamFailed(name, status);
      throw error;
    }
    // What its body said is lost; the status stands.
    body = new Uint8Array();
  }
  const headers = errorHeaders(answer.headers, provider, new TextDecoder().decode(body));
  const limits = status === 429 ? { limits: limitHeaders(answer.headers) } : undefined;
  const failure: UpstreamError = { kind: "whole", provider: name, format, status, headers, body, ...limits };
  observer.upstreamFailed(name, status, failure);
  return failure;
}

const limitHeaders = (headers: HeaderFields): Record<string, string> =>
  Object.fromEntries(
    [...headers.entries()]
      .map(([name, value]) => [name.toLowerCase(), value] as const)
      .filter(([name]) => isLimitHeader(name)),
  );

/** Headers of an upstream's error that are passed on. Its request id becomes `x-upstream-request-id`, beside ours. */
const passedHeaders = ["content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id"].concat(
  // AWS names an error's type beside its body.
  "x-amzn-errortype",
);
const requestIdHeaders = ["x-request-id", "request-id", "x-amzn-requestid", "x-goog-request-id"].concat([
  "apim-request-id",
  "cf-ray",
]);

export function errorHeaders(headers: HeaderFields, provider: RemoteProvider, body: string): Record<string, string> {
  const visible = visibleHeaders(headers);
  if ("retry-after" in visible) return visible;
  const seconds = provider.retryAfterSeconds?.(body);
  return seconds === undefined ? visible : { ...visible, "retry-after": String(seconds) };
}

/** Gives the headers of an answer that callers may see. */
export function visibleHeaders(headers: HeaderFields): Record<string, string> {
  const visible: Record<string, string> = {};
  for (const name of passedHeaders) {
    const value = headers.get(name);
    if (value !== null) visible[name] = value;
  }
  const id = upstreamRequestId(headers);
  return id === undefined ? visible : { ...visible, "x-upstream-request-id": id };
}

/** The upstream's own id of the request. */
export function upstreamRequestId(headers: HeaderFields): string | undefined {
  for (const name of requestIdHeaders) {
    const value = headers.get(name);
    if (value !== null) return value;
  }
  return undefined;
}
