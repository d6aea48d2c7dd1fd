/** A snapshot of the metrics in OTLP's form, by the names that OpenTelemetry gives them. */
import type { Family, Series, Snapshot } from "../../lib/process/metrics.ts";
import { attributes } from "./values.ts";

type Span = { readonly startedAt: number; readonly now: number };

/** Names whose Prometheus spelling can't be turned back by rule. Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/ */
const names: Readonly<Record<string, { readonly name: string; readonly unit: string }>> = {
  http_server_request_duration_seconds: { name: "http.server.request.duration", unit: "s" },
  gen_ai_server_request_duration_seconds: { name: "gen_ai.server.request.duration", unit: "s" },
  gen_ai_server_time_to_first_token_seconds: { name: "gen_ai.server.time_to_first_token", unit: "s" },
  gen_ai_client_token_usage: { name: "gen_ai.client.token.usage", unit: "{token}" },
};
const labelNames: Readonly<Record<string, string>> = {
  gen_ai_operation_name: "gen_ai.operation.name",
  gen_ai_provider_name: "gen_ai.provider.name",
  gen_ai_request_model: "gen_ai.request.model",
  gen_ai_token_type: "gen_ai.token.type",
  method: "http.request.method",
  route: "http.route",
};
/** Beside its own name, by which alerts and dashboards ask, whichever way the metric came. */
const statusName = "http.response.status_code";

const aggregationTemporality = 2; // cumulative

/** Source: https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/metrics/v1/metrics.proto */
export function metricsPayload(snapshot: Snapshot, span: Span): unknown[] {
  return snapshot
    .filter(({ series }) => series.length > 0)
    .map((family) => {
      const { name, help: description, type, series } = family;
      const known = names[name] ?? { name, unit: name.endsWith("_seconds") ? "s" : "" };
      const dataPoints = series.map((one) => pointOf(family, one, span));
      switch (type) {
        case "histogram":
          return { ...known, description, histogram: { aggregationTemporality, dataPoints } };
        case "counter":
          return { ...known, description, sum: { aggregationTemporality, isMonotonic: true, dataPoints } };
        default:
          return { ...known, description, gauge: { dataPoints } };
      }
    });
}

function pointOf(family: Family, { labels, value, counts }: Series, { startedAt, now }: Span) {
  const named = family.labelNames.map((name, at) => [labelNames[name] ?? name, labels[at]]);
  const status = family.labelNames.indexOf("status");
  if (status >= 0) named.push([statusName, labels[status]]);
  const point = {
    attributes: attributes(Object.fromEntries(named)),
    startTimeUnixNano: `${startedAt}000000`,
    timeUnixNano: `${now}000000`,
  };
  if (counts === undefined) return { ...point, asDouble: value };
  return {
    ...point,
    count: String(counts.reduce((sum, count) => sum + count, 0)),
    sum: value,
    explicitBounds: family.bounds,
    bucketCounts: counts.map(String),
  };
}
