/** From what is counted to OTLP's metrics, by the names that OpenTelemetry gives them. */
import { attributes } from "./values.ts";

/** One series as the registry tells it. */
export type MetricValues = {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly values: readonly SeriesValue[];
};
type SeriesValue = {
  readonly value: number;
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number | undefined>>;
};

export type Span = { readonly startedAt: number; readonly now: number };

/** Where Prometheus' spelling can't be turned back by rule. Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/ */
const names: Readonly<Record<string, { readonly name: string; readonly unit: string }>> = {
  http_server_request_duration_seconds: { name: "http.server.request.duration", unit: "s" },
  gen_ai_server_request_duration_seconds: { name: "gen_ai.server.request.duration", unit: "s" },
  gen_ai_server_time_to_first_token_seconds: { name: "gen_ai.server.time_to_first_token", unit: "s" },
  gen_ai_client_token_usage: { name: "gen_ai.client.token.usage", unit: "{token}" },
};
const labelNames: Readonly<Record<string, string>> = {
  gen_ai_provider_name: "gen_ai.provider.name",
  gen_ai_request_model: "gen_ai.request.model",
  gen_ai_token_type: "gen_ai.token.type",
  method: "http.request.method",
  route: "http.route",
  status: "http.response.status_code",
};

const cumulative = 2;

/** Source: https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/metrics/v1/metrics.proto */
export function metricsPayload(metrics: readonly MetricValues[], span: Span): unknown[] {
  return metrics
    .filter(({ values }) => values.length > 0)
    .map(({ name, help, type, values }) => {
      const { name: plain, unit } = names[name] ?? { name, unit: name.endsWith("_seconds") ? "s" : "" };
      const known = { name: plain, description: help, unit };
      if (type === "histogram") {
        return {
          ...known,
          histogram: { aggregationTemporality: cumulative, dataPoints: histogramPoints(values, span) },
        };
      }
      const dataPoints = values.map(({ value, labels }) => ({ ...pointOf(labels, span), asDouble: value }));
      if (type !== "counter") return { ...known, gauge: { dataPoints } };
      return { ...known, sum: { aggregationTemporality: cumulative, isMonotonic: true, dataPoints } };
    });
}

function pointOf(labels: SeriesValue["labels"], { startedAt, now }: Span) {
  const renamed = Object.entries(labels).map(([name, value]) => [labelNames[name] ?? name, value]);
  return {
    attributes: attributes(Object.fromEntries(renamed)),
    startTimeUnixNano: `${startedAt}000000`,
    timeUnixNano: `${now}000000`,
  };
}

/** Prometheus' buckets hold all that is below them, OTLP's what is between them. */
function histogramPoints(values: readonly SeriesValue[], span: Span): unknown[] {
  const byLabels = Map.groupBy(values, ({ labels: { le: _, ...labels } }) => JSON.stringify(labels));
  return [...byLabels].map(([labels, series]) => {
    const buckets = series.filter(({ metricName }) => metricName?.endsWith("_bucket"));
    const of = (end: string) => series.find(({ metricName }) => metricName?.endsWith(end))?.value ?? 0;
    return {
      ...pointOf(JSON.parse(labels) as SeriesValue["labels"], span),
      count: String(of("_count")),
      sum: of("_sum"),
      explicitBounds: buckets.flatMap(({ labels: { le } }) => (typeof le === "number" ? [le] : [])),
      bucketCounts: buckets.map(({ value }, at) => String(value - (buckets[at - 1]?.value ?? 0))),
    };
  });
}
