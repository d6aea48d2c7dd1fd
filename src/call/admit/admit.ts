/** Authentication and admission: who calls, and whether they may call now. Runs before the body is read. */

import { isTag } from "../../auth/key-spec.ts";
import type { Caller } from "../../auth/keys.ts";
import type { ServedSurface } from "../../config/config.ts";
import type { KeySurface } from "../../config/surfaces.ts";
import { anonymousCaller, type Decision } from "../../limits/limiter.ts";
import { callerKey } from "../../protocols/credentials.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { RequestContext } from "../context.ts";
import type { Services } from "../services.ts";

/** What a key must have been given. */
type Right = {
  /** Default: the surface whose limits count. */
  readonly permission?: KeySurface;
  /** True where keys of previews are let in too, each as a caller of `onlyPreviews`. */
  readonly mayPreview?: boolean;
};

/**
 * @param surface whose limits count
 * @param known the caller, where its key is known already
 * @throws ApiError invalid_api_key, rate_limit_exceeded, surface_not_allowed, draining or overloaded; on the orchestrator the rate
 * headers are set in every case
 */
export async function admit(
  services: Services,
  context: RequestContext,
  surface: ServedSurface,
  { permission = surface, mayPreview = false }: Right = {},
  known?: Caller,
): Promise<Caller> {
  const caller = known ?? callerOf(services, context) ?? (await newCaller(services, context, surface));
  context.logFields["key"] = caller.keyId;
  await countHit(services, context, surface, caller);
  const isPreviewer = !caller.surfaces.has(permission);
  if (isPreviewer) checkPreviewer(caller, permission, mayPreview);
  if (services.draining) throw ApiError.unavailable("draining", "The server is shutting down.");
  if (services.running > services.live.config.limits.concurrentRequests)
    throw ApiError.unavailable("overloaded", "Too many requests are under way. Retry in a moment.", {
      retryAfterSeconds: 1,
    });
  const { queryCheck, request } = context;
  if (queryCheck !== undefined && request.url.includes("?")) queryCheck(context.query);
  const { tagHeader } = services.live.config.budgets;
  context.tags = tagHeader === undefined ? caller.tags : tagsOf(tagHeader, context, caller);
  context.labels = services.clients.labelsOf(context.request.headers.get("user-agent"));
  return isPreviewer ? { ...caller, onlyPreviews: true } : caller;
}

/** The caller whose key another node made a moment ago. @throws ApiError invalid_api_key, storage_unavailable, rate_limit_exceeded */
async function newCaller(services: Services, context: RequestContext, surface: ServedSurface): Promise<Caller> {
  const key = keyOf(context);
  // Counted before the store is asked: so that guessing stays as slow as it is.
  hitAnonymous(services, context, surface);
  const mayBeNew = await services.keys.catchUp(key);
  const caller = services.keys.find(key);
  if (caller === undefined) throw mayBeNew ? keysUnread() : ApiError.unauthorized();
  // The address's counts and headers do not apply to the key.
  for (const name of rateHeaders) delete context.headers[name];
  delete context.logFields["client_address"];
  return caller;
}

/** Lets a key that lacks the permission pass as one of previews alone. @throws ApiError surface_not_allowed */
function checkPreviewer({ surfaces }: Caller, permission: KeySurface, mayPreview: boolean): void {
  if (mayPreview && permission === "orchestrator" && surfaces.has("preview")) return;
  throw surfaces.has("preview") && surfaces.size === 1
    ? ApiError.onlyForPreviews()
    : ApiError.surfaceNotAllowed(permission);
}

const keysUnread = () =>
  ApiError.unavailable(
    "storage_unavailable",
    "Whether this key is good can't be told, as keys could not be read. Retry in a moment.",
  );

/** The key's tags, and the one that the request adds in the header for it. @throws ApiError invalid_value */
function tagsOf(tagHeader: string, context: RequestContext, { tags }: Caller): readonly string[] {
  const tag = context.request.headers.get(tagHeader);
  if (tag === null || tags.includes(tag)) return tags;
  if (isTag(tag)) return [...tags, tag];
  throw ApiError.invalidValue(
    tagHeader,
    `${tagHeader} must be of 1 to 64 letters, digits, '.', '_' and '-', and begin with a letter or digit.`,
  );
}

