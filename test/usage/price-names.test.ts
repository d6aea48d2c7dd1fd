/** Which row of a list a name is billed by, and when a row's price begins. */
import { expect, test } from "bun:test";
import { compiledList, PriceList } from "../../src/facts/prices/list.ts";
import type { Match } from "../../src/facts/prices/listed.ts";
import { Prices } from "../../src/usage/prices/prices.ts";
import { noTokens } from "../../src/usage/tokens/counts.ts";

const now = Date.UTC(2026, 10, 22);
const only = (match: Match, prices: object = { input_mtok: 1, output_mtok: 2 }) =>
  new PriceList(
    JSON.stringify({
      as_of: "2026-11-01",
      providers: [{ id: "p", api: "^$p", fallbacks: [], models: [{ id: "found", match, prices }] }],
    }),
  );

test.each([
  "claude-sonnet-5-5",
  "claude-sonnet-5.5",
  "claude-sonnet-5-5-20261101",
  "claude-sonnet-50",
  "claude-sonnet-5-70b",
  "claude-sonnet-5@5",
  "CLAUDE-SONNET-5-6",
])("no row of claude-sonnet-5 prices %s", (name) => {
  for (const match of [
    { starts_with: "claude-sonnet-5" },
    { contains: "sonnet-5" },
    { regex: "^claude-sonnet-5-\\d" },
    { or: [{ and: [{ starts_with: "claude" }, { contains: "sonnet-5" }] }] },
  ]) {
    expect(only(match).find("p", "", name)).toBeUndefined();
  }
});

test.each([
  ...["", "-20250807", "-2025-08-07", "-2508", "-0613", "@20260101", "-001", "-preview", "-preview-05-20", "@default"],
  ...["-08-2024", "-250807", ":1m", "[1m]", "-20250929-v1:0", "-v1:0"],
])("a row of a model prices its name with '%s' behind it", (suffix) => {
  expect(only({ starts_with: "claude-sonnet-5" }).find("p", "", `claude-sonnet-5${suffix}`)?.model).toBe("found");
  expect(only({ contains: "sonnet-5" }).find("p", "", `us.claude-sonnet-5${suffix}`)?.model).toBe("found");
});

test("a row may end within a date", () => {
  const list = only({ starts_with: "claude-sonnet-4-2025" });
  expect(list.find("p", "", "claude-sonnet-4-20250514")?.model).toBe("found");
  expect(list.find("p", "", "claude-sonnet-4-20259999")).toBeUndefined();
  expect(only({ regex: "^gemini-4-argon-\\d" }).find("p", "", "gemini-4-argon-001")?.model).toBe("found");
});

/** A model with the numbers of another model. */
const next = /^(.*[a-z]-)(\d+)((?:[-.]\d+)?)$/;

test("no model of the list gives its price to the next number of its line", () => {
  let judged = 0;
  for (const { id: provider, models } of compiledList.content.providers) {
    for (const { id } of models) {
      const [, line, number, more] = next.exec(id) ?? [];
      if (line === undefined) continue;
      for (const name of [`${line}${number}${more}-97`, `${line}${number}${more}.97`, `${line}${number}97`]) {
        expect([name, compiledList.find(provider, "", name)?.model]).toEqual([name, undefined]);
        judged++;
      }
    }
  }
  expect(judged).toBeGreaterThan(300);
});

test("a price begins at midnight UTC of the day that the list says", () => {
  const list = only({ equals: "gemini-4-argon" }, [
    { prices: { input_mtok: 2, cache_read_mtok: 0.1, output_mtok: 10 } },
    {
      constraint: { type: "start_date", start_date: "2026-12-01" },
      prices: { input_mtok: 4, cache_read_mtok: 0.2, output_mtok: 20 },
    },
  ]);
  const target = { provider: "p", dialect: "p", baseUrl: "", model: "gemini-4-argon", isLocal: false, isListed: true };
  const prices = new Prices([], list);
  const counted = {
    tokens: { ...noTokens, input: 100_000, cacheRead: 40_000, output: 1000 },
    audioCacheRead: 0,
    imageInput: 0,
    imageOutput: 0,
    images: 0,
    audioSeconds: 0,
    tools: {},
    surcharges: [],
    cost: undefined,
  };
  const costAt = (time: string) => prices.price(target, counted, undefined, Date.parse(time)).cost;
  expect(costAt("2026-11-30T23:59:59.999Z")).toBe(60_000 * 2 + 4000 + 10_000);
  expect(costAt("2026-12-01T00:00:00Z")).toBe(2 * (60_000 * 2 + 4000 + 10_000));
});

test.each([
  ["anthropic", "claude-opus-5"],
  ["anthropic", "claude-haiku-4-5"],
  ["bedrock", "us.anthropic.claude-sonnet-4-6"],
  ["bedrock", "global.anthropic.claude-opus-5-5"],
  ["vertex", "claude-opus-4-8"],
  ["vertex", "claude-3-opus"],
  ["foundry", "claude-opus-5"],
  ["openrouter", "anthropic/claude-opus-4.5"],
])("what Claude keeps for an hour costs twice its input: %s/%s", (provider, model) => {
  const target = { provider, dialect: provider, baseUrl: "", model, isLocal: false, isListed: true };
  const { input, cacheWrite, cacheWrite1h } = new Prices([]).find(target)!.cardAt(now).base.tokens;
  expect([cacheWrite1h, cacheWrite! * 4n]).toEqual([input! * 2n, input! * 5n]);
});
