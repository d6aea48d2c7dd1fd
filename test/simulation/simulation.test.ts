import { describe, expect, test } from "bun:test";
import { simulateLeases } from "./leases.ts";

/** Larger ones by hand: bun test/simulation/main.ts --nodes 1000 --seed 7 */
describe("calls with an id over many nodes, under faults", () => {
  test.each([1, 2, 3])(
    "seed %i: one call for each id, one answer, and nobody waits for ever",
    async (seed) => {
      const { violations, answered, upstreamCalls } = await simulateLeases({
        seed,
        nodes: 12,
        ids: 300,
        span: 120_000,
      });
      expect(violations).toEqual([]);
      expect(answered).toBeGreaterThan(300);
      expect(upstreamCalls).toBeGreaterThanOrEqual(300);
    },
    60_000,
  );

  test("one seed gives one history", async () => {
    const options = { seed: 5, nodes: 5, ids: 60, span: 30_000 };
    expect(await simulateLeases(options)).toEqual(await simulateLeases(options));
  }, 60_000);
});
