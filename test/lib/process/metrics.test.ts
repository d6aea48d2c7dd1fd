import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Counter, Gauge, Histogram, Registry as TheirRegistry } from "prom-client";
import { Registry, type Snapshot } from "../../../src/lib/process/metrics.ts";
import { MetricsSum } from "../../../src/observability/metrics-sum.ts";
import { renderPrometheus } from "../../../src/observability/prometheus.ts";
import { parsePrometheus } from "../../helpers/prometheus.ts";

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
      ...own.declare({
        counter: { name: "c_total", help, labels: ["x", "y"] },
        gauge: { name: "g", help, labels: ["x", "y"] },
        histogram: { name: "h", help, labels: ["x", "y"], bounds },
      }),
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
  });

  test("writes numbers as Go reads them", () => {
    const registry = new Registry();
    const gauge = (value: number) => ({ help: "Help.", read: () => value });
    registry.sample(
      { up: gauge(Number.POSITIVE_INFINITY), down: gauge(Number.NEGATIVE_INFINITY), none: gauge(Number.NaN) },
      undefined,
    );
    expect(lines(renderPrometheus(registry.snapshot())).filter((line) => !line.startsWith("#"))).toEqual([
      "up +Inf",
      "down -Inf",
      "none NaN",
    ]);
  });

  const promtool = Bun.which("promtool");
  test.skipIf(promtool === null)("passes promtool", async () => {
    const { own } = twins('A "help" with \\ and\nlines.');
    own.counter.series('a"b', "c\\d\ne").add();
    own.histogram.series("x", "y").observe(2);
    const check = Bun.spawn([promtool!, "check", "metrics"], {
      stdin: new Blob([renderPrometheus(own.snapshot())]),
      stderr: "pipe",
    });
    expect({ code: await check.exited, words: await new Response(check.stderr).text() }).toMatchObject({ code: 0 });
  });
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
  });
});

describe("registering", () => {
  test("takes the type from the name, and refuses a name twice", () => {
    const registry = new Registry();
    const read = () => 1;
    registry.declare({ a: { name: "a_total", help: "Help.", labels: ["x"] } });
    registry.sample({ b_total: { help: "Help.", read }, c: { help: "Help.", read } }, undefined);
    expect(() => registry.sample({ a_total: { help: "Help.", read } }, undefined)).toThrow("twice");
    expect(registry.snapshot().map(({ name, type }) => [name, type])).toEqual([
      ["a_total", "counter"],
      ["b_total", "counter"],
      ["c", "gauge"],
    ]);
  });

  test.each([1, 2, 3, 4])(
    "%i labels have one series for each combination, whatever order they are asked in",
    (count) => {
      const labels = Array.from({ length: count }, (_, at) => `l${at}`);
      const names = fc.array(fc.constantFrom("a", "b", ""), { minLength: count, maxLength: count });
      fc.assert(
        fc.property(fc.array(names), (asked) => {
          const registry = new Registry();
          const { it } = registry.declare({ it: { name: "it", help: "Help.", labels } });
          const expected = new Map<string, number>();
          for (const one of asked) {
            it.series(...(one as [string])).add();
            expected.set(JSON.stringify(one), (expected.get(JSON.stringify(one)) ?? 0) + 1);
          }
          const found = registry
            .snapshot()[0]!
            .series.map(({ labels, value }) => [JSON.stringify(labels), value] as const);
          expect(new Map(found)).toEqual(expected);
        }),
      );
    },
  );

  test("a snapshot does not change with what is counted after it", () => {
    const registry = new Registry();
    const { histogram } = registry.declare({ histogram: { name: "h", help: "Help.", labels: ["x"], bounds } });
    histogram.series("a").observe(1);
    const snapshot = registry.snapshot();
    histogram.series("a").observe(1);
    expect(snapshot[0]!.series).toEqual([{ labels: ["a"], value: 1, counts: [1, 0, 0, 0] }]);
  });
});
