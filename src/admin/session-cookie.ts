/** The cookie of a session: made by the server, and out of reach of scripts. */
import { type SignInPage, sessionMaxMs } from "../auth/sessions.ts";
import type { RequestContext } from "../call/context.ts";

/** True where the browser's connection is encrypted: up to here, or to a proxy that the operator trusts. */
function isSecure({ request, isFromTrustedProxy }: RequestContext): boolean {
  if (request.url.startsWith("https:")) return true;
  const forwarded = request.headers.get("x-forwarded-proto");
  return forwarded !== null && /^\s*https\s*(?:,|$)/i.test(forwarded) && isFromTrustedProxy;
}

/** Who looks at an account has not signed in to the console. */
const cookieNames: Readonly<Record<SignInPage, string>> = { console: "troupe_session", account: "troupe_account" };

/**
 * Browsers share the cookies of a host among its ports, so that of each port has a name of its own.
 * With `__Host-` no other host and no unencrypted answer can set it. Source: https://www.rfc-editor.org/rfc/rfc6265#section-8.5
 */
function nameFor(context: RequestContext, page: SignInPage): string {
  const port = /:(\d{1,5})$/.exec(context.request.headers.get("host") ?? "")?.[1];
  return `${isSecure(context) ? "__Host-" : ""}${cookieNames[page]}${port === undefined ? "" : `_${port}`}`;
}

/** @returns the cookie's value; undefined where the request has none */
export function sessionCookie(context: RequestContext, page: SignInPage = "console"): string | undefined {
  const header = context.request.headers.get("cookie");
  if (header === null) return undefined;
  const start = `${nameFor(context, page)}=`;
  const found = header.split(";").find((pair) => pair.trimStart().startsWith(start));
  return found?.trim().slice(start.length);
}

/** Sets the cookie with the answer; without a value takes it back. */
export function setSessionCookie(context: RequestContext, secret?: string, page: SignInPage = "console"): void {
  const age = secret === undefined ? 0 : sessionMaxMs / 1000;
  const secure = isSecure(context) ? "; Secure" : "";
  context.headers["set-cookie"] =
    `${nameFor(context, page)}=${secret ?? ""}; Path=/; Max-Age=${age}; HttpOnly; SameSite=Strict${secure}`;
}
