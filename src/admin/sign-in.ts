/** Signing in with a key, to the console or to `/account`: who it is of, and the session that stands for it from then on. */
import type { Caller } from "../auth/keys.ts";
import type { SignInPage } from "../auth/sessions.ts";
import { countSignIn } from "../call/admit/admit.ts";
import type { RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import { operatorOf } from "../http/operator.ts";
import { startSession } from "../operate/sessions.ts";
import { ApiError } from "../protocols/errors.ts";
import type { SessionRow } from "../store/contract/sessions.ts";
import { sessionCookie, setSessionCookie } from "./session-cookie.ts";

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

/** Begins a session for a key that is known to be good, in place of the one that the browser has. @throws ApiError storage_unavailable */
export async function signIn(
  services: Services,
  context: RequestContext,
  { caller, key }: { readonly caller: Caller; readonly key: string },
  page: SignInPage,
): Promise<SessionRow> {
  const userAgent = context.request.headers.get("user-agent");
  const old = sessionCookie(context, page);
  const operator = operatorOf(services, context, caller.keyId);
  const { secret, row } = await startSession(operator, { caller, key, userAgent, page, old });
  setSessionCookie(context, secret, page);
  return row;
}
