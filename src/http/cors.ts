/** CORS: browsers on other origins may call only if their origin is configured. */
import type { WholeAnswer } from "../upstream/answer.ts";
import type { RequestContext } from "./context.ts";

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
].join(", ");

/** The requested headers are echoed up to this length, which browsers do not exceed. */
const maxAskedHeaders = 1024;

/** How long browsers may cache a preflight; Chromium's maximum is two hours. */
const rememberedSeconds = 7200;

/**
 * Sets what an allowed origin needs to read the answer. Keys travel in a header that scripts must set themselves, so no
 * credentials of the browser's own are ever asked for. Source: https://fetch.spec.whatwg.org/#http-cors-protocol
 */
export function allowOrigin(context: RequestContext, origins: readonly string[]): void {
  if (origins.length === 0) return;
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
