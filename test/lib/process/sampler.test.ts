import { expect, test } from "bun:test";
import { Sampler } from "../../../src/lib/process/sampler.ts";

test.each([
  [0, 0],
  [0.1, 100],
  [0.25, 250],
  [0.999, 999],
  [1, 1000],
])("a share of %p takes %p of a thousand", (share, expected) => {
  const shown = new Sampler();
  const taken = Array.from({ length: 1000 }, () => shown.takes(share));
  expect(Math.abs(taken.filter(Boolean).length - expected)).toBeLessThanOrEqual(1);
});

test("they are evenly spread", () => {
  const shown = new Sampler();
  expect(Array.from({ length: 8 }, () => shown.takes(0.25))).toEqual([
    false,
    false,
    false,
    true,
    false,
    false,
    false,
    true,
  ]);
});
