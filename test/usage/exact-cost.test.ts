/** Costs are exact sums, rounded once, whether they are added up as plain numbers or, where those end, as long integers. */
import { expect, test } from "bun:test";
import type { PriceConfig } from "../../src/config/config.ts";
import { billed, type Usage } from "../../src/protocols/chat/schema.ts";
import { cardFromConfig } from "../../src/usage/prices/configured.ts";
import { costOf } from "../../src/usage/prices/cost.ts";
import { Prices } from "../../src/usage/prices/prices.ts";
import { countedOf, noTokens } from "../../src/usage/tokens/counts.ts";
import { Random } from "../helpers/random.ts";

const random = Random.fromEnvironment("COST_SEED");

/** Dollars per million tokens, in billionths: such as people write, and such as nobody does. */
const rate = () => random.pick([0, 59, 1_250, 333_333_333, 2_500_000_000, random.below(1e9), random.below(1e17)]);
const count = () => random.pick([0, 1, 7, 999, random.below(1e4), random.below(1e9)]);
const target = {
  provider: "openai",
  model: "m",
  dialect: "openai",
  baseUrl: "https://api.openai.com/v1",
  isLocal: false,
  isListed: false,
};

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

test("the most that a call may cost is that of its dearest kind of output", () => {
  const seen = { text: 0, other: 0 };
  for (let round = 0; round < 2_000; round++) {
    const some = (name: string, value: unknown, share = 2) => (random.below(share) === 0 ? { [name]: value } : {});
    const dollars = () => random.below(1e4) / 100;
    const row = {
      match: "*",
      ...some("input", dollars()),
      ...some("output", dollars(), 1 + random.below(2)),
      ...some("audio_output", dollars(), 3),
      ...some("image_output", dollars(), 3),
      ...some("tiers", [{ above: 500, output: 7, audio_output: random.below(90) }]),
      service_tiers: { some: random.pick([0.5, { output: 3, image_output: 900 }]) },
    };
    const prices = new Prices([row as unknown as PriceConfig]);
    const [input, output, reasoning] = [
      random.below(1_000),
      random.below(1_000),
      random.pick([0, 0, random.below(99)]),
    ];
    const usage: Usage = {
      prompt_tokens: input,
      completion_tokens: output + reasoning,
      total_tokens: input + output + reasoning,
      ...(reasoning > 0 && { completion_tokens_details: { reasoning_tokens: reasoning } }),
      [billed]: { images: random.pick([0, 0, 2]), surcharges: random.pick([[], [], ["some"]]) },
    };
    const tier = random.below(3) === 0 ? "some" : undefined;
    const counted = countedOf(usage);
    const { tokens } = counted;
    const kinds = [counted, { ...counted, tokens: { ...tokens, audioOutput: tokens.output } }];
    kinds.push({ ...counted, imageOutput: tokens.output });
    if (counted.images > 0) kinds.push({ ...counted, tokens: noTokens });
    const costs = kinds.flatMap((one) => prices.price(target, one, tier, 0).cost ?? []);
    const most = costs.length === 0 ? undefined : Math.max(...costs);
    expect({ seed: random.seed, round, most: prices.bound(target, counted, tier, 0) }).toEqual({
      seed: random.seed,
      round,
      most,
    });
    if (most !== undefined) seen[most > (prices.price(target, counted, tier, 0).cost ?? 0) ? "other" : "text"] += 1;
  }
  expect(Math.min(seen.text, seen.other)).toBeGreaterThan(200);
});
