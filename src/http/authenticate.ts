/** The door: who calls, and whether they may call now. Nothing of the body has been read yet. */

import type { Caller } from "../auth/keys.ts";
import type { SurfaceName } from "../config/config.ts";
import { anonymousCaller, type Verdict } from "../limits/rate-limiter.ts";
import { ApiError } from "../protocols/errors.ts";
import type { RequestContext } from "./context.ts";
import type { Services } from "./services.ts";

/**
 * @throws ApiError invalid_api_key, rate_limit_exceeded, surface_not_allowed, draining or overloaded; on the orchestrator the rate
 * headers are set in every case
 */
export function admit(services: Services, context: RequestContext, surface: SurfaceName): Caller {
  const caller = services.keys.find(context.request.headers.get("authorization"));
  if (caller !== undefined) context.logFields["key"] = caller.keyId;
  count(services, context, surface, caller);
  if (caller === undefined) throw ApiError.unauthorized();
  if (!caller.surfaces.has(surface)) throw ApiError.surfaceNotAllowed(surface);
  if (services.draining) throw ApiError.unavailable("draining", "The server is shutting down.");
  if (services.running > services.live.config.limits.concurrentRequests)
    throw ApiError.unavailable("overloaded", "Too many requests are under way. Retry in a moment.", {
      retryAfterSeconds: 1,
    });
  return caller;
}

/** An unknown route or a wrong method: counted for whoever it is, and never refused for a missing key. */
export function admitAnyone(services: Services, context: RequestContext): void {
  const surface = context.area;
  if (surface === "operations") {
    showAnonymousLimit(services, context);
    return;
  }
  count(services, context, surface, services.keys.find(context.request.headers.get("authorization")));
}

/** The open endpoints show the anonymous bucket and take nothing from it. */
export function showAnonymousLimit(services: Services, context: RequestContext): void {
  const { anonymousPerMinute } = services.live.config.limits;
  setHeaders(context, services.anonymousLimits.peek(anonymousCaller(context.clientAddress), anonymousPerMinute));
}

/** On the caller's own bucket, or on its address where there is no valid key. @throws ApiError rate_limit_exceeded */
function count(services: Services, context: RequestContext, surface: SurfaceName, caller: Caller | undefined): void {
  if (caller === undefined) {
    takeAnonymously(services, context, surface);
    return;
  }
  const perMinute = limitOf(services, caller, surface);
  if (perMinute === undefined) return;
  const verdict = services.callerLimits.take(caller.buckets[surface], perMinute);
  enforce(services, context, verdict, surface, caller.tier);
}

function takeAnonymously(services: Services, context: RequestContext, surface: SurfaceName): void {
  const { anonymousPerMinute } = services.live.config.limits;
  const { clientAddress } = context;
  // For whoever looks for those who try keys; of a caller with a key the log has the key.
  context.logFields["client_address"] = clientAddress;
  const verdict = services.anonymousLimits.take(anonymousCaller(clientAddress), anonymousPerMinute);
  enforce(services, context, verdict, surface, "anonymous");
}

function enforce(
  services: Services,
  context: RequestContext,
  verdict: Verdict,
  surface: SurfaceName,
  tier: string,
): void {
  setHeaders(context, verdict);
  if (verdict.allowed) return;
  services.metrics.rateLimited(surface, tier);
  throw ApiError.rateLimited(verdict.limit, verdict.retryAfterSeconds);
}

/** Requests per minute; undefined is no limit, which only the gateway knows. */
function limitOf(services: Services, caller: Caller, surface: SurfaceName): number | undefined {
  return surface === "orchestrator"
    ? caller.perMinute
    : (caller.ownPerMinute ?? services.live.config.limits.gatewayPerMinute);
}

function setHeaders(context: RequestContext, { limit, remaining, resetAt }: Verdict): void {
  context.headers["x-ratelimit-limit"] = String(limit);
  context.headers["x-ratelimit-remaining"] = String(remaining);
  context.headers["x-ratelimit-reset"] = String(resetAt);
}
