/** What who holds a key sees of it: the account as JSON, the session of `/account`, and a new secret. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Account = {
  readonly key: Record<string, unknown>;
  readonly usage: {
    readonly total: { readonly calls: number; readonly cost_micro_dollars: number };
    readonly by_model: readonly { readonly model: string; readonly calls: number }[];
  };
  readonly budgets: readonly Record<string, unknown>[];
  readonly models: { readonly data: readonly { readonly id: string; readonly surface: string }[] };
  readonly failed: readonly Record<string, unknown>[];
  readonly rotation: unknown;
  readonly base_urls: unknown;
};

const upstream = new UpstreamServer((request) =>
  (request.json as { messages: { content: string }[] }).messages[0]!.content === "fail"
    ? jsonResponse({ error: { message: "That is no question.", code: "bad_question" } }, 400)
    : jsonResponse({
        choices: [{ index: 0, message: { role: "assistant", content: "Hello!" }, finish_reason: "stop" }],
        usage: { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500 },
      }),
);
const providers = { openai: { baseUrl: upstream.url, apiKey: "k" } };
const account = { enabled: true, rotate: true, rotateGraceSeconds: 600 };

let troupe: Troupe;
let alice: string;
let bob: string;
const make = async (spec: object, at = troupe) =>
  (await at.server.services.keys.create({ tier: "pro", ...spec } as never)).secret;
const setBudget = async (keyId: string, limit: number) => {
  const { store, budgets } = troupe.server.services;
  await store.budgets.set({ scope: `key:${keyId}`, period: "day", limit, updatedAt: Date.now() });
  await budgets.load();
};
beforeAll(async () => {
  troupe = await Troupe.start({ providers, config: { account } });
  alice = await make({ name: "alice", tier: "pro", models: ["openai/gpt-4o-mini"], surfaces: ["gateway"] });
  bob = await make({ name: "bob", tier: "pro" });
});
afterAll(async () => {
  await troupe[Symbol.asyncDispose]();
  upstream[Symbol.dispose]();
});

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const own = { origin: "", "sec-fetch-site": "same-origin", "content-type": "application/json" };
const ask = (key: string, content: string) =>
  fetch(`${troupe.url}/gateway/v1/chat/completions`, {
    method: "POST",
    headers: { ...bearer(key), "content-type": "application/json" },
    body: JSON.stringify({ model: "openai/gpt-4o-mini", messages: [{ role: "user", content }] }),
  });
const read = async (key: string, path = "/gateway/v1/account?days=7") =>
  (await (await fetch(troupe.url + path, { headers: bearer(key) })).json()) as Account;
const signIn = (key: string, at = troupe) =>
  fetch(`${at.url}/account/session`, {
    method: "POST",
    headers: { ...own, origin: at.url },
    body: JSON.stringify({ key }),
  });
const cookieOf = (answer: Response) => {
  if (answer.status !== 200) throw new Error(`sign-in: ${answer.status}`);
  return answer.headers.get("set-cookie")!.split(";")[0]!;
};

describe("GET /v1/account", () => {
  test("has a key's own usage, budgets, models and failures, and nobody else's", async () => {
    await ask(alice, "hello");
    await ask(alice, "fail");
    await ask(bob, "hello");
    const { keyId } = troupe.server.services.keys.find(alice)!;
    await setBudget(keyId, 1_000_000);
    const seen = await read(alice);
    expect(seen.key).toMatchObject({ id: keyId, name: "alice", tier: "pro", surfaces: ["gateway"] });
    expect(seen.usage.total).toMatchObject({ calls: 2, cost_micro_dollars: 450 });
    expect(seen.usage.by_model).toMatchObject([{ model: "openai/gpt-4o-mini", calls: 2 }]);
    expect(seen.budgets).toMatchObject([{ scope: `key:${keyId}`, left_micro_dollars: 999_550 }]);
    expect(seen.models.data).toEqual([{ id: "openai/gpt-4o-mini", surface: "gateway" }] as never);
    expect(seen.failed).toMatchObject([{ model: "openai/gpt-4o-mini", status: 400, error_code: "bad_question" }]);
    expect(JSON.stringify(seen)).not.toContain("bob");
    expect(seen.rotation).toEqual({ allowed: true, grace_seconds: 600 });
    expect(seen.base_urls).toEqual({ orchestrator: "/v1", gateway: "/gateway/v1" });
    expect((await read(bob)).failed).toEqual([]);
  });

  test("is answered over budget, with when it opens again", async () => {
    const { keyId } = troupe.server.services.keys.find(bob)!;
    await setBudget(keyId, 1);
    expect((await ask(bob, "hello")).status).toBe(429);
    const { budgets } = await read(bob, "/v1/account");
    expect(budgets).toMatchObject([{ left_micro_dollars: 0, resets_at: expect.stringMatching(/T00:00:00/) }]);
  });

  test("refuses days it does not know, and who has no key", async () => {
    const answer = await fetch(`${troupe.url}/v1/account?days=91`, { headers: bearer(bob) });
    expect([answer.status, ((await answer.json()) as { error: { param: string } }).error.param]).toEqual([400, "days"]);
    expect((await fetch(`${troupe.url}/v1/account`)).status).toBe(401);
  });
});

describe("the session of /account", () => {
  test("is no session of the console, and opens nothing but the account", async () => {
    const surfaces = ["orchestrator", "gateway", "admin"] as const;
    const listen = [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces }] as const;
    await using both = await Troupe.start({ config: { account, listen } });
    const admin = await make({ name: "admin", surfaces: ["admin", "gateway"] }, both);
    const cookie = cookieOf(await signIn(admin, both));
    expect(cookie).toStartWith("troupe_account");
    const get = (path: string) => fetch(both.url + path, { headers: { cookie } });
    const seen = await get("/account/data");
    expect([seen.status, ((await seen.json()) as Account).key["name"]]).toEqual([200, "admin"]);
    for (const path of ["/admin/v1/keys", "/gateway/v1/models", "/gateway/v1/account"])
      expect((await get(path)).status).toBe(401);
  });

  test("ends by signing out, and with its key", async () => {
    const key = await make({ name: "carol" });
    const cookie = cookieOf(await signIn(key));
    const data = () => fetch(`${troupe.url}/account/data`, { headers: { cookie } });
    expect((await data()).status).toBe(200);
    const out = await fetch(`${troupe.url}/account/session`, { method: "DELETE", headers: { ...own, cookie } });
    expect([out.status, (await data()).status]).toEqual([200, 401]);
    const { store, keys } = troupe.server.services;
    const page = { before: null, limit: 1, actor: null, act: "session.sign_out", subject: null };
    const { keyId } = keys.find(key)!;
    expect(JSON.parse((await store.audit.list(page))[0]!.before!)).toEqual({ key: keyId, client: expect.any(String) });
    const again = cookieOf(await signIn(key));
    await troupe.server.services.keys.revoke(troupe.server.services.keys.find(key)!.keyId);
    expect((await fetch(`${troupe.url}/account/data`, { headers: { cookie: again } })).status).toBe(401);
  });

  test("lets no other page act", async () => {
    const cookie = cookieOf(await signIn(alice));
    const foreign = {
      cookie,
      "sec-fetch-site": "cross-site",
      origin: "https://evil.example",
      "content-type": "application/json",
    };
    for (const path of ["rotate", "try"])
      expect(
        (await fetch(`${troupe.url}/account/${path}`, { method: "POST", headers: foreign, body: "{}" })).status,
      ).toBe(403);
  });

  test("slows down who guesses keys", async () => {
    await using other = await Troupe.start({ config: { account } });
    const statuses: number[] = [];
    for (let at = 0; at < 12; at += 1) statuses.push((await signIn(`trp_${"x".repeat(40)}${at}`, other)).status);
    expect(statuses.slice(0, 10)).toEqual(Array(10).fill(401));
    expect(statuses.slice(10)).toEqual([429, 429]);
  });
});

describe("trying a model", () => {
  test("is a call of the key's own: counted, and refused where the key may not", async () => {
    await using other = await Troupe.start({ providers, config: { account } });
    const key = await make({ name: "dora", models: ["openai/*"] }, other);
    const headers = { ...own, origin: other.url, cookie: cookieOf(await signIn(key, other)) };
    const attempt = (model: string) =>
      fetch(`${other.url}/account/try`, { method: "POST", headers, body: JSON.stringify({ model }) });
    const answer = await attempt("openai/gpt-4o-mini");
    expect(((await answer.json()) as { choices: { message: { content: string } }[] }).choices[0]!.message.content).toBe(
      "Hello!",
    );
    expect((await attempt("builtin/echo")).status).toBe(403);
    const seen = (await (await fetch(`${other.url}/account/data`, { headers })).json()) as Account;
    expect(seen.usage.by_model.map(({ model }) => model)).toContain("openai/gpt-4o-mini");
  });
});

describe("rotating one's own key", () => {
  test("gives a new secret and goes on with it; the old one is good for the stated time", async () => {
    const key = await make({ name: "erin" });
    const answer = await fetch(`${troupe.url}/v1/account/rotate`, { method: "POST", headers: bearer(key) });
    const made = (await answer.json()) as { key: string; old_key_expires_at: string };
    expect(Date.parse(made.old_key_expires_at) - Date.now()).toBeWithin(500_000, 600_001);
    for (const secret of [key, made.key]) expect((await read(secret)).key["name"]).toBe("erin");
    const { keyId } = troupe.server.services.keys.find(made.key)!;
    const page = { before: null, limit: 50, actor: null, act: "key.rotate", subject: null };
    const audited = await troupe.server.services.store.audit.list(page);
    expect(audited).toMatchObject([{ subject: keyId, actor: keyId }]);
    const [before, after] = [audited[0]!.before, audited[0]!.after].map((side) => JSON.parse(side!));
    expect([before, after]).toMatchObject([
      { object: "key", name: "erin", old_key_expires_at: null },
      { object: "key", name: "erin", old_key_expires_at: made.old_key_expires_at },
    ]);
    expect(JSON.stringify(audited)).not.toContain(made.key);
  });

  test("goes on signed in with the new one", async () => {
    const cookie = cookieOf(await signIn(await make({ name: "frank" })));
    const rotated = await fetch(`${troupe.url}/account/rotate`, { method: "POST", headers: { ...own, cookie } });
    expect([rotated.status, rotated.headers.get("cache-control")]).toEqual([200, "no-store"]);
    const next = cookieOf(rotated);
    expect(next).not.toBe(cookie);
    const seen = (cookie: string) => fetch(`${troupe.url}/account/data`, { headers: { cookie } });
    expect([(await seen(next)).status, (await seen(cookie)).status]).toEqual([200, 401]);
  });

  test("is refused where the operator does not allow it, and accounts are not there where they are turned off", async () => {
    await using closed = await Troupe.start({ config: { account: { ...account, rotate: false } } });
    const refused = await fetch(`${closed.url}/v1/account/rotate`, { method: "POST", headers: bearer(closed.key) });
    expect(refused.status).toBe(404);
    await using off = await Troupe.start({ config: { account: { ...account, enabled: false } } });
    for (const path of ["/account", "/v1/account", "/gateway/v1/account", "/account/data"])
      expect((await fetch(off.url + path, { headers: bearer(off.key) })).status).toBe(404);
  });
});
