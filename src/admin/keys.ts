/** The admin API's routes of keys. */
import { type Static, Type } from "@sinclair/typebox";
import { Key, KeyPage, KeyStatus, NewKey } from "../api/keys.ts";
import { OrNull } from "../api/shape.ts";
import { keyStates } from "../api/words.ts";
import { maxGraceMs } from "../auth/grace.ts";
import { type KeyInfo, type KeyQuery, keyOrders } from "../auth/key-info.ts";
import type { KeyChanges, KeySpec } from "../auth/key-spec.ts";
import type { Services } from "../call/services.ts";
import { keySurfaces } from "../config/surfaces.ts";
import { Id, oneOf, queryOf, writing } from "../http/openapi/describe.ts";
import { Closed, titled } from "../lib/json/schemas.ts";
import { isoTime } from "../lib/time/clock.ts";
import { dayMs } from "../lib/time/duration.ts";
import { budgetsJson, rulesOf } from "../operate/budgets.ts";
import { createKey, keyJson, revokeKey, rotateKey, updateKey } from "../operate/keys.ts";
import { ApiError } from "../protocols/errors.ts";
import { tiers } from "../protocols/tiers.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, pageOf, pageParameters, text, timeFrom } from "./pages.ts";

const rights = {
  tier: Type.Optional(oneOf(tiers, { description: "Its plan. Default: pro." })),
  per_minute: Type.Optional(OrNull(Type.Integer())),
  tokens_per_minute: Type.Optional(OrNull(Type.Integer())),
  surfaces: Type.Optional(Type.Array(oneOf(keySurfaces))),
  models: Type.Optional(Type.Array(Type.String(), { description: "Patterns of model ids." })),
  tags: Type.Optional(Type.Array(Type.String())),
  expires_at: Type.Optional(OrNull(Type.String({ description: "A time such as 2027-01-31T12:00:00Z, or a date." }))),
};
const KeyCreate = Closed({ name: Type.String(), ...rights });
const KeyUpdate = Closed({ name: Type.Optional(Type.String()), ...rights });
type Rights = Static<typeof KeyUpdate>;
const KeyRotation = Closed({
  grace_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: maxGraceMs / 1000,
      default: 0,
      description: "How long the old key is taken beside the new one; one that is older still is refused at once.",
    }),
  ),
});

const newKeyJson = ({ secret, after }: { readonly secret: string; readonly after: Key }): NewKey => ({
  key: secret,
  ...after,
});

/** @throws ApiError not_found */
async function find({ keys }: Pick<Services, "keys">, id: string): Promise<KeyInfo> {
  const key = await keys.named(id);
  if (key === undefined) throw ApiError.notFound("There is no such key.", "id");
  return key;
}

function changesFrom(given: Rights): KeyChanges {
  const { per_minute, tokens_per_minute, expires_at, ...rest } = given;
  return {
    ...rest,
    ...(per_minute !== undefined && { perMinute: per_minute }),
    ...(tokens_per_minute !== undefined && { tokensPerMinute: tokens_per_minute }),
    ...(expires_at !== undefined && { expiresAt: expires_at === null ? null : expiry(expires_at) }),
  };
}

function expiry(text: string): number {
  const time = timeFrom(text);
  if (time === undefined)
    throw ApiError.invalidValue("expires_at", "expires_at must be a time such as 2027-01-31T12:00:00Z.");
  return time;
}

function specFrom(given: Static<typeof KeyCreate>): KeySpec {
  const changes = Object.entries(changesFrom(given)).filter(([, value]) => value !== null);
  return { tier: "pro", ...Object.fromEntries(changes), name: given.name } as KeySpec;
}

/** The time that a key's last call is looked for in, at most: as long as the ledger is usually kept. */
const lastCallMs = 400 * dayMs;

/** The latest call of a key, and the program that made it. */
async function lastCall({ store, ledger, clock }: Services, keyId: string, signal: AbortSignal) {
  await ledger.flush();
  const until = clock.now() + 1;
  const page = { since: until - lastCallMs, until, where: { key: keyId }, limit: 1, signal };
  const [line] = await store.ledger.lines(page);
  if (line === undefined) return null;
  const { requestId, at, client, model, ended } = line;
  return { request_id: requestId, at: isoTime(at), client, model, ended };
}

