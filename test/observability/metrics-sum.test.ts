import { expect, test } from "bun:test";
import { declareHttpMetrics } from "../../src/call/settle/metrics.ts";
import type { Snapshot } from "../../src/lib/process/metrics.ts";
import { Metrics } from "../../src/observability/metrics.ts";
import { MetricsSum } from "../../src/observability/metrics-sum.ts";

const build = { version: "1", commit: "c" };
/** What a snapshot is after its way through a pipe. */
const travelled = (metrics: Metrics) => JSON.parse(JSON.stringify(metrics.snapshot())) as Snapshot;

const numberIn = (text: string, line: string) =>
  text
    .split("\n")
    .find((one) => one.startsWith(`${line} `))
    ?.slice(line.length + 1);

test("processes count as one, and one that ends takes nothing back but what it held", () => {
  const sum = new MetricsSum();
  const workers = [new Metrics(build), new Metrics(build)];
  for (const [at, metrics] of workers.entries()) {
    const counted = declareHttpMetrics(metrics);
    counted.requests.series("gateway", "/r", "GET", "200").observe(0.02);
    counted.requests.series("gateway", "/r", "GET", "200").observe(100);
    counted.rateLimited.series("gateway", "free").add();
    counted.streams.series("gateway").add();
    metrics.sample({ store: { help: "Size.", aggregate: "max", read: () => 70 + at } }, undefined);
    sum.keep(at, travelled(metrics));
  }
  const own = new Metrics(build);
  const render = () => sum.render(own.snapshot());
  const requests = '{surface="gateway",route="/r",method="GET",status="200"}';
  const bucket =
    'http_server_request_duration_seconds_bucket{le="0.025",surface="gateway",route="/r",method="GET",status="200"}';
  const before = render();
  expect(numberIn(before, `http_server_request_duration_seconds_count${requests}`)).toBe("4");
  expect(numberIn(before, bucket)).toBe("2");
  expect(numberIn(before, 'troupe_rate_limit_refusals_total{surface="gateway",tier="free"}')).toBe("2");
  expect(numberIn(before, 'troupe_active_streams{surface="gateway"}')).toBe("2");
  expect(numberIn(before, "store")).toBe("71");
  expect(numberIn(before, 'troupe_build_info{version="1",commit="c"}')).toBe("1");
  expect(before).toContain("# TYPE http_server_request_duration_seconds histogram");
  const started = Number(numberIn(before, "process_start_time_seconds"));
  expect(Math.abs(started - Date.now() / 1000)).toBeLessThan(60);

  for (const worker of [0, 1]) sum.retire(worker);
  const after = render();
  expect(numberIn(after, `http_server_request_duration_seconds_count${requests}`)).toBe("4");
  expect(numberIn(after, `http_server_request_duration_seconds_sum${requests}`)).toBe("200.04");
  expect(numberIn(after, 'troupe_rate_limit_refusals_total{surface="gateway",tier="free"}')).toBe("2");
  expect(numberIn(after, 'troupe_active_streams{surface="gateway"}')).toBeUndefined();
  const cpu = (text: string) => Number(numberIn(text, "process_cpu_seconds_total"));
  expect(cpu(after)).toBeGreaterThanOrEqual(cpu(before));

  const next = new Metrics(build);
  declareHttpMetrics(next).requests.series("gateway", "/r", "GET", "200").observe(0.02);
  sum.keep(0, travelled(next));
  expect(numberIn(render(), bucket)).toBe("3");
});
