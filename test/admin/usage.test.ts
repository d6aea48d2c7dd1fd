/** Sums over the ledger by the admin API: as a spreadsheet's file, and how new they are. */
import { expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const now = Date.now();
const today = new Date(now).toISOString().slice(0, 10);

const troupe = untilEnd(await Troupe.start({ config: { listen } }));
const key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
await troupe.server.services.store.ledger.append([
  ledgerLine("req_1", { at: now - 5_000, model: "=HYPERLINK(1)", cost: 1_234_567, costs: null }),
  ledgerLine("req_2", { at: now - 4_000, model: 'a,"b"', cost: null, costs: null, priceSource: "unknown" }),
  ledgerLine("req_3", { at: now - 3_000, model: "+1", cost: 1, costs: null }),
  ledgerLine("req_4", { at: now - 2_000, model: "-1", cost: 2, costs: null }),
  ledgerLine("req_5", { at: now - 1_000, model: "@sum", cost: 3, costs: null }),
]);

const ask = (query: string) => troupe.fetch(`/admin/v1/usage?${query}`, { key });

test("CSV has a row for each group, with quotes where they are needed and no formulas", async () => {
  const answer = await ask("format=csv&by=model&since=2d");
  expect(answer.status).toBe(200);
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    "content-type": "text/csv; charset=utf-8",
    "content-disposition": expect.stringMatching(/^attachment; filename="troupe-usage_[\d-]{10}_[\d-]{10}\.csv"$/),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  const counts = "1,1,0,0,0,0,0,0,100,40,5,3,20,7,2,1";
  expect(await answer.text()).toBe(
    [
      "model,calls,finished,broken,abandoned,interrupted,refused,replayed,joined,input_tokens,cache_read_tokens,cache_write_5m_tokens,cache_write_1h_tokens,output_tokens,reasoning_tokens,audio_input_tokens,audio_output_tokens,cost_dollars,unknown_cost_calls,estimated_calls",
      `'+1,${counts},0.000001,0,0`,
      `'-1,${counts},0.000002,0,0`,
      `'=HYPERLINK(1),${counts},1.234567,0,0`,
      `'@sum,${counts},0.000003,0,0`,
      `"a,""b""",${counts},0.000000,1,0`,
      "",
    ].join("\r\n"),
  );
});

test("a wrong question for CSV is an error with its parameter", async () => {
  for (const [query, param] of [
    ["format=xls", "format"],
    ["format=csv&by=week", "by"],
    ["format=csv&since=never", "since"],
  ] as const) {
    const answer = await ask(query);
    expect([answer.status, ((await answer.json()) as { error: { param: string } }).error.param]).toEqual([400, param]);
  }
});

test("CSV of very many rows comes in pieces, all of them", async () => {
  await using many = await Troupe.start({ config: { listen } });
  const own = await many.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
  const lines = Array.from({ length: 12_000 }, (_, at) =>
    ledgerLine(`req_${at}`, { at: now - 5_000, model: `m/${String(at).padStart(5, "0")}` }),
  );
  // As the ledger's writer has them: what is compared within a batch grows with its square.
  for (let at = 0; at < lines.length; at += 500)
    await many.server.services.store.ledger.append(lines.slice(at, at + 500));
  const answer = await many.fetch("/admin/v1/usage?format=csv&by=model", { key: own });
  const rows = (await answer.text()).split("\r\n");
  expect(rows).toHaveLength(12_002);
  expect(rows.at(-2)).toStartWith("m/11999,1,");
});

test("several keys are asked for by their ids", async () => {
  await using three = await Troupe.start({ config: { listen } });
  const own = await three.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
  const lines = ["key_0a", "key_0b", "key_0c", "user:x,y"].map((keyId, at) =>
    ledgerLine(`req_${at}`, { at: now - 5_000, keyId, cost: 10 ** at, costs: null }),
  );
  await three.server.services.store.ledger.append(lines);
  const costs = async (query: string) => {
    const answer = await three.fetch(`/admin/v1/usage?by=key&${query}`, { key: own });
    const { data } = (await answer.json()) as { data: { key: string; cost_micro_dollars: number }[] };
    return data.map(({ key, cost_micro_dollars: cost }) => [key, cost]);
  };
  expect(await costs("key=key_0a,key_0c,key_0d")).toEqual([
    ["key_0a", 1],
    ["key_0c", 100],
  ]);
  expect(await costs("key=key_0b")).toEqual([["key_0b", 10]]);
  expect(await costs("key=user:x,y")).toEqual([["user:x,y", 1000]]);
});

test("the costliest rows come alone, with the sum of all", async () => {
  const page = (await (await ask("by=model&since=2d&top=2")).json()) as Record<string, unknown> & {
    data: Record<string, unknown>[];
  };
  expect(page.data.map(({ model, cost_micro_dollars }) => [model, cost_micro_dollars])).toEqual([
    ["=HYPERLINK(1)", 1_234_567],
    ["@sum", 3],
  ]);
  expect(page).toMatchObject({ rows: 5, has_more: true, next: null, total: { cost_micro_dollars: 1_234_573 } });
  const all = (await (await ask("by=model&top=10")).json()) as { data: object[]; rows: number; has_more: boolean };
  expect([all.data.length, all.rows, all.has_more]).toEqual([5, 5, false]);
  expect((await ask("top=0")).status).toBe(400);
});

test("times to the first token come as quantiles, for each row and for all", async () => {
  const page = (await (await ask("by=model&first_token=true&since=2d")).json()) as {
    data: { model: string; first_token_ms: object }[];
    total: { first_token_ms: object };
  };
  // All took 12 ms: of the first span, up to 50 ms, no more is known.
  expect(page.total.first_token_ms).toEqual({ calls: 5, p50: 25, p95: 48, p99: 50 });
  expect(page.data[0]!.first_token_ms).toEqual({ calls: 1, p50: 25, p95: 48, p99: 50 });
  const without = (await (await ask("by=model")).json()) as { total: object };
  expect(without.total).not.toHaveProperty("first_token_ms");
  expect((await ask("first_token=yes")).status).toBe(400);
});

test("calls of unknown cost are found by their price's source, and sums are taken by it", async () => {
  const listOf = async (path: string) =>
    ((await (await troupe.fetch(`/admin/v1/${path}`, { key })).json()) as { data: Record<string, unknown>[] }).data;
  expect((await listOf("calls?price_source=unknown")).map((call) => call["request_id"])).toEqual(["req_2"]);
  const sums = await listOf("usage?by=price_source");
  expect(sums.map((sum) => [sum["price_source"], sum["calls"], sum["unknown_cost_calls"]])).toEqual([
    ["list", 4, 0],
    ["unknown", 1, 1],
  ]);
  expect((await ask("price_source=guess")).status).toBe(400);
});

test("sums say how new and how old what they count can be", async () => {
  const page = (await (await ask("by=day")).json()) as { data: { day: string }[]; ledger: object };
  expect(page.data.at(-1)!.day).toBe(today);
  expect(page.ledger).toEqual({
    newest_call_at: new Date(now - 1_000).toISOString(),
    lines_waiting: 0,
    lag_seconds: 0,
    retention_days: 400,
  });
});

test("rows by how calls ended say it", async () => {
  const rows = async (by: string) => {
    const { data } = (await (await ask(`by=${by}&since=2d`)).json()) as { data: Record<string, unknown>[] };
    return data.map((row) => [row["ended"], row["calls"]]);
  };
  expect(await rows("ended")).toEqual([["finished", 5]]);
  expect((await rows("day"))[0]).toEqual([expect.objectContaining({ finished: 5, refused: 0 }), 5]);
});
