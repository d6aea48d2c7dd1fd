/**
 * Checks `Host` on loopback listeners, against DNS rebinding: a web page can point its own name at 127.0.0.1, and the browser
 * then lets it read answers as its own origin. `Host` still has the page's name.
 * Source: https://www.rfc-editor.org/rfc/rfc9110#section-17.1 and https://en.wikipedia.org/wiki/DNS_rebinding
 */
import { globMatches } from "../lib/glob.ts";
import { ApiError } from "../protocols/errors.ts";
import { admitAnyone } from "./authenticate.ts";
import type { RequestContext } from "./context.ts";
import type { Services } from "./services.ts";

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

/** The latest header that named this machine, whatever the configuration: nearly all calls have the same one. */
let lastLocal: string | null = null;
const maxKept = 255;

/**
 * Skipped for trusted proxies, which check names themselves.
 * @returns a promise only where the name is not allowed; it rejects with ApiError host_not_allowed, or rate_limit_exceeded
 */
export function checkHost(services: Services, context: RequestContext): Promise<void> | undefined {
  const host = context.request.headers.get("host");
  if (host === lastLocal) return undefined;
  if (isAllowedHost(host, [])) {
    if (host !== null && host.length <= maxKept) lastLocal = host;
    return undefined;
  }
  if (isAllowedHost(host, services.live.config.allowedHosts) || context.isFromTrustedProxy) return undefined;
  return refuseHost(services, context, host);
}

async function refuseHost(services: Services, context: RequestContext, host: string | null): Promise<void> {
  await admitAnyone(services, context);
  throw ApiError.hostNotAllowed(host ?? "");
}
