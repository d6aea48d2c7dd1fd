import { describe, expect, spyOn, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { adminRoutes } from "../../src/admin/routes.ts";
import type { Host } from "../../src/call/context.ts";
import type { Config } from "../../src/config/config.ts";
import { openApiDocument } from "../../src/http/app.ts";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import { reservationOf, settle } from "../helpers/budgeted-call.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { Troupe, type TroupeOptions } from "../helpers/troupe.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];

type Json = Record<string, unknown>;

/** A server with the admin API, and a key for it. */
class House implements AsyncDisposable {
  readonly troupe: Troupe;
  readonly key: string;
  readonly keyId: string;

  private constructor(troupe: Troupe, key: string, keyId: string) {
    this.troupe = troupe;
    this.key = key;
    this.keyId = keyId;
  }

  static async open({ config, ...options }: TroupeOptions = {}): Promise<House> {
    const troupe = await Troupe.start({ ...options, config: { listen, ...config } });
    const made = await troupe.server.services.keys.create({
      name: "admin",
      tier: "pro",
      perMinute: 1_000_000,
      surfaces: ["admin"],
    });
    return new House(troupe, made.secret, made.key.id);
  }

  async ask(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<{ status: number; json: Json }> {
    const answer = await this.troupe.fetch(`/admin${path}`, {
      method,
      key: this.key,
      headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: answer.status, json: (await answer.json()) as Json };
  }

  /** @returns the answer's body; fails where it is an error */
  async get(path: string): Promise<Json> {
    const { status, json } = await this.ask("GET", path);
    expect({ status, path, json }).toMatchObject({ status: 200 });
    return json;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.troupe[Symbol.asyncDispose]();
  }
}

const dataOf = (list: Json) => list["data"] as Json[];
const errorOf = ({ status, json }: { status: number; json: Json }) => {
  const { param, code } = json["error"] as Json;
  return [status, code, param];
};

test("the description has every route, and is valid OpenAPI 3.1", async () => {
  const document = (await openApiDocument(["admin"], adminRoutes)) as { paths: Record<string, Record<string, Json>> };
  const result = await new Validator().validate(structuredClone(document) as never);
  expect([result.valid, result.errors ?? []]).toEqual([true, []]);
  const operations = Object.entries(document.paths).filter(([path]) => path.startsWith("/admin/"));
  const named = operations.flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`));
  const routes = adminRoutes({} as Host, "/admin").api.routes.map(
    ({ method, path }) => `${method.toLowerCase()} ${path.replaceAll(/:(\w+)/g, "{$1}")}`,
  );
  expect(named.toSorted()).toEqual(routes.toSorted());
  expect(JSON.stringify(document)).not.toMatch(/`|\*\*/);
});

describe("who may act", () => {
  test("only a key that has the surface, where the listener has it", async () => {
    await using house = await House.open();
    const { troupe } = house;
    expect((await troupe.fetch("/admin/v1/keys", { key: null })).status).toBe(401);
    const plain = await troupe.fetch("/admin/v1/keys");
    expect([plain.status, ((await plain.json()) as { error: Json }).error["code"]]).toEqual([
      403,
      "surface_not_allowed",
    ]);
    expect((await troupe.fetch("/v1/models", { key: house.key })).status).toBe(403);
    await using other = await Troupe.start();
    const key = await other.createKey({ name: "a", tier: "pro", surfaces: ["admin"] });
    expect((await other.fetch("/admin/v1/keys", { key })).status).toBe(404);
  });

  test("the first key does", async () => {
    await using house = await House.open();
    const first = house.troupe.server.services.firstKey!;
    expect((await house.troupe.fetch("/admin/v1/keys", { key: first.secret })).status).toBe(200);
  });

  test("a browser acts for its own page alone", async () => {
    await using house = await House.open({ config: { cors: { origins: ["https://ops.example"] } } });
    const create = (origin: string) => house.ask("POST", "/v1/keys", { name: "a" }, { origin });
    expect((await create("https://evil.example")).status).toBe(403);
    expect((await create("https://ops.example")).status).toBe(200);
    expect((await create(house.troupe.url)).status).toBe(200);
    expect((await house.ask("GET", "/v1/keys", undefined, { origin: "https://evil.example" })).status).toBe(200);
  });

  test("a user whom a trusted proxy names, and nobody else", async () => {
    const admin = { trustedUserHeader: "x-forwarded-user" };
    const ask = async (trustedProxies: string[], user: string) => {
      await using house = await House.open({ config: { admin, trustedProxies } });
      const headers = { "content-type": "application/json", "x-forwarded-user": user };
      const made = await house.troupe.post("/admin/v1/keys", { name: "by-sso" }, { key: null, headers });
      const [act] = dataOf(await house.get("/v1/audit"));
      return [made.status, act?.["actor"]];
    };
    expect(await ask(["127.0.0.1"], "ada@example.com")).toEqual([200, "user:ada@example.com"]);
    expect(await ask(["127.0.0.1"], "a b")).toEqual([401, undefined]);
    expect(await ask(["10.0.0.0/8"], "ada@example.com")).toEqual([401, undefined]);
  });
});

test("a store that is away is told as such by reads and by acts, and an act that was done before it went is in the log", async () => {
  const logged: string[] = [];
  const log = {
    ...silentLogger,
    info: (message: string, fields: object) => logged.push(`${message} ${JSON.stringify(fields)}`),
  };
  await using house = await House.open({ log: log as never });
  const { audit } = house.troupe.server.services.store;
  const away = async () => {
    throw new StorageError("unusable", "db", "away");
  };
  spyOn(audit, "list").mockImplementation(away);
  spyOn(audit, "insert").mockImplementation(away);
  const refused = [503, "storage_unavailable", ""];
  expect(errorOf(await house.ask("GET", "/v1/audit"))).toEqual(refused);
  expect(errorOf(await house.ask("POST", "/v1/keys", { name: "late" }))).toEqual(refused);
  expect(dataOf(await house.get("/v1/keys?name=late"))).toHaveLength(1);
  expect(logged.filter((line) => line.startsWith("admin ") && line.includes("key.create"))).toHaveLength(1);
});

describe("keys", () => {
  test("are created, changed, rotated and revoked, and every act leaves a line without a secret", async () => {
    await using house = await House.open();
    const { troupe } = house;
    const models = (key: string) => troupe.fetch("/v1/models", { key });
    const spec = { name: "alice", tags: ["team-a"], tokens_per_minute: 1000, expires_at: "2099-01-01" };
    const { json: made } = await house.ask("POST", "/v1/keys", spec);
    expect(made).toMatchObject({
      object: "key",
      name: "alice",
      tier: "pro",
      tags: ["team-a"],
      tokens_per_minute: 1000,
      per_minute: null,
      surfaces: ["orchestrator", "gateway"],
      models: ["*"],
      expires_at: "2099-01-01T00:00:00.000Z",
      state: "active",
    });
    const secret = made["key"] as string;
    expect((await models(secret)).status).toBe(200);
    const path = `/v1/keys/${made["id"]}`;
    const { key: _, ...shown } = made;
    expect(await house.get(path)).toMatchObject({ ...shown, last_used_at: expect.any(String) });

    const { json: changed } = await house.ask("PATCH", path, {
      tags: [],
      expires_at: null,
      per_minute: 9,
      surfaces: ["gateway"],
    });
    expect(changed).toMatchObject({ tags: [], expires_at: null, per_minute: 9, tokens_per_minute: 1000 });
    expect((await models(secret)).status).toBe(403);

    const { json: graceful } = await house.ask("POST", `${path}/rotate`, { grace_seconds: 60 });
    expect(Date.parse(graceful["old_key_expires_at"] as string)).toBeGreaterThan(Date.now());
    for (const key of [secret, graceful["key"] as string]) expect((await models(key)).status).toBe(403);
    for (const grace_seconds of [-1, 1.5, 30 * 86_400 + 1, "60"]) {
      const wrong = await house.ask("POST", `${path}/rotate`, { grace_seconds });
      expect(errorOf(wrong)).toEqual([400, "invalid_value", "grace_seconds"]);
    }
    const { json: rotated } = await house.ask("POST", `${path}/rotate`);
    for (const key of [secret, graceful["key"] as string]) expect((await models(key)).status).toBe(401);
    expect((await troupe.fetch("/gateway/v1/models", { key: rotated["key"] as string })).status).toBe(200);

    expect((await house.ask("POST", `${path}/revoke`)).json).toMatchObject({ state: "revoked" });
    expect((await troupe.fetch("/gateway/v1/models", { key: rotated["key"] as string })).status).toBe(401);
    expect(errorOf(await house.ask("POST", `${path}/revoke`))).toEqual([400, "invalid_value", "id"]);
    expect(errorOf(await house.ask("PATCH", path, { name: "b" }))).toEqual([400, "invalid_value", "id"]);

    const lines = dataOf(await house.get("/v1/audit"));
    expect(lines.map(({ act, actor, subject }) => [act, actor, subject])).toEqual(
      ["key.revoke", "key.rotate", "key.rotate", "key.update", "key.create"].map((act) => [
        act,
        house.keyId,
        made["id"],
      ]),
    );
    expect(lines[0]).toMatchObject({ actor_name: expect.any(String), subject_name: expect.any(String) });
    expect(dataOf(await house.get("/v1/audit?since=1h"))).toEqual(lines);
    expect(dataOf(await house.get("/v1/audit?until=2001-01-01"))).toEqual([]);
    expect(errorOf(await house.ask("GET", "/v1/audit?since=soon"))).toEqual([400, "invalid_value", "since"]);
    for (const one of [secret, rotated["key"] as string]) expect(JSON.stringify(lines)).not.toContain(one);
  });

  test("are listed by page and filter, the newest first", async () => {
    await using house = await House.open();
    for (const name of ["a1", "a2", "b1"]) await house.ask("POST", "/v1/keys", { name, tags: [name], tier: "free" });
    const first = await house.get("/v1/keys?tier=free&limit=2");
    expect(dataOf(first).map(({ name }) => name)).toEqual(["b1", "a2"]);
    expect(first["has_more"]).toBe(true);
    const second = await house.get(`/v1/keys?tier=free&limit=2&after=${first["last_id"]}`);
    expect([dataOf(second).map(({ name }) => name), second["has_more"]]).toEqual([["a1"], false]);
    const names = async (query: string) => dataOf(await house.get(`/v1/keys?${query}`)).map(({ name }) => name);
    expect(await names("tag=a2")).toEqual(["a2"]);
    expect(await names("name=a")).toEqual(["a2", "a1", "admin"]);
    expect(await names("surface=admin")).toEqual(["admin", "first"]);
    expect(await names("state=revoked")).toEqual([]);
    expect(errorOf(await house.ask("GET", "/v1/keys?state=x"))).toEqual([400, "invalid_value", "state"]);
    expect(errorOf(await house.ask("GET", "/v1/keys?tags=x"))).toEqual([400, "invalid_value", "tags"]);
    expect(errorOf(await house.ask("GET", "/v1/keys?limit=0"))).toEqual([400, "invalid_value", "limit"]);
    expect(errorOf(await house.ask("GET", "/v1/keys?after=none"))).toEqual([404, "not_found", "after"]);
  });

  test.each<[unknown, string, string]>([
    [{}, "missing_field", "name"],
    [{ name: "a", models: ["openai"] }, "invalid_value", "models"],
    [{ name: "" }, "invalid_value", "name"],
    [{ name: "a", tier: "gold" }, "invalid_value", "tier"],
    [{ name: "a", tier: "enterprise" }, "invalid_value", "per_minute"],
    [{ name: "a", per_minute: 0 }, "invalid_value", "per_minute"],
    [{ name: "a", surfaces: ["gateway", "ops"] }, "invalid_value", "surfaces[1]"],
    [{ name: "a", surfaces: [] }, "invalid_value", "surfaces"],
    [{ name: "a", tags: ["a b"] }, "invalid_value", "tags"],
    [{ name: "a", expires_at: "soon" }, "invalid_value", "expires_at"],
    [{ name: "a", expires_at: "2001-01-01" }, "invalid_value", "expires_at"],
    [{ name: "a", secret: "x" }, "invalid_value", "secret"],
  ])("%j is refused by its path", async (body, code, param) => {
    await using house = await House.open();
    expect(errorOf(await house.ask("POST", "/v1/keys", body))).toEqual([400, code, param]);
    expect(dataOf(await house.get("/v1/audit"))).toEqual([]);
  });
});

describe("budgets", () => {
  test("are set, topped up and removed; what is spent is told", async () => {
    const clock = new ManualClock(Date.UTC(2026, 10, 22, 12));
    const budgets: Config["budgets"] = {
      all: { month: 100 },
      tiers: { free: {}, pro: {}, enterprise: {} },
      keys: {},
      tags: {},
      unknownPrice: "refuse",
      assumedOutputTokens: 4096,
      assumedToolUses: 5,
      estimateFactor: 1,
    };
    await using house = await House.open({ clock, config: { budgets } });
    const { store } = house.troupe.server.services;
    const set = await house.ask("PUT", "/v1/budgets/tag:team-a/prepaid", { dollars: 12.5 });
    expect(set).toEqual({
      status: 200,
      json: {
        object: "budget",
        id: "tag:team-a/prepaid",
        scope: "tag:team-a",
        name: null,
        period: "prepaid",
        origin: "set",
        dollars: 12.5,
        span: "prepaid",
        spent: 0,
        reserved: 0,
        left: 12.5,
        resets_at: null,
        state: "ok",
        runs_out_at: null,
      },
    });
    const held = [
      { scope: "tag:team-a", span: "prepaid", limit: 12_500_000 },
      { scope: "all", span: "2026-11", limit: 1e8 },
    ];
    const at = Date.parse("2026-11-22");
    const first = reservationOf("1", { at, amount: 2_000_000, budgets: held });
    await store.budgets.reserve(first);
    await store.budgets.reserve(reservationOf("2", { at, amount: 500_000, budgets: held }));
    await settle(store, first, 1_000_001);
    const list = await house.get("/v1/budgets");
    expect(
      dataOf(list).map(({ id, origin, spent, reserved, left, resets_at }) => [
        id,
        origin,
        spent,
        reserved,
        left,
        resets_at,
      ]),
    ).toEqual([
      ["all/month", "configuration", 1.000001, 0.5, 98.499999, "2026-12-01T00:00:00.000Z"],
      ["tag:team-a/prepaid", "set", 1.000001, 0.5, 10.999999, null],
    ]);
    expect((await house.ask("POST", "/v1/budgets/tag:team-a/prepaid/top-up", { dollars: 10 })).json).toMatchObject({
      dollars: 22.5,
      left: 20.999999,
    });
    expect((await house.ask("PUT", "/v1/budgets/all/month", { dollars: 5 })).json).toMatchObject({
      origin: "set",
      dollars: 5,
    });
    expect((await house.ask("DELETE", "/v1/budgets/all/month")).json).toEqual({
      object: "budget.deleted",
      id: "all/month",
      deleted: true,
    });
    expect(dataOf(await house.get("/v1/budgets?scope=all"))[0]).toMatchObject({
      origin: "configuration",
      dollars: 100,
    });
    const key = (await store.keys.list())[0]!;
    expect((await house.ask("PUT", `/v1/budgets/key:${key.id}/day`, { dollars: 1 })).json).toMatchObject({
      ...{ scope: `key:${key.id}`, name: key.name },
    });
    expect(dataOf(await house.get("/v1/audit?limit=1"))[0]).toMatchObject({
      ...{ subject: `key:${key.id}/day`, subject_name: key.name },
    });
    expect(dataOf(await house.get("/v1/budgets")).map(({ name }) => name)).toEqual([null, key.name, null]);
  });

  test("count the calls of some models alone where their scope says so", async () => {
    await using house = await House.open({});
    const path = (scope: string) => `/v1/budgets/${encodeURIComponent(scope)}/day`;
    const scope = "tag:team-a model:openai/*";
    expect(await house.ask("PUT", path(scope), { dollars: 5 })).toMatchObject({
      status: 200,
      json: { id: `${scope}/day`, scope, model: "openai/*", dollars: 5 },
    });
    await house.ask("PUT", path("tag:team-a"), { dollars: 9 });
    const ids = async (query: string) => dataOf(await house.get(`/v1/budgets?${query}`)).map(({ id }) => id);
    expect(await ids("scope=tag:team-a")).toEqual([`${scope}/day`, "tag:team-a/day"]);
    expect(await ids("kind=tag")).toHaveLength(2);
    const key = (await house.troupe.server.services.store.keys.list())[0]!;
    const own = `key:${key.id} model:*/gpt-*`;
    expect((await house.ask("PUT", path(own), { dollars: 1 })).json).toMatchObject({ scope: own, name: key.name });
    expect(dataOf(await house.get("/v1/audit?limit=1"))[0]).toMatchObject({ subject: `${own}/day` });
    for (const wrong of ["tag:team-a model:", "tag:team-a model:nobody/*", "tag:team-a model:openai/é", "team model:*"])
      expect(errorOf(await house.ask("PUT", path(wrong), { dollars: 5 }))).toEqual([400, "invalid_value", "scope"]);
    expect((await house.ask("DELETE", path(scope))).status).toBe(200);
    expect(await ids("scope=tag:team-a")).toEqual(["tag:team-a/day"]);
  });

  test("that end are listed apart: spent ones first, then the first to run out", async () => {
    const clock = new ManualClock(Date.UTC(2026, 10, 22, 12));
    await using house = await House.open({ clock });
    const { store } = house.troupe.server.services;
    const at = clock.now() - 1;
    // Each is spent at a pace of 2 dollars in its half of a day.
    const dollars = { "tag:a": 2.5, "tag:b": 2, "tag:c": 100, "tag:d": 3, "tier:pro": 0 };
    for (const [scope, sum] of Object.entries(dollars))
      await house.ask("PUT", `/v1/budgets/${scope}/day`, { dollars: sum });
    await store.ledger.append([
      ledgerLine("req_1", { at, tags: Object.keys(dollars).map((scope) => scope.slice(4)), cost: 2_000_000 }),
    ]);
    const list = await house.get("/v1/budgets?ending=true&limit=2");
    expect(dataOf(list).map(({ scope, state }) => [scope, state])).toEqual([
      ["tier:pro", "spent"],
      ["tag:b", "spent"],
    ]);
    expect(list).toMatchObject({ has_more: true, last_id: "tag:b/day" });
    const rest = await house.get("/v1/budgets?ending=true&after=tag:b/day");
    expect(dataOf(rest).map(({ scope, state, runs_out_at: ends }) => [scope, state, ends])).toEqual([
      ["tag:a", "low", "2026-11-22T15:00:00.000Z"],
      ["tag:d", "ok", "2026-11-22T18:00:00.000Z"],
    ]);
    expect(errorOf(await house.ask("GET", "/v1/budgets?ending=soon"))).toEqual([400, "invalid_value", "ending"]);
  });

  test.each<[string, string, unknown, unknown[]]>([
    ["PUT", "/v1/budgets/all/week", { dollars: 1 }, [400, "invalid_value", "period"]],
    ["PUT", "/v1/budgets/team/day", { dollars: 1 }, [400, "invalid_value", "scope"]],
    ["PUT", "/v1/budgets/tier:gold/day", { dollars: 1 }, [400, "invalid_value", "scope"]],
    ["PUT", "/v1/budgets/key:key_1/day", { dollars: 1 }, [404, "not_found", "scope"]],
    ["PUT", "/v1/budgets/all/day", { dollars: -1 }, [400, "invalid_value", "dollars"]],
    ["PUT", "/v1/budgets/all/day", {}, [400, "missing_field", "dollars"]],
    ["POST", "/v1/budgets/all/day/top-up", { dollars: 1 }, [404, "not_found", "scope"]],
    ["DELETE", "/v1/budgets/all/day", undefined, [404, "not_found", "scope"]],
  ])("%s %s is refused by its place", async (method, path, body, error) => {
    await using house = await House.open();
    expect(errorOf(await house.ask(method, path, body))).toEqual(error as [number, string, string]);
  });
});

describe("usage and calls", () => {
  const say = (house: House, key: string, headers = {}) =>
    house.troupe.post(
      "/v1/chat/completions",
      { model: "troupe/guide", messages: [{ role: "user", content: "Hi" }] },
      { key, headers },
    );

  async function used(): Promise<{ house: House; requestId: string; keyId: string }> {
    const house = await House.open();
    house.troupe.setTargets("troupe/guide", ["builtin/echo"]);
    const made = (await house.ask("POST", "/v1/keys", { name: "a", tags: ["team-a"] })).json;
    const answer = await say(house, made["key"] as string);
    expect(answer.status).toBe(200);
    await house.troupe.server.services.ledger.flush();
    return { house, requestId: answer.headers.get("x-request-id")!, keyId: made["id"] as string };
  }

  test("are told by sums, by lines and by one request's attempts", async () => {
    const { house, requestId, keyId } = await used();
    await using _ = house;
    const sums = await house.get("/v1/usage?by=key,tag,provider&tag=team-a");
    expect(dataOf(sums)).toHaveLength(1);
    expect(dataOf(sums)[0]).toMatchObject({
      key: keyId,
      key_name: "a",
      tag: "team-a",
      provider: "builtin",
      calls: 1,
      ended: { finished: 1, broken: 0 },
    });
    expect(
      dataOf(await house.get("/v1/usage?until=2001-01-02&since=2001-01-01")).every(({ calls }) => calls === 0),
    ).toBe(true);
    const [call] = dataOf(await house.get(`/v1/calls?key=${keyId}&ended=finished`));
    // As `GET /v1/usage` and `troupe usage` name them.
    const own = (await (await house.troupe.fetch("/v1/usage")).json()) as { total: { tokens: object } };
    expect(Object.keys(call!["tokens"] as object)).toEqual(Object.keys(own.total.tokens));
    expect(call).toMatchObject({
      object: "call",
      request_id: requestId,
      attempt: 1,
      key: keyId,
      tags: ["team-a"],
      upstream_model: "echo",
    });
    expect(dataOf(await house.get(`/v1/calls?after=${call!["id"]}`))).toEqual([]);
    expect(await house.get(`/v1/calls/${requestId}`)).toEqual({
      object: "call.attempts",
      request_id: requestId,
      attempts: [call],
    });
    expect(errorOf(await house.ask("GET", "/v1/calls/req_none"))).toEqual([404, "not_found", "id"]);
    expect(errorOf(await house.ask("GET", "/v1/calls?after=x"))).toEqual([400, "invalid_value", "after"]);
    expect(errorOf(await house.ask("GET", "/v1/usage?by=week"))).toEqual([400, "invalid_value", "by"]);
    const name = async (path: string) => errorOf(await house.ask("GET", path));
    expect(await name("/v1/usage?group_by=day")).toEqual([400, "invalid_value", "group_by"]);
    expect(await name("/v1/calls?ended=well")).toEqual([400, "invalid_value", "ended"]);
    expect(await name("/v1/calls?limit=101")).toEqual([400, "invalid_value", "limit"]);
    expect(errorOf(await house.ask("GET", "/v1/usage?since=never"))).toEqual([400, "invalid_value", "since"]);
  });

  test("calls are told as they end, and from where a client left off", async () => {
    const { house, keyId } = await used();
    await using _ = house;
    const { json: made } = await house.ask("POST", "/v1/keys", { name: "b" });
    const tail = await Tail.open(house, `key=${made["id"]}`);
    await say(house, made["key"] as string);
    const first = await tail.next();
    expect(first.data).toMatchObject({ object: "call", key: made["id"], ended: "finished" });
    await tail.close();
    for (let at = 0; at < 2; at += 1) await say(house, made["key"] as string);
    await house.troupe.server.services.ledger.flush();
    const resumed = await Tail.open(house, `key=${made["id"]}`, first.id);
    const rest = [await resumed.next(), await resumed.next()];
    expect(new Set([first, ...rest].map(({ id }) => id)).size).toBe(3);
    expect(rest.map(({ data }) => data["key"])).not.toContain(keyId);
    await resumed.close();
  });
});

type TailEvent = { readonly id: string; readonly data: Json };

/** A client of the live tail. */
class Tail {
  #text = "";
  readonly #reader: {
    read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>;
    cancel(): Promise<void>;
  };

  private constructor(body: ReadableStream<Uint8Array>) {
    this.#reader = body.getReader();
  }

  static async open(house: House, query: string, lastId?: string): Promise<Tail> {
    const answer = await house.troupe.fetch(`/admin/v1/calls/stream?${query}`, {
      key: house.key,
      headers: lastId === undefined ? {} : { "last-event-id": lastId },
    });
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/event-stream; charset=utf-8"]);
    const tail = new Tail(answer.body!);
    expect(await tail.#part()).toBe(": here");
    return tail;
  }

  async next(): Promise<TailEvent> {
    const [, id, data] = /^id: (\S+)\nevent: call\ndata: (.*)$/.exec(await this.#part())!;
    return { id: id!, data: JSON.parse(data!) };
  }

  async #part(): Promise<string> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end >= 0) {
        const part = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        return part;
      }
      const { value, done } = await this.#reader.read();
      if (done) throw new Error("the tail ended");
      this.#text += new TextDecoder().decode(value);
    }
  }

  close(): Promise<void> {
    return this.#reader.cancel();
  }
}
