import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Counter, Gauge, Histogram, Registry as TheirRegistry } from "prom-client";
import { MetricsSum } from "../../src/observability/metrics-sum.ts";
import { renderPrometheus } from "../../src/observability/prometheus.ts";
import { Registry, type Snapshot } from "../../src/observability/registry.ts";
import { parsePrometheus } from "../helpers/prometheus.ts";

const bounds = [1, 2.5, 10];
const text = fc.string({ unit: fc.constantFrom("a", "é", " ", '"', "\\", "\n", "{", "}", ",", "=", "\\n") });
const amount = fc.oneof(fc.constantFrom(0, 1, 2.5, 10, 1e-7, 1e21), fc.double({ min: 0, max: 20, noNaN: true }));
const event = fc.record({ worker: fc.nat(2), x: text, y: text, amount });
const lines = (rendered: string) => rendered.split("\n").filter((line) => line !== "");

/** The same three metrics in our registry and in prom-client's. */
function twins(help: string) {
  const own = new Registry();
  const theirs = new TheirRegistry();
  const spec = { help, labelNames: ["x", "y"], registers: [theirs] };
  return {
    own: {
      snapshot: () => own.snapshot(),
      counter: own.counter("c_total", help, ["x", "y"]),
      gauge: own.gauge("g", help, ["x", "y"]),
      histogram: own.histogram("h", help, ["x", "y"], bounds),
    },
    theirs: {
      registry: theirs,
      counter: new Counter({ name: "c_total", ...spec }),
      gauge: new Gauge({ name: "g", ...spec }),
      histogram: new Histogram({ name: "h", buckets: bounds, ...spec }),
    },
  };
}

const withHelp = fc.tuple(
  text.map((help) => `Help ${help}`),
  fc.array(event, { maxLength: 40 }),
);

describe("the text format", () => {
  test("is what prom-client writes of the same values, and what a strict reader takes", async () => {
    await fc.assert(
      fc.asyncProperty(withHelp, async ([help, events]) => {
        const { own, theirs } = twins(help);
        for (const { x, y, amount } of events) {
          own.counter.series(x, y).add(amount);
          own.gauge.series(x, y).add(-amount);
          own.histogram.series(x, y).observe(amount);
          theirs.counter.labels(x, y).inc(amount);
          theirs.gauge.labels(x, y).dec(amount);
          theirs.histogram.labels(x, y).observe(amount);
        }
        const rendered = renderPrometheus(own.snapshot());
        expect(lines(rendered).sort()).toEqual(lines(await theirs.registry.metrics()).sort());
        const families = parsePrometheus(rendered);
        for (const { x, y } of events) {
          expect(
            families.get("c_total")!.samples.some(({ labels }) => labels["x"] === x && labels["y"] === y),
          ).toBeTrue();
        }
      }),
    );
  }, 60_000);

  test("writes numbers as Go reads them", () => {
    const registry = new Registry();
    registry.sample("gauge", "up", "Help.", () => Number.POSITIVE_INFINITY);
    registry.sample("gauge", "down", "Help.", () => Number.NEGATIVE_INFINITY);
    registry.sample("gauge", "none", "Help.", () => Number.NaN);
    expect(lines(renderPrometheus(registry.snapshot())).filter((line) => !line.startsWith("#"))).toEqual([
      "up +Inf",
      "down -Inf",
      "none NaN",
    ]);
  });

  const promtool = Bun.which("promtool");
  test.skipIf(promtool === null)(
    "passes promtool",
    async () => {
      const { own } = twins('A "help" with \\ and\nlines.');
      own.counter.series('a"b', "c\\d\ne").add();
      own.histogram.series("x", "y").observe(2);
      const check = Bun.spawn([promtool!, "check", "metrics"], {
        stdin: new Blob([renderPrometheus(own.snapshot())]),
        stderr: "pipe",
      });
      expect({ code: await check.exited, words: await new Response(check.stderr).text() }).toMatchObject({ code: 0 });
    },
    60_000,
  );
});

describe("several workers", () => {
  const travelled = (snapshot: Snapshot) => JSON.parse(JSON.stringify(snapshot)) as Snapshot;
  /** Observes whole numbers: their sums don't depend on the order. */
  const observe = (
    one: ReturnType<typeof twins>["own"],
    { x, y, amount }: { x: string; y: string; amount: number },
  ) => {
    one.counter.series(x, y).add(Math.round(amount));
    one.histogram.series(x, y).observe(Math.round(amount));
  };

  test("are summed to what one process would have counted, whoever of them has ended", () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 40 }), fc.subarray([0, 1, 2]), (events, ended) => {
        const one = twins("Help.").own;
        const workers = [0, 1, 2].map(() => twins("Help.").own);
        for (const each of events) {
          observe(one, each);
          observe(workers[each.worker]!, each);
        }
        const sum = new MetricsSum();
        for (const [at, worker] of workers.entries()) sum.keep(at, travelled(worker.snapshot()));
        for (const at of ended) sum.retire(at);
        expect(lines(sum.render(twins("Help.").own.snapshot())).sort()).toEqual(
          lines(renderPrometheus(one.snapshot())).sort(),
        );
      }),
    );
  }, 60_000);
});

describe("registering", () => {
  test("refuses a name twice, a counter without _total, and _total for anything else", () => {
    const registry = new Registry();
    registry.counter("a_total", "Help.", ["x"]);
    expect(() => registry.gauge("b_total", "Help.", ["x"])).toThrow("_total");
    expect(() => registry.sample("counter", "c", "Help.", () => 1)).toThrow("_total");
    expect(() => registry.counter("a_total", "Help.", ["x"])).toThrow("twice");
    expect(registry.snapshot().map(({ name }) => name)).toEqual(["a_total"]);
  });

  test("a snapshot does not change with what is counted after it", () => {
    const registry = new Registry();
    const histogram = registry.histogram("h", "Help.", ["x"], bounds);
    histogram.series("a").observe(1);
    const snapshot = registry.snapshot();
    histogram.series("a").observe(1);
    expect(snapshot[0]!.series).toEqual([{ labels: ["a"], value: 1, counts: [1, 0, 0, 0] }]);
  });
});
