import { expect, test } from "bun:test";
import { firstTokenBounds } from "../../src/api/words.ts";

import { firstTokensOf } from "../../src/usage/first-token.ts";
import { testSeed } from "../helpers/seed.ts";

const counted = (times: readonly number[]) => {
  const counts = [...firstTokenBounds, 0].map(() => 0);
  for (const ms of times) {
    const span = firstTokenBounds.findIndex((bound) => ms <= bound);
    counts[span === -1 ? firstTokenBounds.length : span]! += 1;
  }
  return counts;
};

test("bounds are at most half as long again as one another", () => {
  for (const [at, bound] of firstTokenBounds.slice(1).entries()) {
    expect(bound / firstTokenBounds[at]!).toBeGreaterThan(1);
    expect(bound / firstTokenBounds[at]!).toBeLessThanOrEqual(1.5);
  }
});

test("without a call nothing is known", () => {
  expect(firstTokensOf(counted([]))).toEqual({ calls: 0, p50: null, p95: null, p99: null });
});

test("beyond the last bound that bound is given", () => {
  expect(firstTokensOf(counted([200_000]))).toEqual({ calls: 1, p50: 102_400, p95: 102_400, p99: 102_400 });
});

test("quantiles are in the span of the exact ones", () => {
  let state = testSeed + 1;
  const random = () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
  for (let turn = 0; turn < 50; turn += 1) {
    const times = Array.from({ length: 1 + Math.floor(random() * 2_000) }, () =>
      Math.round(60 * Math.exp(random() * 6)),
    );
    const sorted = times.toSorted((a, b) => a - b);
    const found = firstTokensOf(counted(times));
    for (const [share, value] of [
      [0.5, found.p50],
      [0.95, found.p95],
      [0.99, found.p99],
    ] as const) {
      const exact = sorted[Math.ceil(share * sorted.length) - 1]!;
      expect(value! / exact).toBeGreaterThan(1 / 1.51);
      expect(value! / exact).toBeLessThan(1.51);
    }
  }
});
