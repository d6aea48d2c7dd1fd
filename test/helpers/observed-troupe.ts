/** A Troupe with everything that it tells its operator: the log's lines, the metrics page and the traces. */
import { createLogger } from "../../src/lib/process/log.ts";
import type { TelemetrySettings } from "../../src/observability/otlp/settings.ts";
import { Troupe, type TroupeOptions } from "./troupe.ts";
import { UpstreamServer } from "./upstream-server.ts";

export type Observed = {
  readonly lines: readonly string[];
  readonly metrics: string;
  /** The bodies of the OTLP messages, spans and metrics. */
  readonly telemetry: readonly string[];
};

/** @param use makes the calls; what was told of them is returned once the server has ended */
export async function observe(
  options: Omit<TroupeOptions, "log" | "telemetry">,
  use: (troupe: Troupe) => Promise<void>,
): Promise<Observed> {
  using collector = new UpstreamServer(() => new Response("{}"));
  let written = "";
  const sink = {
    write(text: string) {
      written += text;
    },
    flush: () => {},
  };
  const log = createLogger(sink, { level: "debug", pretty: false, now: () => 0 });
  const signal = (kind: string) => ({
    url: `${collector.url}/v1/${kind}`,
    headers: {},
    timeoutMs: 10_000,
    isJson: true,
  });
  const telemetry: TelemetrySettings = {
    traces: signal("traces"),
    metrics: signal("metrics"),
    resource: {},
    ratio: 1,
    followsParent: false,
    spanDelayMs: 600_000,
    maxSpans: 1_000_000,
    metricIntervalMs: 600_000,
  };
  let metrics: string;
  {
    await using troupe = await Troupe.start({ ...options, log, telemetry });
    await use(troupe);
    metrics = await (await troupe.fetch("/metrics")).text();
  }
  await log.flush();
  if (collector.requests.length === 0) throw new Error("no telemetry came");
  return {
    lines: written.split("\n").filter((line) => line !== ""),
    metrics,
    telemetry: collector.requests.map(({ text }) => text),
  };
}
