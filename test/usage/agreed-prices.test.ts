/** What independent price lists agree on is what the program bills, to the digit. */
import { expect, test } from "bun:test";
import type { Rates, UnitKind } from "../../src/facts/prices/rates.ts";
import { Prices } from "../../src/usage/prices/prices.ts";
import { tariffOf } from "../../src/usage/prices/tariff.ts";
import sheet from "../fixtures/prices/agreed.json" with { type: "json" };

const kinds: Readonly<Record<string, UnitKind>> = {
  input: "input",
  output: "output",
  cache_read: "cacheRead",
  cache_write: "cacheWrite",
  cache_write_1h: "cacheWrite1h",
};
const now = Date.parse(`${sheet.as_of}T12:00:00Z`);
const prices = new Prices([]);

/** @returns dollars per million */
function billed(id: string, place: string, at = now): number | undefined {
  const slash = id.indexOf("/");
  const [provider, model] = [id.slice(0, slash), id.slice(slash + 1)];
  const card = prices
    .find({ provider, dialect: provider, baseUrl: "", model, isLocal: false, isListed: true })
    ?.cardAt(at);
  const [, above, tier, kind] = /^(?:above (\d+) |(\S+) )?(\S+)$/.exec(place)!;
  const service = tier === undefined ? undefined : card?.serviceTiers[tier];
  if (card === undefined || (tier !== undefined && service === undefined)) return undefined;
  const factor = typeof service === "bigint" ? Number(service) / 1000 : 1;
  let rates: Rates = typeof service === "object" ? service.base : card.base;
  if (above !== undefined) rates = card.tiers.findLast((one) => Number(above) >= one.above)?.rates ?? card.base;
  const { tokens, microDollar } = tariffOf(rates);
  const found = tokens[kinds[kind!]!];
  return typeof found === "string"
    ? undefined
    : Number(((Number(found.rate.exact) / Number(microDollar.exact)) * factor).toFixed(9));
}

test("each price that two lists agree on is billed exactly", () => {
  const wrong: string[] = [];
  let judged = 0;
  for (const [id, row] of Object.entries<Readonly<Record<string, number | undefined>>>(sheet.prices)) {
    for (const [place, price] of Object.entries(row)) {
      judged += 1;
      const found = billed(id, place);
      if (found !== price) wrong.push(`${id}, ${place}: $${price}, and billed $${found}`);
    }
  }
  expect(judged).toBeGreaterThan(2000);
  expect(wrong).toEqual([]);
});

test.each([
  ["openai/gpt-6.1-sol", "priority output", 20],
  ["openai/gpt-6.1-terra", "fast input", 2],
  ["openai/gpt-6-sol", "cache_write_1h", 5],
  ["openai/gpt-6-sol", "priority cache_write_1h", 10],
  ["openai/gpt-5.6-sol", "cache_write_1h", 10],
  ["openai/gpt-6.1-sol", "ultrafast input", 12],
  ["anthropic/claude-sonnet-5-5", "cache_read", 0.1],
  ["anthropic/claude-opus-5-5", "speed_fast output", 40],
  ["anthropic/claude-opus-5-5", "batch cache_write_1h", 4],
  ["google/gemini-4-argon", "input", 2],
  ["mistral/mistral-large-4", "output", 2.1],
  ["mistral/mistral-large-4", "batch output", 1.05],
  ["xai/grok-4.7", "batch input", 1.6],
  ["alibaba/qwen3.8-max", "output", 6],
] as const)("%s, %s", (id, place, price) => {
  expect(billed(id, place, Date.UTC(2026, 10, 20))).toBe(price);
});

test("gemini-4-argon doubles on 1 December, in every tier", () => {
  const argon = prices.find({
    ...{ provider: "google", dialect: "google", baseUrl: "", model: "gemini-4-argon" },
    ...{ isLocal: false, isListed: true },
  })!;
  const rates = (time: string) => {
    const { base, serviceTiers } = argon.cardAt(Date.parse(time));
    const batch = serviceTiers["batch"];
    return [base.tokens.input, base.tokens.output, typeof batch === "object" && batch.base.tokens.output];
  };
  expect(rates("2026-11-30T23:59:59Z")).toEqual([2_000_000_000n, 10_000_000_000n, 5_000_000_000n]);
  expect(rates("2026-12-01T00:00:00Z")).toEqual([4_000_000_000n, 20_000_000_000n, 10_000_000_000n]);
  // A time before, as of a call that began earlier, is priced as it was.
  expect(rates("2026-11-30T23:59:59Z")).toEqual([2_000_000_000n, 10_000_000_000n, 5_000_000_000n]);
});
