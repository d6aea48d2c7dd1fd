/** The admin API's routes of keys. */
import { type Static, Type } from "@sinclair/typebox";
import { maxGraceMs } from "../auth/grace.ts";
import { KeyError } from "../auth/key-lookup.ts";
import { type KeyChanges, type KeySpec, KeySpecError } from "../auth/key-spec.ts";
import { type KeyInfo, keyFields, type NewKey } from "../auth/keys.ts";
import { keySurfaces } from "../config/surfaces.ts";
import type { RequestContext } from "../http/context.ts";
import { unmatchedPattern } from "../http/model-patterns.ts";
import { describeOperation } from "../http/openapi/describe.ts";
import { jsonAnswer } from "../http/respond.ts";
import { type Route, restOfPath } from "../http/routes.ts";
import type { Services } from "../http/services.ts";
import { snakeCase } from "../lib/snake-case.ts";
import { ApiError } from "../protocols/errors.ts";
import { tiers } from "../protocols/tiers.ts";
import { needsStorage } from "../store/require-storage.ts";
import { admitAdmin, record } from "./act.ts";
import { Query, readBody, readOptionalBody, timeFrom } from "./bodies.ts";
import { keyed, listParameters, pageOf, pageSchema, pathId, writing } from "./pages.ts";

const OrNull = <T extends ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>>(schema: T) =>
  Type.Union([schema, Type.Null()]);

const rights = {
  tier: Type.Optional(
    Type.Union(
      tiers.map((tier) => Type.Literal(tier)),
      { description: "Its plan. Default: pro." },
    ),
  ),
  per_minute: Type.Optional(OrNull(Type.Integer())),
  tokens_per_minute: Type.Optional(OrNull(Type.Integer())),
  surfaces: Type.Optional(Type.Array(Type.Union(keySurfaces.map((name) => Type.Literal(name))))),
  models: Type.Optional(Type.Array(Type.String(), { description: "Patterns of model ids." })),
  tags: Type.Optional(Type.Array(Type.String())),
  expires_at: Type.Optional(OrNull(Type.String({ description: "A time such as 2027-01-31T12:00:00Z, or a date." }))),
};
const KeyCreate = Type.Object({ name: Type.String(), ...rights }, { additionalProperties: false });
const KeyUpdate = Type.Object({ name: Type.Optional(Type.String()), ...rights }, { additionalProperties: false });
type Rights = Static<typeof KeyUpdate>;
const KeyRotation = Type.Object(
  {
    grace_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: maxGraceMs / 1000,
        default: 0,
        description: "How long the old key is taken beside the new one; one that is older still is refused at once.",
      }),
    ),
  },
  { additionalProperties: false },
);

const Key = Type.Object({
  object: Type.Literal("key"),
  id: Type.String(),
  name: Type.String(),
  prefix: Type.String({ description: "Its first characters." }),
  state: Type.String({ description: "active, expired or revoked." }),
  tier: Type.String(),
  per_minute: Type.Union([Type.Integer(), Type.Null()]),
  tokens_per_minute: Type.Union([Type.Integer(), Type.Null()]),
  surfaces: Type.Array(Type.String()),
  models: Type.Array(Type.String()),
  tags: Type.Array(Type.String()),
  created_at: Type.String(),
  last_used_at: Type.Union([Type.String(), Type.Null()]),
  expires_at: Type.Union([Type.String(), Type.Null()]),
  revoked_at: Type.Union([Type.String(), Type.Null()]),
  old_key_expires_at: Type.Union([Type.String(), Type.Null()], {
    description: "Until when the key before the last rotation is taken too.",
  }),
});
const NewKeySchema = Type.Intersect([Type.Object({ key: Type.String({ description: "Shown this once." }) }), Key]);

/** What of a key is told. Never the key itself. */
export const keyJson = (key: KeyInfo) => ({ object: "key", ...keyFields(key) });

const newKeyJson = ({ secret, key }: NewKey) => ({ key: secret, ...keyJson(key) });

/** Rejects with an ApiError in place of the errors of keys and of the store. */
function doing<T>(work: () => Promise<T>): Promise<T> {
  return needsStorage(work).catch((error: unknown) => {
    if (error instanceof KeySpecError) throw ApiError.invalidValue(snakeCase(error.part), error.message);
    if (error instanceof KeyError) throw ApiError.invalidValue("id", error.message);
    throw error;
  });
}

/** @throws ApiError not_found */
async function find({ keys }: Services, id: string): Promise<KeyInfo> {
  const key = (await doing(() => keys.list())).find((one) => one.id === id);
  if (key === undefined) throw ApiError.notFound("There is no such key.", "id");
  return key;
}

