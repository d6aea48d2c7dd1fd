/** The admin API's list of keys, one key's status, and how long budgets last. */
import { expect, test } from "bun:test";
import type { KeySpec } from "../../src/auth/key-spec.ts";
import type { Config } from "../../src/config/config.ts";
import { runsOutAt } from "../../src/usage/budgets/forecast.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { Troupe } from "../helpers/troupe.ts";

type Json = Record<string, unknown>;
type Listed = { data: Json[]; has_more: boolean; last_id: string; total: number };

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["gateway", "admin"] },
];

async function open(clock?: ManualClock) {
  const troupe = await Troupe.start({ config: { listen }, ...(clock && { clock }) });
  const make = (spec: Partial<KeySpec> & { name: string }) =>
    troupe.server.services.keys.create({ tier: "pro", ...spec });
  const { secret: key } = await make({ name: "ops", perMinute: 1_000_000, surfaces: ["admin"] });
  const get = async <T = Json>(path: string) => {
    const answer = await troupe.fetch(`/admin/v1/${path}`, { key });
    return { status: answer.status, json: (await answer.json()) as T };
  };
  const put = (path: string, body: Json) =>
    troupe.fetch(`/admin/v1/${path}`, {
      method: "PUT",
      key,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const names = async (query: string) => (await get<Listed>(`keys?${query}`)).json.data.map(({ name }) => name);
  return { troupe, make, get, put, names, [Symbol.asyncDispose]: () => troupe[Symbol.asyncDispose]() };
}

test("keys are searched, sorted and counted", async () => {
  const clock = new ManualClock(Date.UTC(2026, 10, 22, 12));
  await using house = await open(clock);
  const { make, names, get, troupe } = house;
  const day = 86_400_000;
  const alice = await make({ name: "Alice", tags: ["team-a"], expiresAt: clock.now() + 2 * day });
  clock.advance(1000);
  const bob = await make({ name: "bob", expiresAt: clock.now() + day });
  clock.advance(1000);
  await make({ name: "carol", tags: ["Team-B"] });
  expect(await names("search=ALI")).toEqual(["Alice"]);
  expect(await names("search=team-")).toEqual(["carol", "Alice"]);
  expect(await names(`search=${alice.key.id}`)).toEqual(["Alice"]);
  expect(await names(`search=${alice.key.prefix}`)).toEqual(["Alice"]);
  expect(await names("search=nobody")).toEqual([]);
  expect(await names("sort=expires_at&order=asc&search=o")).toEqual(["bob", "carol", "ops"]);
  expect(await names("sort=name&order=asc&surface=gateway")).toEqual(["Alice", "bob", "carol", "first", "test"]);
  expect(await names("sort=name&surface=gateway")).toEqual(["test", "first", "carol", "bob", "Alice"]);
  for (const { secret } of [bob, alice]) {
    clock.advance(60_000);
    await troupe.fetch("/gateway/v1/models", { key: secret });
  }
  clock.advance(60_000);
  expect(await names("sort=last_used_at&limit=3")).toEqual(["ops", "Alice", "bob"]);
  expect((await names("sort=last_used_at&order=asc")).slice(0, 3)).toEqual(["bob", "Alice", "ops"]);
  const first = (await get<Listed>("keys?sort=name&order=asc&limit=2")).json;
  expect([first.total, first.has_more]).toEqual([6, true]);
  expect(await names(`sort=name&order=asc&limit=2&after=${first.last_id}`)).toEqual(["carol", "first"]);
  const wrong = await get("keys?sort=secret");
  expect([wrong.status, (wrong.json["error"] as Json)["param"]]).toEqual([400, "sort"]);
});

test("a key's status has its last call, its client and the budgets that hold it", async () => {
  const now = Date.UTC(2026, 10, 16);
  const clock = new ManualClock(now);
  await using house = await open(clock);
  const { make, get, put, troupe } = house;
  const { id } = (await make({ name: "alice", tags: ["team-a"] })).key;
  const path = `keys/${id}/status`;
  expect(await get(path)).toEqual({ status: 200, json: { object: "key.status", id, last_call: null, budgets: [] } });
  const { store } = troupe.server.services;
  await put(`budgets/key:${id}/month`, { dollars: 15 });
  await put("budgets/tag:team-a/prepaid", { dollars: 31 });
  await put("budgets/tag:team-b/day", { dollars: 1 });
  await put("budgets/tier:pro/day", { dollars: 0 });
  const common = { keyId: id, tags: ["team-a"], tier: "pro" };
  await store.ledger.append([
    ledgerLine("req_1", { ...common, at: now - 86_400_000, cost: 4_000_000, client: "codex" }),
    ledgerLine("req_2", { ...common, at: now - 1000, cost: 6_000_000, client: "claude-cli", model: "openai/o3" }),
    ledgerLine("req_3", { keyId: "key_other", at: now - 500, cost: 1, client: "curl" }),
  ]);
  const { json } = await get<{ last_call: Json; budgets: Json[] }>(path);
  expect(json.last_call).toEqual({
    request_id: "req_2",
    at: "2026-11-15T23:59:59.000Z",
    client: "claude-cli",
    model: "openai/o3",
    ended: "finished",
  });
  expect(json.budgets.map((budget) => [budget["id"], budget["left"], budget["state"], budget["runs_out_at"]])).toEqual([
    // 10 dollars in 15 days: 5 more last 7.5 days. 10 in the last 7, before the prepaid sum was set: 31 last 21.7 days.
    [`key:${id}/month`, 5, "ok", "2026-11-23T12:00:00.000Z"],
    ["tag:team-a/prepaid", 31, "ok", "2026-12-07T16:48:00.000Z"],
    ["tier:pro/day", 0, "spent", null],
  ]);
  const budgets = async (query: string) =>
    (await get<Listed>(`budgets?${query}`)).json.data.map((budget) => budget["id"]);
  expect(await budgets("kind=tag")).toEqual(["tag:team-a/prepaid", "tag:team-b/day"]);
  expect(await budgets("kind=tag&period=day")).toEqual(["tag:team-b/day"]);
  expect(await budgets("state=spent")).toEqual(["tier:pro/day"]);
  expect(await budgets("state=ok&limit=1&after=tag:team-a/prepaid")).toEqual(["tag:team-b/day"]);
  for (const [query, param] of [
    ["kind=team", "kind"],
    ["period=week", "period"],
    ["state=low,spent", "state"],
  ]) {
    const wrong = await get(`budgets?${query}`);
    expect([wrong.status, (wrong.json["error"] as Json)["param"]]).toEqual([400, param]);
  }
  expect((await get("keys/key_none/status")).status).toBe(404);
});

test("two thousand keys are listed and searched", async () => {
  await using house = await open();
  const { get, troupe } = house;
  await Promise.all(
    Array.from({ length: 2_000 }, (_, at) => house.make({ name: `key ${at}`, tags: [`team-${at % 20}`] })),
  );
  const found = (await get<Listed>("keys?limit=1000&sort=name")).json;
  expect([found.data.length, found.has_more, found.total]).toEqual([1000, true, 2_003]);
  expect((await get<Listed>("keys?search=team-7&limit=1")).json.total).toBe(100);
  expect(await troupe.server.services.keys.list()).toHaveLength(2_003);
});

const hour = 3_600_000;
const at = Date.UTC(2026, 10, 22, 12);

test.each<[string, Partial<Parameters<typeof runsOutAt>[0]>, number | undefined, number | undefined]>([
  ["half of a day spent 60 of 100: 8 hours are left", { spent: 60 }, undefined, at + 8 * hour],
  ["50 of 100 in half of a day last until its end", { spent: 50 }, undefined, undefined],
  ["what is reserved is not left", { spent: 60, reserved: 20 }, undefined, at + 4 * hour],
  ["nothing spent", {}, undefined, undefined],
  ["nothing left", { spent: 100 }, undefined, undefined],
  ["prepaid, 7 a week", { period: "prepaid", spent: 93 }, 7, at + 7 * 24 * hour],
  ["prepaid, at an unknown pace", { period: "prepaid", spent: 93 }, undefined, undefined],
  ["prepaid, in years", { period: "prepaid", limit: 1e15, spent: 1 }, 1, undefined],
])("forecast: %s", (_, given, recent, expected) => {
  const state = { scope: "all", span: "", period: "day" as const, limit: 100, spent: 0, reserved: 0, ...given };
  expect(runsOutAt(state, at, () => recent)).toBe(expected as number);
});

test("forecast: the first minute of a day counts as a twentieth of it", () => {
  const state = { scope: "all", span: "", period: "day" as const, limit: 100, spent: 10, reserved: 0 };
  const morning = Date.UTC(2026, 10, 22, 0, 1);
  expect(runsOutAt(state, morning, () => undefined)).toBe(morning + 9 * 1.2 * hour);
});
