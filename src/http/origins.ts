/** Checks by what name and from which pages the server is called: `Host` on loopback listeners, and CORS. */

import { admitAnyone } from "../call/admit/admit.ts";
import type { RequestContext } from "../call/context.ts";
import { upstreamHeaderNames } from "../call/send/upstream-headers.ts";
import type { Services } from "../call/services.ts";
import { globMatches } from "../lib/text/glob.ts";
import { ApiError } from "../protocols/errors.ts";
import type { WholeAnswer } from "../upstream/answer.ts";

/** Nobody on the web can have one of these: https://www.rfc-editor.org/rfc/rfc6761#section-6.3, `host.docker.internal` and its like. */
const localNames = /^(?:(?:.+\.)?localhost|.+\.internal|127(?:\.\d{1,3}){3}|\[::1\])$/;

/**
 * @param header of the request; null where there is none, which no browser does
 * @param allowed the operator's names, with `*` for any run of characters
 */
export function isAllowedHost(header: string | null, allowed: readonly string[]): boolean {
  if (header === null || header === "") return true;
  const name = /^(\[[^\]]*\]|[^:]*?)\.?(?::\d*)?$/.exec(header.toLowerCase())?.[1];
  if (name === undefined) return false;
  return localNames.test(name) || allowed.some((glob) => globMatches(glob.toLowerCase(), name));
}

/** The latest header that named this machine, whatever the configuration. */
let lastLocal: string | null = null;
const maxKept = 255;

/** True if the request calls this machine by the name that a request had before: nearly all do. */
export const namesThisMachine = ({ headers }: Request): boolean => headers.get("host") === lastLocal;

/**
 * Checks `Host` on loopback listeners, against DNS rebinding: a web page can point its own name at 127.0.0.1, and the browser
 * then lets it read answers as its own origin. `Host` still has the page's name. Skipped for trusted proxies, which check names themselves.
 * Source: https://www.rfc-editor.org/rfc/rfc9110#section-17.1 and https://en.wikipedia.org/wiki/DNS_rebinding
 * @throws ApiError host_not_allowed, or rate_limit_exceeded
 */
export async function checkHost(services: Services, context: RequestContext): Promise<void> {
  const host = context.request.headers.get("host");
  if (isAllowedHost(host, [])) {
    if (host !== null && host.length <= maxKept) lastLocal = host;
    return;
  }
  if (isAllowedHost(host, services.live.config.allowedHosts) || context.isFromTrustedProxy) return;
  await admitAnyone(services, context);
  throw ApiError.hostNotAllowed(host ?? "");
}

/** Headers that scripts may read. */
const exposed = [
  "x-request-id",
  "request-id",
  "x-ratelimit-limit",
  "x-ratelimit-remaining",
  "x-ratelimit-reset",
  "x-troupe-budget",
  "x-troupe-budget-remaining",
  "retry-after",
  "x-should-retry",
  "service-request-id",
  "idempotent-replayed",
  "x-troupe-error-source",
  ...upstreamHeaderNames,
  "x-troupe-persona-version",
  "x-troupe-persona-variant",
].join(", ");

/** The requested headers are echoed up to this length, which browsers do not exceed. */
const maxAskedHeaders = 1024;

/** The time for which browsers may cache a preflight; Chromium's maximum is two hours. */
const rememberedSeconds = 7200;

/**
 * Sets what an allowed origin needs to read the answer. Keys travel in a header that scripts must set themselves, so no
 * credentials of the browser's own are ever asked for. Source: https://fetch.spec.whatwg.org/#http-cors-protocol
 */
export function allowOrigin(context: RequestContext, origins: readonly string[]): void {
  const anyone = origins.includes("*");
  if (!anyone) context.headers["vary"] = "origin";
  const origin = context.request.headers.get("origin");
  if (origin === null || !(anyone || origins.includes(origin))) return;
  context.headers["access-control-allow-origin"] = anyone ? "*" : origin;
  context.headers["access-control-expose-headers"] = exposed;
}

/** The answer to a CORS preflight; undefined where this is none, or from an origin that is not configured. */
export function preflightAnswer(
  { request, headers }: RequestContext,
  methods: readonly string[],
): WholeAnswer | undefined {
  const isPreflight = request.method === "OPTIONS" && request.headers.has("access-control-request-method");
  if (!isPreflight || headers["access-control-allow-origin"] === undefined) return undefined;
  const asked = request.headers.get("access-control-request-headers");
  return {
    kind: "whole",
    status: 204,
    headers: {
      "access-control-allow-methods": methods.join(", "),
      ...(asked === null || asked.length > maxAskedHeaders ? {} : { "access-control-allow-headers": asked }),
      "access-control-max-age": String(rememberedSeconds),
    },
    body: "",
  };
}
