/** Who may act here, and the lines that record each act. */
import { admit } from "../http/authenticate.ts";
import { checkedRoutes } from "../http/checked-routes.ts";
import type { Host, RequestContext } from "../http/context.ts";
import type { Services } from "../http/services.ts";
import { truncate } from "../lib/truncate.ts";
import { ApiError } from "../protocols/errors.ts";
import { type Act, auditRow } from "../store/audit.ts";
import { needsStorage } from "../store/require-storage.ts";

/** The name under which the acts of a request are recorded. */
type Actor = string;

/** The plugin of the admin API, whose `caller` is the actor's name and whose `record` writes the line of an act. */
export const adminPlugin = (host: Host, prefix: string) =>
  checkedRoutes(host, { area: "admin", prefix }, admitAdmin).derive(({ services, context, caller }) => ({
    record: (act: Act) => record(services, context, caller, act),
  }));

export type AdminPlugin = ReturnType<typeof adminPlugin>;

/**
 * A key of the admin surface, or the user whom a trusted proxy names where the configuration has a header for it.
 * Rejects with ApiError as `admit` does; host_not_allowed where a browser acts for a page of another origin
 */
async function admitAdmin(services: Services, context: RequestContext): Promise<Actor> {
  refuseForeignPages(services, context);
  const user = trustedUser(services, context);
  if (user === undefined) return (await admit(services, context, "admin")).keyId;
  context.logFields["user"] = user;
  return `user:${user}`;
}

function trustedUser({ live }: Services, context: RequestContext): string | undefined {
  const { trustedUserHeader } = live.config.admin;
  if (trustedUserHeader === undefined || !context.isFromTrustedProxy) return undefined;
  const user = context.request.headers.get(trustedUserHeader);
  return user !== null && /^[\x21-\x7e]{1,200}$/.test(user) ? user : undefined;
}

const safeMethods = ["GET", "HEAD"];

/**
 * Refuses pages of other origins. A proxy that signs people in gets its cookie from their browsers also when another page makes them ask. Browsers name the page's
 * origin with whatever may change something. Source: https://fetch.spec.whatwg.org/#origin-header
 */
function refuseForeignPages({ live }: Services, { request }: RequestContext): void {
  const origin = request.headers.get("origin");
  if (origin === null || safeMethods.includes(request.method)) return;
  const isOwn = URL.canParse(origin) && new URL(origin).host === request.headers.get("host");
  if (!isOwn && !live.config.cors.origins.includes(origin)) throw ApiError.hostNotAllowed(origin);
}

/** Logs the act and writes its line. Rejects with ApiError storage_unavailable; the act was done all the same, and the log has it. */
async function record(services: Services, context: RequestContext, actor: Actor, act: Act): Promise<void> {
  const { clock, log, store } = services;
  const { before, after, subject } = act;
  log.info("admin", { request_id: context.id, actor, act: act.act, subject: truncate(subject), before, after });
  await needsStorage(() => store.audit.insert(auditRow(clock, actor, act)));
}