/** @throws ApiError invalid_value for a pattern that fits no model there can be */
function checkModels({ live, personas }: Services, { models = [] }: Rights): void {
  const problem = unmatchedPattern(models, live.config, personas.list());
  if (problem !== undefined) throw ApiError.invalidValue("models", `models: ${problem}.`);
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

const base = "/v1/keys";
const idOf = (context: RequestContext) => restOfPath(context, `${base}/`).replace(/\/(rotate|revoke)$/, "");
const describe = (operation: Omit<Parameters<typeof describeOperation>[0], "tag">) =>
  describeOperation({ tag: "Admin", ...operation, errors: [...keyed, ...(operation.errors ?? [])] });

const states = ["active", "expired", "revoked"];

export const keyRoutes: readonly Route[] = [
  {
    method: "GET",
    path: base,
    area: "admin",
    detail: describe({
      operationId: "adminListKeys",
      summary: "Keys, a page at a time, the newest first",
      parameters: listParameters(["tag", "name"], 100, 20, { state: states, tier: tiers, surface: keySurfaces }),
      response: { schema: pageSchema(Key) },
      errors: [400, 404],
    }),
    run: async (services, context) => {
      await admitAdmin(services, context);
      const query = new Query(context);
      const state = query.oneOf("state", states);
      const tier = query.oneOf("tier", tiers);
      const surface = query.oneOf("surface", keySurfaces);
      const [tag, name] = [query.text("tag"), query.text("name")];
      const all = await doing(() => services.keys.list());
      const found = all
        .toReversed()
        .filter(
          (key) =>
            (state === undefined || key.state === state) &&
            (tier === undefined || key.tier === tier) &&
            (surface === undefined || key.surfaces.includes(surface)) &&
            (tag === undefined || key.tags.includes(tag)) &&
            (name === undefined || key.name.includes(name)),
        );
      return jsonAnswer(pageOf(found.map(keyJson), query.text("after"), query.limit(20, 100)));
    },
  },
  {
    method: "POST",
    path: base,
    area: "admin",
    detail: describe({
      operationId: "adminCreateKey",
      summary: "Creates a key; the answer alone has the key itself",
      body: { schema: KeyCreate, examples: { key: { summary: "A key", value: { name: "alice", tags: ["team-a"] } } } },
      response: { schema: NewKeySchema },
      errors: writing,
    }),
    run: async (services, context) => {
      const actor = await admitAdmin(services, context);
      const given = await readBody(services, context, KeyCreate);
      checkModels(services, given);
      const spec = specFrom(given);
      const made = await doing(() => services.keys.create(spec));
      await record(services, context, actor, { act: "key.create", subject: made.key.id, after: keyJson(made.key) });
      return jsonAnswer(newKeyJson(made));
    },
  },
  {
    method: "GET",
    path: `${base}/:id`,
    area: "admin",
    detail: describe({
      operationId: "adminGetKey",
      summary: "One key",
      parameters: [pathId],
      response: { schema: Key },
      errors: [404],
    }),
    run: async (services, context) => {
      await admitAdmin(services, context);
      return jsonAnswer(keyJson(await find(services, idOf(context))));
    },
  },
  {
    method: "PATCH",
    path: `${base}/:id`,
    area: "admin",
    detail: describe({
      operationId: "adminUpdateKey",
      summary: "Changes a key, from the next request on; null takes a number or an expiry away",
      parameters: [pathId],
      body: { schema: KeyUpdate, examples: { tags: { summary: "Other tags", value: { tags: ["team-b"] } } } },
      response: { schema: Key },
      errors: [404, ...writing],
    }),
    run: async (services, context) => {
      const actor = await admitAdmin(services, context);
      const given = await readBody(services, context, KeyUpdate);
      checkModels(services, given);
      const changes = changesFrom(given);
      const before = await find(services, idOf(context));
      const after = await doing(() => services.keys.update(before.id, changes));
      const told = { act: "key.update", subject: after.id, before: keyJson(before), after: keyJson(after) };
      await record(services, context, actor, told);
      return jsonAnswer(keyJson(after));
    },
  },
  {
    method: "POST",
    path: `${base}/:id/rotate`,
    area: "admin",
    detail: describe({
      operationId: "adminRotateKey",
      summary: "Gives a key a new secret; the old one is refused from the next request on, or once its grace is over",
      parameters: [pathId],
      body: {
        schema: KeyRotation,
        required: false,
        examples: { grace: { summary: "An hour for the clients to change over", value: { grace_seconds: 3600 } } },
      },
      response: { schema: NewKeySchema },
      errors: [404, ...writing],
    }),
    run: async (services, context) => {
      const actor = await admitAdmin(services, context);
      const { grace_seconds = 0 } = await readOptionalBody(services, context, KeyRotation);
      const before = await find(services, idOf(context));
      const made = await doing(() => services.keys.rotate(before.id, grace_seconds * 1000));
      const told = { act: "key.rotate", subject: before.id, before: keyJson(before), after: keyJson(made.key) };
      await record(services, context, actor, told);
      return jsonAnswer(newKeyJson(made));
    },
  },
  {
    method: "POST",
    path: `${base}/:id/revoke`,
    area: "admin",
    detail: describe({
      operationId: "adminRevokeKey",
      summary: "Revokes a key, from the next request on and for ever",
      parameters: [pathId],
      response: { schema: Key },
      errors: [400, 404],
    }),
    run: async (services, context) => {
      const actor = await admitAdmin(services, context);
      const before = await find(services, idOf(context));
      const after = await doing(() => services.keys.revoke(before.id));
      const told = { act: "key.revoke", subject: before.id, before: keyJson(before), after: keyJson(after) };
      await record(services, context, actor, told);
      return jsonAnswer(keyJson(after));
    },
  },
];
