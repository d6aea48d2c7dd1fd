/** What the page `/account` asks: signing in with one's own key, the account by the session's cookie, a new secret, and one call to try. */
import { Type } from "@sinclair/typebox";
import { type AnyElysia, Elysia } from "elysia";
import { guardAnswer, refuseForeignPages, refuseForged } from "../admin/act.ts";
import { surfaceOf } from "../admin/playground/surface.ts";
import { sessionCookie, setSessionCookie } from "../admin/session-cookie.ts";
import { countTry, ownerOfKey, signIn } from "../admin/sign-in.ts";
import type { Caller } from "../auth/keys.ts";
import { findSession } from "../auth/sessions.ts";
import { admit, hitAnonymous } from "../call/admit/admit.ts";
import type { Host, RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import { accountJson, checkServed, daysQuery, rotateOwn } from "../http/account.ts";
import { checkedRoutes, documented, elysiaSettings } from "../http/checked-routes.ts";
import { completeInside } from "../http/inside.ts";
import { operatorOf } from "../http/operator.ts";
import { basePath } from "../http/routes.ts";
import { Closed } from "../lib/json/schemas.ts";
import { endSession } from "../operate/sessions.ts";
import { ApiError } from "../protocols/errors.ts";
import type { SessionRow } from "../store/contract/sessions.ts";
import { accountPageRoutes } from "./page.ts";

/** The answer to a try is for a look, not for work. */
const tryTokens = 256;
const question = "Say hello in five words.";

const KeyBody = Closed({ key: Type.String({ minLength: 1, maxLength: 200, description: "One's own key." }) });
const TryBody = Closed({ model: Type.String({ minLength: 1, maxLength: 300 }) });
/** The page alone asks for these. */
const hidden = { tag: "Operations", summary: "For /account alone", hide: true } as const;

type Signed = { readonly caller: Caller; readonly row: SessionRow };

/** The surfaces that a listener serves and a key may use. */
const surfacesOf = ({ surfaces }: Host, caller: Caller) =>
  (["orchestrator", "gateway"] as const).filter((name) => surfaces.includes(name) && caller.surfaces.has(name));

/** Counts in the bucket of the admin API, so that a look costs no call. @throws ApiError surface_not_allowed for a key that may call nothing here */
function admitKeyHolder(host: Host, services: Services, context: RequestContext, caller: Caller) {
  const [own = "orchestrator"] = surfacesOf(host, caller);
  return admit(services, context, "admin", { permission: own }, caller);
}

async function signedIn(host: Host, services: Services, context: RequestContext): Promise<Signed> {
  guard(services, context);
  const cookie = sessionCookie(context, "account");
  if (cookie !== undefined) refuseForged(context);
  const session = cookie && (await findSession(services, cookie, true, "account"));
  if (!session) {
    hitAnonymous(services, context, "admin");
    throw ApiError.sessionEnded();
  }
  return { caller: await admitKeyHolder(host, services, context, session.caller), row: session.row };
}

function guard(services: Services, context: RequestContext): void {
  checkServed(services);
  guardAnswer(context);
  refuseForeignPages(services, context);
}

const signInRoutes = (host: Host) =>
  checkedRoutes(host, { area: "admin", prefix: "/account" }, (services, context) => {
    guard(services, context);
    return countTry(services, context);
  }).post(
    "/session",
    async ({ services, context, body, caller: failed }) => {
      const key = body.key.trim();
      const caller = await ownerOfKey(services, key, failed);
      await admitKeyHolder(host, services, context, caller);
      await signIn(services, context, { caller, key }, "account");
      return { object: "account.session" as const, name: caller.name };
    },
    documented({ ...hidden, body: KeyBody }),
  );

const keyHolderRoutes = (host: Host) =>
  checkedRoutes(host, { area: "admin", prefix: "/account" }, (services, context) => signedIn(host, services, context))
    .get(
      "/data",
      ({ context, request, caller: { caller }, query: { days } }) =>
        accountJson(host, { caller, tags: context.tags, days, signal: request.signal }),
      documented({ ...hidden, query: daysQuery }),
    )
    .delete(
      "/session",
      async ({ services, context, caller: { caller, row } }) => {
        await endSession(operatorOf(services, context, caller.keyId), row, true);
        setSessionCookie(context, undefined, "account");
        return { object: "account.session.deleted" as const };
      },
      documented(hidden),
    )
    .post(
      "/rotate",
      async ({ services, context, caller: { caller } }) => {
        const made = await rotateOwn(services, caller, context);
        // The session was the old secret's.
        await services.keys.catchUp(made.key);
        await signIn(services, context, { caller, key: made.key }, "account");
        return made;
      },
      documented(hidden),
    )
    .post(
      "/try",
      async ({ services, context, request: { signal }, body: { model }, caller: { caller } }) => {
        const surface = surfaceOf(services, model);
        const { name } = surface;
        if (!surfacesOf(host, caller).includes(name)) throw ApiError.surfaceNotAllowed(name);
        context.setIdleTimeout(0);
        const asked = { model, messages: [{ role: "user", content: question }], max_completion_tokens: tryTokens };
        const answer = await completeInside(host, {
          ...{ surface, caller, permission: name, signal, body: JSON.stringify(asked), client: "troupe-account" },
          path: `${basePath(name, host.surfaces)}/v1/chat/completions`,
        });
        context.finish(answer.status);
        const own = { ...context.headers, ...Object.fromEntries(answer.headers), "cache-control": "no-store" };
        return new Response(answer.body, { status: answer.status, headers: own });
      },
      documented({ ...hidden, body: TryBody }),
    );

export const accountRoutes = (host: Host): AnyElysia =>
  new Elysia({ ...elysiaSettings }).use(accountPageRoutes(host)).use(signInRoutes(host)).use(keyHolderRoutes(host));
