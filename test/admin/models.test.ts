/** The admin API's list of models. */
import { expect, test } from "bun:test";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

test("models are listed with their ends, and lists with when they came or why not", async () => {
  using upstream = new UpstreamServer(({ headers }) =>
    headers.get("authorization") === "Bearer key-of-openai"
      ? jsonResponse({
          data: [
            { id: "old", shutdown_date: "2026-01-01" },
            { id: "new", context_length: 1000 },
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
