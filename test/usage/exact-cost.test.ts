/** Costs are exact sums, rounded once, whether they are added up as plain numbers or, where those end, as long integers. */
import { expect, test } from "bun:test";
import { billed, type Usage } from "../../src/protocols/chat/schema.ts";
import { countedOf } from "../../src/usage/counts.ts";
import { cardFromConfig } from "../../src/usage/prices/configured.ts";
import { costOf } from "../../src/usage/prices/cost.ts";
import { Random } from "../helpers/random.ts";

const random = Random.fromEnvironment("COST_SEED");

/** Dollars per million tokens, in billionths: such as people write, and such as nobody does. */
const rate = () => random.pick([0, 59, 1_250, 333_333_333, 2_500_000_000, random.below(1e9), random.below(1e17)]);
const count = () => random.pick([0, 1, 7, 999, random.below(1e4), random.below(1e9)]);

test("any counts by any rates", () => {
  let large = 0;
  for (let round = 0; round < 5_000; round++) {
    const [input, cacheRead, output, reasoning, image] = [rate(), rate(), rate(), rate(), random.below(1e4)];
    const factor = random.pick([1_000, 500, 1_750, 333]);
    const card = cardFromConfig({
      match: "*",
      input: input / 1e9,
      cache_read: cacheRead / 1e9,
      output: output / 1e9,
      reasoning: reasoning / 1e9,
      image: image / 1e6,
      service_tiers: { some: factor / 1000 },
    });
    const [plain, cached, spoken, thought, images] = [count(), count(), count(), count(), random.below(9)];
    // As many as are counted at most.
    if (plain + cached > 1e9 || spoken + thought > 1e9) continue;
    const usage: Usage = {
      prompt_tokens: plain + cached,
      completion_tokens: spoken + thought,
      total_tokens: plain + cached + spoken + thought,
      prompt_tokens_details: { cached_tokens: cached },
      completion_tokens_details: { reasoning_tokens: thought },
      [billed]: { images },
    };
    const cost = costOf(countedOf(usage), card, factor === 1_000 ? undefined : "some");
    if (typeof cost === "string") throw new Error(cost);

    const terms = [
      [plain, input],
      [cached, cacheRead],
      [spoken, output],
      [thought, reasoning],
      [images * 1e6, image * 1e3],
    ] as const;
    const sum = terms.reduce((all, [times, each]) => all + BigInt(times) * BigInt(Math.round((each / 1e9) * 1e9)), 0n);
    const unit = 1_000_000_000_000n;
    const total = (sum * BigInt(factor) + unit / 2n) / unit;
    expect({ seed: random.seed, round, total: cost.total }).toEqual({ seed: random.seed, round, total: Number(total) });
    const parts = Object.values(cost.parts);
    // In a plain number a billionth of a micro-dollar has no place beyond this.
    if (sum > BigInt(Number.MAX_SAFE_INTEGER)) large += 1;
    if (total < BigInt(Number.MAX_SAFE_INTEGER)) expect(parts.reduce((all, one) => all + one, 0)).toBe(cost.total);
  }
  expect(large).toBeGreaterThan(100);
});

test("what rounding leaves goes to the part that lost most by it", () => {
  const card = cardFromConfig({ match: "*", input: 0.3, output: 0.4, cache_read: 0.9 });
  const usage: Usage = {
    prompt_tokens: 2,
    completion_tokens: 1,
    total_tokens: 3,
    prompt_tokens_details: { cached_tokens: 1 },
  };
  // 0.3 + 0.9 + 0.4 = 1.6
  expect(costOf(countedOf(usage), card, undefined)).toMatchObject({
    total: 2,
    parts: { input: 0, cacheRead: 1, output: 1 },
  });
});

test("calls of text alone cost what they cost among all others", () => {
  for (let round = 0; round < 5_000; round++) {
    const card = cardFromConfig({ match: "*", input: rate() / 1e9, output: rate() / 1e9 });
    // With a price of nothing for each call all kinds are summed up.
    const summed = { ...card, base: { ...card.base, request: 0n } };
    const usage: Usage = { prompt_tokens: count(), completion_tokens: count(), total_tokens: 0 };
    const counted = countedOf(usage);
    expect(counted).toEqual(countedOf({ ...usage, prompt_tokens_details: {} }));
    const found = { seed: random.seed, round, usage, cost: costOf(counted, card, undefined) };
    expect(found).toEqual({ ...found, cost: costOf(counted, summed, undefined) });
  }
});
