import { expect, test } from "bun:test";
import fc from "fast-check";
import { Registry, Histogram as TheirHistogram } from "prom-client";
import { Histogram } from "../../src/lib/histogram.ts";

test("says what prom-client's own would say of the same values", async () => {
  const label = fc.constantFrom("a", "b", 'quoted "c"');
  const value = fc.oneof(fc.constantFrom(0, 1, 2.5, 10), fc.double({ min: 0, max: 20, noNaN: true }));
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(label, label, value)), async (observed) => {
      const [own, theirs] = [new Registry(), new Registry()];
      const bounds = [1, 2.5, 10];
      const histogram = new Histogram("h", "Help.", ["x", "y"], bounds);
      own.registerMetric(histogram as never);
      const reference = new TheirHistogram({
        name: "h",
        help: "Help.",
        labelNames: ["x", "y"],
        buckets: bounds,
        registers: [theirs],
      });
      for (const [x, y, number] of observed) {
        histogram.series(x, y).observe(number);
        reference.labels(x, y).observe(number);
      }
      const lines = async (registry: Registry) => (await registry.metrics()).trim().split("\n").sort();
      expect(await lines(own)).toEqual(await lines(theirs));
    }),
  );
});
