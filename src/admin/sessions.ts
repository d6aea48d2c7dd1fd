/** The admin API's routes of sign-in, and of the sessions that it begins. */
import { Type } from "@sinclair/typebox";
import { Session as ShownSession, SignedIn as ShownSignedIn } from "../api/sessions.ts";
import { pageSchema } from "../api/shape.ts";
import { listSessions, type Session, sessionEnd } from "../auth/sessions.ts";
import { admit } from "../call/admit/admit.ts";
import type { Host, RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import { checkedRoutes } from "../http/checked-routes.ts";
import { queryOf } from "../http/openapi/describe.ts";
import { Closed } from "../lib/json/schemas.ts";
import { isoTime } from "../lib/time/clock.ts";
import type { Operator } from "../operate/act.ts";
import { endSession } from "../operate/sessions.ts";
import { ApiError } from "../protocols/errors.ts";
import type { SessionRow } from "../store/contract/sessions.ts";
import { type AdminPlugin, guardAnswer, refuseForeignPages, type SignedIn, signedIn } from "./act.ts";
import { adminOperation, pageOf, pageParameters } from "./pages.ts";
import { setSessionCookie } from "./session-cookie.ts";
import { countTry, ownerOfKey, signIn } from "./sign-in.ts";

const Deleted = Type.Object({
  object: Type.Literal("session.deleted"),
  id: Type.String(),
  deleted: Type.Literal(true),
});
const SignIn = Closed({
  key: Type.String({ minLength: 1, maxLength: 200, description: "A key with admin among its surfaces." }),
});

const timesJson = (row: SessionRow) => ({
  created_at: isoTime(row.createdAt),
  expires_at: isoTime(sessionEnd(row)),
  ends_at: isoTime(row.endsAt),
});

const sessionJson = ({ row, caller }: Session, currentId: string | undefined) => ({
  object: "session" as const,
  id: row.id,
  key: { id: caller.keyId, name: caller.name },
  client: row.client,
  last_used_at: isoTime(row.usedAt),
  ...timesJson(row),
  is_current: row.id === currentId,
});

function signedInJson({ build, live }: Services, one: SignedIn) {
  const row = one.by === "session" ? one.row : undefined;
  return {
    object: "session" as const,
    signed_in_by: one.by,
    actor: one.by === "proxy" ? `user:${one.user}` : one.caller.keyId,
    key: one.by === "proxy" ? null : { id: one.caller.keyId, name: one.caller.name },
    user: one.by === "proxy" ? one.user : null,
    id: row?.id ?? null,
    ...(row === undefined ? { created_at: null, expires_at: null, ends_at: null } : timesJson(row)),
    version: build.version,
    write: live.config.console.write,
  };
}

/** Signing in, which alone of the admin API needs no key and no session. */
export const signInRoutes = (host: Host, prefix: string) =>
  checkedRoutes(host, { area: "admin", prefix }, (services, context) => {
    guardAnswer(context);
    refuseForeignPages(services, context);
    return countTry(services, context);
  }).post(
    "/v1/session",
    async ({ services, context, body, caller: failed }) => {
      const key = body.key.trim();
      const caller = await ownerOfKey(services, key, failed);
      await admit(services, context, "admin", {}, caller);
      const row = await signIn(services, context, { caller, key }, "console");
      return signedInJson(services, { by: "session", row, caller });
    },
    adminOperation({
      operationId: "adminSignIn",
      summary: "Begins a session, whose cookie stands for the key on the admin API",
      open: true,
      body: SignIn,
      examples: { key: { summary: "A key", value: { key: "trp_..." } } },
      response: ShownSignedIn,
      headers: { "Set-Cookie": "The session, for browsers alone." },
      errors: [400, 401, 408, 413, 415, 429],
    }),
  );

export const sessionRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/session",
      ({ services, context }) => signedInJson(services, signedIn(context)),
      adminOperation({
        operationId: "adminGetSession",
        summary: "Who asks, by what, and until when",
        response: ShownSignedIn,
      }),
    )
    .delete(
      "/v1/session",
      async ({ operator, context }) => {
        const one = signedIn(context);
        if (one.by !== "session") throw ApiError.notFound("This request comes with no session that could end.");
        return end(operator, context, one);
      },
      adminOperation({
        operationId: "adminSignOut",
        summary: "Ends the session that asks",
        response: Deleted,
        errors: [404],
      }),
    )
    .get(
      "/v1/sessions",
      async ({ services, context, query: { after, limit } }) => {
        const sessions = await listSessions(services);
        const currentId = currentOf(context);
        return pageOf(
          sessions.map((one) => sessionJson(one, currentId)),
          after,
          limit,
        );
      },
      adminOperation({
        operationId: "adminListSessions",
        summary: "Sessions that count, of all keys, the newest first",
        query: queryOf(pageParameters(100, 20)),
        response: pageSchema(ShownSession),
        errors: [400, 404],
      }),
    )
    .delete(
      "/v1/sessions/:id",
      async ({ services, operator, context, params }) => {
        const one = (await listSessions(services)).find(({ row }) => row.id === params.id);
        if (one === undefined) throw ApiError.notFound("There is no such session, or it has ended.", "id");
        return end(operator, context, one);
      },
      adminOperation({
        operationId: "adminEndSession",
        summary: "Ends a session, from the next request on",
        params: Type.Object({ id: Type.String() }),
        response: Deleted,
        errors: [404],
      }),
    );

function currentOf(context: RequestContext): string | undefined {
  const one = signedIn(context);
  return one.by === "session" ? one.row.id : undefined;
}

async function end(operator: Operator, context: RequestContext, { row }: Session) {
  const isOwn = row.id === currentOf(context);
  await endSession(operator, row, isOwn);
  if (isOwn) setSessionCookie(context);
  return { object: "session.deleted" as const, id: row.id, deleted: true as const };
}