export const callerOf = (services: Services, context: RequestContext) => services.keys.find(keyOf(context));

/** The key that the request was sent with, good or not. */
export function keyOf(context: RequestContext): string | undefined {
  const { protocol, request } = context;
  return protocol.credentials === undefined ? callerKey(request.headers) : protocol.credentials(context);
}

/** For unknown routes and wrong methods: counts against the rate limits, and never refuses for a missing key. */
export async function admitAnyone(services: Services, context: RequestContext): Promise<void> {
  const surface = context.area;
  if (surface === "operations") showAnonymousLimit(services, context);
  else await countHit(services, context, surface, callerOf(services, context));
}

/** Checks whether the request has a key that may use the admin API, on whatever route. */
export const isAdmin = (services: Services, context: RequestContext): boolean =>
  callerOf(services, context)?.surfaces.has("admin") === true;

/** For open endpoints: shows the anonymous bucket in the rate headers without counting. */
export function showAnonymousLimit(services: Services, context: RequestContext): void {
  const { anonymousPerMinute } = services.live.config.limits;
  setHeaders(context, services.anonymousLimits.peek(anonymousCaller(context.clientAddress), anonymousPerMinute));
}

/**
 * Counts one request in the bucket of the key, or of the client address where there is no valid key.
 * @throws ApiError rate_limit_exceeded
 */
export async function countHit(
  services: Services,
  context: RequestContext,
  surface: ServedSurface,
  caller: Caller | undefined,
): Promise<void> {
  if (caller === undefined) return hitAnonymous(services, context, surface);
  const { limits } = services.live.config;
  const ofSurface = surface === "gateway" ? limits.gatewayPerMinute : limits.anonymousPerMinute;
  const perMinute = surface === "orchestrator" ? caller.perMinute : (caller.ownPerMinute ?? ofSurface);
  // Only the gateway has no limit where none is configured.
  if (perMinute === undefined) return;
  const { callerLimits, storedLimits } = services;
  const bucket = caller.buckets[surface];
  const decision =
    storedLimits === undefined ? callerLimits.hit(bucket, perMinute) : await storedLimits.hit(bucket, perMinute);
  enforce(services, context, decision, surface, caller.tier);
}

/** Counts a request without a valid key. @throws ApiError rate_limit_exceeded */
export function hitAnonymous(services: Services, context: RequestContext, surface: ServedSurface): void {
  const { anonymousPerMinute } = services.live.config.limits;
  const { clientAddress } = context;
  // Shows who tries keys; for a valid key the log has its id.
  context.logFields["client_address"] = clientAddress;
  const decision = services.anonymousLimits.hit(anonymousCaller(clientAddress), anonymousPerMinute);
  enforce(services, context, decision, surface, "anonymous");
}

/**
 * Counts a try to sign in as any request without a key, and refuses it where too many of its address failed.
 * @param failures that an address may have in a minute @returns counts this one as failed
 * @throws ApiError rate_limit_exceeded
 */
export function countSignIn(services: Services, context: RequestContext, failures: number): () => void {
  hitAnonymous(services, context, "admin");
  const { anonymousLimits } = services;
  const address = `sign-in ${anonymousCaller(context.clientAddress)}`;
  const decision = anonymousLimits.peek(address, failures);
  if (!decision.allowed) enforce(services, context, decision, "admin", "anonymous");
  return () => void anonymousLimits.hit(address, failures);
}

function enforce(
  services: Services,
  context: RequestContext,
  decision: Decision,
  surface: ServedSurface,
  tier: string,
): void {
  setHeaders(context, decision);
  if (decision.allowed) return;
  services.httpMetrics.rateLimited.series(surface, tier).add();
  throw ApiError.rateLimited(decision.limit, decision.retryAfterSeconds);
}

const rateHeaders = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] as const;

function setHeaders(context: RequestContext, { limit, remaining, resetAt }: Decision): void {
  context.headers["x-ratelimit-limit"] = String(limit);
  context.headers["x-ratelimit-remaining"] = String(remaining);
  context.headers["x-ratelimit-reset"] = String(resetAt);
}
