/** The admin API's list of models. */
import { expect, test } from "bun:test";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

test("models are listed with their ends, and lists with when they came or why not", async () => {
  using upstream = new UpstreamServer(({ headers }) =>
    headers.get("authorization") === "Bearer key-of-openai"
      ? jsonResponse({
          data: [
            { id: "old", shutdown_date: "2026-01-01" },
            { id: "new", context_length: 1000, input_modalities: ["text", "image"] },
            { id: "far", shutdown_date: "2199-01-01" },
          ],
        })
      : jsonResponse({ error: "key-of-groq" }, 403),
  );
  await using troupe = await Troupe.start({
    providers: { openai: { baseUrl: upstream.url }, groq: { baseUrl: upstream.url, models: ["a"] } },
    config: { listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["gateway", "admin"] }] },
  });
  await troupe.server.services.modelLists.refresh();
  const { secret: key } = await troupe.server.services.keys.create({
    ...{ name: "admin", tier: "pro", surfaces: ["admin"] as const },
  });
  const ask = async (query: string) => {
    const answer = await troupe.fetch(`/admin/v1/models${query}`, { key });
    return { status: answer.status, json: (await answer.json()) as { data: { id: string; end_state: string }[] } };
  };
  const states = async (query: string) => (await ask(query)).json.data.map(({ id, end_state }) => [id, end_state]);
  expect(await states("?provider=openai")).toEqual([
    ["openai/old", "ended"],
    ["openai/new", null as never],
    ["openai/far", "later"],
  ]);
  expect(await states("?has=vision")).toEqual([["openai/new", null as never]]);
  expect((await ask("?has=wings")).status).toBe(400);
  expect(await states("?ending=true")).toEqual([["openai/old", "ended"]]);
  expect(await states("?limit=1&after=openai/old")).toEqual([["openai/new", null as never]]);
  expect((await ask("")).json).toMatchObject({
    object: "list",
    has_more: false,
    lists: [
      { provider: "openai", listed_at: expect.any(String), models: 3, failure: null },
      { provider: "groq", listed_at: null, models: 0, failure: "it answers with the status 403" },
    ],
  });
  expect((await ask("?after=nothing")).status).toBe(404);
  expect((await ask("?ending=maybe")).status).toBe(400);
  expect((await troupe.fetch("/admin/v1/models")).status).toBe(403);
});

test("models in use whose end is announced are listed with how often they were called, also those of no list", async () => {
  using upstream = new UpstreamServer(() => jsonResponse({ data: [{ id: "far", shutdown_date: "2199-01-01" }] }));
  await using troupe = await Troupe.start({
    providers: { openai: { baseUrl: upstream.url }, anthropic: { baseUrl: "http://127.0.0.1:9" } },
    config: { listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["gateway", "admin"] }] },
  });
  const { modelLists, store, keys } = troupe.server.services;
  await modelLists.refresh();
  const at = Date.now() - 1_000;
  const called = (provider: string, upstreamModel: string, before = 0) =>
    ledgerLine(`req_${Bun.randomUUIDv7().replaceAll("-", "")}`, { at: at - before, provider, upstreamModel });
  await store.ledger.append([
    ...[called("openai", "far"), called("openai", "none"), called("gone", "claude-3-haiku")],
    ...[called("anthropic", "claude-3-haiku"), called("anthropic", "claude-3-haiku")],
    called("anthropic", "claude-opus-4", 9 * 86_400_000),
  ]);
  const { secret: key } = await keys.create({ ...{ name: "admin", tier: "pro", surfaces: ["admin"] as const } });
  const ask = async (query: string) =>
    (await (await troupe.fetch(`/admin/v1/models/ending${query}`, { key })).json()) as {
      data: object[];
      has_more: boolean;
    };
  const haiku = {
    object: "model.ending",
    id: "anthropic/claude-3-haiku",
    provider: "anthropic",
    model: "claude-3-haiku",
    shutdown_date: "2026-04-20",
    end_state: "ended",
    calls: 2,
  };
  expect((await ask("")).data).toEqual([
    haiku,
    {
      ...{ object: "model.ending", id: "openai/far", provider: "openai", model: "far" },
      ...{ shutdown_date: "2199-01-01", end_state: "later", calls: 1 },
    },
  ]);
  expect(await ask("?limit=1")).toMatchObject({ data: [haiku], has_more: true });
});