titled({ KeyCreate, KeyUpdate });

export const keyRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/keys",
      async ({ services, query }) => {
        const { tag, name, search, state, tier, surface, sort = "created_at", order = "desc", after, limit } = query;
        const asked: KeyQuery = { tag, name, search, state, tier, surface, sort, order };
        const found = await services.keys.found(asked);
        const { data, ...rest } = pageOf(found, after, limit);
        const shown = await services.keys.shown(data);
        return { ...rest, data: shown.map(keyJson), total: found.length };
      },
      adminOperation({
        operationId: "adminListKeys",
        summary: "Keys, a page at a time, the newest first unless sorted otherwise",
        query: queryOf({
          tag: text(),
          name: text(),
          search: text("A part of the name or of a tag, or the beginning of the id or of the key."),
          state: Type.Optional(oneOf(keyStates)),
          tier: Type.Optional(oneOf(tiers)),
          surface: Type.Optional(oneOf(keySurfaces)),
          sort: Type.Optional(oneOf(keyOrders, { default: "created_at" })),
          order: Type.Optional(oneOf(["asc", "desc"], { default: "desc" })),
          ...pageParameters(1000, 20),
        }),
        response: KeyPage,
        errors: [400, 404],
      }),
    )
    .post(
      "/v1/keys",
      async ({ operator, body }) => {
        const spec = specFrom(body);
        return newKeyJson(await createKey(operator, spec));
      },
      adminOperation({
        operationId: "adminCreateKey",
        summary: "Creates a key; the answer alone has the key itself",
        body: KeyCreate,
        examples: { key: { summary: "A key", value: { name: "alice", tags: ["team-a"] } } },
        response: NewKey,
        errors: writing,
      }),
    )
    .get(
      "/v1/keys/:id",
      async ({ services, params }) => keyJson(await find(services, params.id)),
      adminOperation({ operationId: "adminGetKey", summary: "One key", params: Id, response: Key, errors: [404] }),
    )
    .get(
      "/v1/keys/:id/status",
      async ({ services, operator, request, params }) => {
        const { id, tier, tags } = await find(services, params.id);
        const last_call = await lastCall(services, id, request.signal);
        const budgets = await budgetsJson(operator, (await rulesOf(operator)).of({ keyId: id, tier, tags }));
        return { object: "key.status" as const, id, last_call, budgets };
      },
      adminOperation({
        operationId: "adminGetKeyStatus",
        summary: "A key's last call, by which client, and what is left of each budget that holds it",
        params: Id,
        response: KeyStatus,
        errors: [404],
      }),
    )
    .patch(
      "/v1/keys/:id",
      async ({ operator, params, body }) => {
        const changes = changesFrom(body);
        const key = await find(operator, params.id);
        return (await updateKey(operator, key, changes)).after;
      },
      adminOperation({
        operationId: "adminUpdateKey",
        summary: "Changes a key, from the next request on; null takes a number or an expiry away",
        params: Id,
        body: KeyUpdate,
        examples: { tags: { summary: "Other tags", value: { tags: ["team-b"] } } },
        response: Key,
        errors: [404, ...writing],
      }),
    )
    .post(
      "/v1/keys/:id/rotate",
      async ({ operator, params, body: { grace_seconds = 0 } }) => {
        const key = await find(operator, params.id);
        return newKeyJson(await rotateKey(operator, key, grace_seconds * 1000));
      },
      adminOperation({
        operationId: "adminRotateKey",
        summary: "Gives a key a new secret; the old one is refused from the next request on, or once its grace is over",
        params: Id,
        body: KeyRotation,
        bodyIsOptional: true,
        examples: { grace: { summary: "An hour for the clients to change over", value: { grace_seconds: 3600 } } },
        response: NewKey,
        errors: [404, ...writing],
      }),
    )
    .post(
      "/v1/keys/:id/revoke",
      async ({ operator, params }) => {
        const key = await find(operator, params.id);
        return (await revokeKey(operator, key)).after;
      },
      adminOperation({
        operationId: "adminRevokeKey",
        summary: "Revokes a key, from the next request on and for ever",
        params: Id,
        response: Key,
        errors: [400, 404],
      }),
    );
