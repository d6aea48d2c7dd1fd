/**
 * The cost of what one call observes: five histograms of four labels, by our registry and by prom-client.
 * Run: `bun test/bench/metrics.ts`
 */
import { Histogram, Registry as TheirRegistry } from "prom-client";
import { Registry } from "../../src/lib/process/metrics.ts";

const bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const labelNames = ["surface", "provider", "model", "status"];
const names = ["a", "b", "c", "d", "e"];
const models = ["gpt-5.4", "gpt-5.4-mini", "claude-sonnet-5", "gemini-3.8-flash"];

const own = new Registry();
const owns = names.map((name) => own.declare({ it: { name, help: "Help.", labels: labelNames, bounds } }).it);
const kept = new Map(models.map((model) => [model, owns.map((one) => one.series("gateway", "openai", model, "200"))]));
const registers = [new TheirRegistry()];
const theirs = names.map((name) => new Histogram({ name, help: "Help.", labelNames, buckets: bounds, registers }));

const ways: Record<string, (model: string) => void> = {
  "own registry, series kept": (model) => {
    for (const one of kept.get(model)!) one.observe(0.42);
  },
  "own registry": (model) => {
    for (const one of owns) one.series("gateway", "openai", model, "200").observe(0.42);
  },
  "prom-client, labels as an object": (model) => {
    for (const one of theirs) one.observe({ surface: "gateway", provider: "openai", model, status: "200" }, 0.42);
  },
  "prom-client, labels(…)": (model) => {
    for (const one of theirs) one.labels("gateway", "openai", model, "200").observe(0.42);
  },
};

const calls = 200_000;
for (let round = 0; round < 5; round += 1) {
  for (const [way, observe] of Object.entries(ways)) {
    const startedAt = Bun.nanoseconds();
    for (let call = 0; call < calls; call += 1) observe(models[call & 3]!);
    const microseconds = (Bun.nanoseconds() - startedAt) / calls / 1000;
    console.log(`${way}: ${microseconds.toFixed(2)} µs per call`);
  }
}
