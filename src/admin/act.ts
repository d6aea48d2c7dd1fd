/** Who may act here, and the lines that record each act. */
import type { Caller } from "../auth/keys.ts";
import { findSession, type Session } from "../auth/sessions.ts";
import { admit, hitAnonymous, keyOf } from "../call/admit/admit.ts";
import type { Host, RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import { checkedRoutes } from "../http/checked-routes.ts";
import { operatorOf } from "../http/operator.ts";
import { ApiError } from "../protocols/errors.ts";
import { ReadingNotes } from "./reading-notes.ts";
import { sessionCookie } from "./session-cookie.ts";

/** The name under which the acts of a request are recorded. */
type Actor = string;

/**
 * The plugin of the admin API, whose `caller` is the actor's name and whose `operator` does the acts, and records them. `recordReading` is awaited
 * before an answer that shows what people wrote; `subject` names whose words they are, a request's id, say.
 */
export const adminPlugin = (host: Host, prefix: string) => {
  const readings = new ReadingNotes();
  return checkedRoutes(host, { area: "admin", prefix }, admitAdmin).derive(({ services, context, caller }) => {
    const operator = operatorOf(services, context, caller);
    return {
      operator,
      recordReading: (subject: string) =>
        readings.once(services.clock.now(), caller, subject, () => operator.record({ act: "content.read", subject })),
    };
  });
};

export type AdminPlugin = ReturnType<typeof adminPlugin>;

/** By what a request is let in: a key in a header, a session's cookie, or a proxy that names a user. */
export type SignedIn =
  | { readonly by: "key"; readonly caller: Caller }
  | ({ readonly by: "session" } & Session)
  | { readonly by: "proxy"; readonly user: string };

const admitted = new WeakMap<RequestContext, SignedIn>();

/** @param context of a request that was let in */
export const signedIn = (context: RequestContext): SignedIn => admitted.get(context)!;

/** Whose the calls of models are that a request makes: the key's that signed in, or a user's whom a proxy names. */
export function actingCaller(context: RequestContext): Caller {
  const one = signedIn(context);
  if (one.by !== "proxy") return one.caller;
  const keyId = `user:${one.user}`;
  return {
    ...{ keyId, name: one.user, tier: "enterprise", perMinute: 600, ownPerMinute: undefined, models: ["*"], tags: [] },
    surfaces: new Set(["admin"]),
    buckets: { orchestrator: `orchestrator ${keyId}`, gateway: `gateway ${keyId}`, admin: `admin ${keyId}` },
  };
}

/** Headers of whatever the admin API answers: it is for nobody's cache and nobody's page. */
export function guardAnswer({ headers }: RequestContext): void {
  headers["cache-control"] = "no-store";
  headers["x-content-type-options"] = "nosniff";
  headers["cross-origin-resource-policy"] = "same-origin";
}

/**
 * A key of the admin surface or a session of one, or the user whom a trusted proxy names where the configuration has a header for it.
 * Rejects with ApiError as `admit` does; session_ended; host_not_allowed where a browser acts for a page of another origin
 */
async function admitAdmin(services: Services, context: RequestContext): Promise<Actor> {
  guardAnswer(context);
  refuseForeignPages(services, context);
  const one = await findSignedIn(services, context);
  admitted.set(context, one);
  if (one.by !== "proxy") return one.caller.keyId;
  context.logFields["user"] = one.user;
  return `user:${one.user}`;
}

async function findSignedIn(services: Services, context: RequestContext): Promise<SignedIn> {
  const user = trustedUser(services, context);
  if (user !== undefined) return { by: "proxy", user };
  const cookie = keyOf(context) === undefined ? sessionCookie(context) : undefined;
  if (cookie === undefined) return { by: "key", caller: await admit(services, context, "admin") };
  refuseForged(context);
  const isUse = !context.request.headers.has(refreshHeader);
  const session = await findSession(services, cookie, isUse);
  if (session === undefined) {
    hitAnonymous(services, context, "admin");
    throw ApiError.sessionEnded();
  }
  return { by: "session", ...session, caller: await admit(services, context, "admin", {}, session.caller) };
}

/** Refuses what another page may have made the browser send with its cookie. @throws ApiError */
export function refuseForged(context: RequestContext): void {
  const { method, body, headers } = context.request;
  if (safeMethods.includes(method)) return;
  if (!isOwnPage(context)) throw ApiError.foreignPage();
  // A form of another page can send a body without a type, and JSON not.
  if (body !== null && headers.get("content-type") === null) throw ApiError.unsupportedMediaType("no content type");
}

/**
 * True where nothing of the request signs anybody in: the console's page then asks for a key before it asks for anything else, as browsers
 * report each request that is refused. False where the store does not answer.
 */
export async function isSignedOut(services: Services, context: RequestContext): Promise<boolean> {
  if (keyOf(context) !== undefined || trustedUser(services, context) !== undefined) return false;
  const cookie = sessionCookie(context);
  if (cookie === undefined) return true;
  try {
    return (await findSession(services, cookie, false)) === undefined;
  } catch {
    return false;
  }
}

function trustedUser({ live }: Services, context: RequestContext): string | undefined {
  const { trustedUserHeader } = live.config.admin;
  if (trustedUserHeader === undefined || !context.isFromTrustedProxy) return undefined;
  const user = context.request.headers.get(trustedUserHeader);
  return user !== null && /^[\x21-\x7e]{1,200}$/.test(user) ? user : undefined;
}

/** Marks what a page asks by itself, without which a page left open would never let its session end. */
const refreshHeader = "x-troupe-refresh";

const safeMethods = ["GET", "HEAD"];

/**
 * True where the browser says that a page of this very server asks. No script can set either header; where a proxy renames the host, the first one
 * alone is right. Browsers leave it out where the connection is not encrypted. Source: https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header
 */
function isOwnPage(context: RequestContext): boolean {
  const site = context.request.headers.get("sec-fetch-site");
  return site === null ? isOwnOrigin(context) : site === "same-origin";
}

/**
 * Scheme, host and port alone, as browsers write it. This server's own scheme counts, unless a trusted proxy is in front, which takes TLS off.
 */
function isOwnOrigin(context: RequestContext): boolean {
  const { headers, url } = context.request;
  const origin = headers.get("origin") ?? "";
  if (!URL.canParse(origin)) return false;
  const { origin: written, host, protocol } = new URL(origin);
  if (written !== origin || host !== headers.get("host")) return false;
  return context.isFromTrustedProxy || url.startsWith(protocol);
}

/**
 * Refuses pages of other origins. A proxy that signs people in gets its cookie from their browsers also when another page makes them ask. Browsers name the page's
 * origin with whatever may change something. Source: https://fetch.spec.whatwg.org/#origin-header
 */
export function refuseForeignPages({ live }: Services, context: RequestContext): void {
  const { headers, method } = context.request;
  const origin = headers.get("origin");
  if (origin === null || safeMethods.includes(method)) return;
  const isOwn = isOwnOrigin(context) || isOwnPage(context);
  if (!isOwn && !live.config.cors.origins.includes(origin)) throw ApiError.hostNotAllowed(origin);
}
