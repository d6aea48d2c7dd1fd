/** Signing in with a key, to the console or to `/account`: who it is of, and the session that stands for it from then on. */
import type { Caller } from "../auth/keys.ts";
import { beginSession, findSession, type SessionsOf } from "../auth/sessions.ts";
import { countSignIn } from "../call/admit/authenticate.ts";
import type { RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import { recordAct } from "../http/record-act.ts";
import { ApiError } from "../protocols/errors.ts";
import { needsStorage } from "../store/require-storage.ts";
import type { SessionRow } from "../store/sessions.ts";
import { type SessionPage, sessionCookie, setSessionCookie } from "./session-cookie.ts";

/** Tries to sign in that may fail for one address. */
const failuresPerMinute = 10;

/** Counts a try. @returns counts it as failed @throws ApiError rate_limit_exceeded */
export const countTry = (services: Services, context: RequestContext): (() => void) =>
  countSignIn(services, context, failuresPerMinute);

/** @param failed counts the try as failed @throws ApiError invalid_api_key */
export async function ownerOfKey({ keys }: Services, key: string, failed: () => void): Promise<Caller> {
  // Another node may have made it a moment ago.
  if (keys.find(key) === undefined) await keys.catchUp(key);
  const caller = keys.find(key);
  if (caller !== undefined) return caller;
  failed();
  throw ApiError.refusedSignIn();
}

const sessionsOf: Readonly<Record<SessionPage, SessionsOf>> = { console: "admins", account: "holders" };

/** Begins a session for a key that is known to be good, in place of the one that the browser has. @throws ApiError storage_unavailable */
export async function startSession(
  services: Services,
  context: RequestContext,
  { caller, key }: { readonly caller: Caller; readonly key: string },
  page: SessionPage,
): Promise<SessionRow> {
  await endOwn(services, context, page);
  const userAgent = context.request.headers.get("user-agent");
  const { secret, row } = await needsStorage(() => beginSession(services, { caller, key, userAgent }));
  const { id, client } = row;
  const after = page === "console" ? { client } : { client, page };
  await recordAct(services, context, caller.keyId, { act: "session.create", subject: id, after });
  setSessionCookie(context, secret, page);
  return row;
}

/** Ends the session that a browser has when it signs in anew. */
async function endOwn(services: Services, context: RequestContext, page: SessionPage): Promise<void> {
  const cookie = sessionCookie(context, page);
  if (cookie === undefined) return;
  const own = await needsStorage(() => findSession(services, cookie, false, sessionsOf[page]));
  if (own !== undefined) await needsStorage(() => services.store.sessions.remove(own.row.id));
}
