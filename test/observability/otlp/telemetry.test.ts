import { describe, expect, test } from "bun:test";
import { buildInfo } from "../../../src/build-info.ts";
import { declareHttpMetrics, RouteSeries } from "../../../src/http/metrics.ts";
import { Metrics } from "../../../src/observability/metrics.ts";
import { type TelemetrySettings, telemetrySettings } from "../../../src/observability/otlp/settings.ts";
import { type FinishedRequest, Telemetry } from "../../../src/observability/otlp/telemetry.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { silentLogger } from "../../helpers/silent-logger.ts";
import { UpstreamServer } from "../../helpers/upstream-server.ts";

type Attributes = { key: string; value: Record<string, unknown> }[];
type Span = {
  traceId: string;
  spanId: string;
  parentSpanId: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: Attributes;
  status?: { code: number };
};

const valuesOf = (attributes: Attributes) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

const request: FinishedRequest = {
  id: "0123456789abcdef0123456789abcdef",
  method: "POST",
  route: "/v1/chat/completions",
  surface: "orchestrator",
  status: 200,
  milliseconds: 1500,
  traceparent: null,
  sentAfterMs: 2,
  logFields: {
    model: "troupe/guide",
    provider: "openai",
    upstream_model: "gpt-x",
    prompt_tokens: 12,
    completion_tokens: 34,
    first_token_ms: 400,
    key: "key_1",
  },
};

/** A collector that takes everything, and the telemetry that it is sent. */
function collecting(env: Record<string, string> = {}, answer = () => new Response("{}")) {
  const collector = new UpstreamServer(answer);
  const clock = new ManualClock();
  const settings = telemetrySettings({ OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`, ...env })!;
  const metrics = new Metrics(buildInfo);
  const telemetry = new Telemetry({ settings, build: buildInfo, clock, log: silentLogger, metrics });
  const spans = () =>
    collector.requests
      .filter(({ path }) => path === "/v1/traces")
      .flatMap(
        ({ json }) =>
          (json as { resourceSpans: [{ scopeSpans: [{ spans: Span[] }] }] }).resourceSpans[0].scopeSpans[0].spans,
      );
  return { collector, clock, metrics, telemetry, spans, [Symbol.dispose]: () => collector[Symbol.dispose]() };
}

describe("a finished request", () => {
  test("becomes a server's span and, within it, the call to the model by the GenAI conventions", async () => {
    using it = collecting();
    it.telemetry.finish(request);
    await it.telemetry.close();
    const [server, call] = it.spans();
    expect(server).toMatchObject({ name: "POST /v1/chat/completions", kind: 2, traceId: request.id, parentSpanId: "" });
    expect(valuesOf(server!.attributes)).toMatchObject({
      "http.request.method": "POST",
      "http.route": "/v1/chat/completions",
      "http.response.status_code": "200",
      "troupe.request_id": `req_${request.id}`,
    });
    expect(call).toMatchObject({ name: "chat gpt-x", kind: 3, traceId: request.id, parentSpanId: server!.spanId });
    expect(valuesOf(call!.attributes)).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "gpt-x",
      "gen_ai.usage.input_tokens": "12",
      "gen_ai.usage.output_tokens": "34",
      "gen_ai.response.time_to_first_chunk": 0.4,
      "troupe.persona": "troupe/guide",
    });
    expect(server!.spanId).toMatch(/^[0-9a-f]{16}$/);
    expect(server!.endTimeUnixNano).toBe("1700000000000000000");
    expect(server!.startTimeUnixNano).toBe("1699999998500000000");
    expect(call!.startTimeUnixNano).toBe("1699999998502000000");
  });

  test("that failed says so; one that never went upstream has no call", async () => {
    using it = collecting();
    it.telemetry.finish({ ...request, status: 503, sentAfterMs: undefined });
    await it.telemetry.close();
    expect(it.spans()).toHaveLength(1);
    expect(it.spans()[0]!.status).toEqual({ code: 2 });
    expect(valuesOf(it.spans()[0]!.attributes)["error.type"]).toBe("503");
  });

  test("continues the caller's trace, and follows its decision", async () => {
    using it = collecting();
    const traceId = "a".repeat(32);
    it.telemetry.finish({ ...request, traceparent: `00-${traceId}-${"b".repeat(16)}-01` });
    it.telemetry.finish({ ...request, traceparent: `00-${"c".repeat(32)}-${"b".repeat(16)}-00` });
    it.telemetry.finish({ ...request, traceparent: "00-nonsense" });
    await it.telemetry.close();
    const servers = it.spans().filter(({ kind }) => kind === 2);
    expect(servers.map((span) => [span.traceId, span.parentSpanId])).toEqual([
      [traceId, "b".repeat(16)],
      [request.id, ""],
    ]);
  });

  test("is one of a share by its id, where a ratio is set", async () => {
    using it = collecting({ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.25" });
    const ids = ["00000000", "3fffffff", "40000000", "ffffffff"].map((end) => `${"1".repeat(24)}${end}`);
    for (const id of ids) it.telemetry.finish({ ...request, id });
    await it.telemetry.close();
    expect(new Set(it.spans().map(({ traceId }) => traceId))).toEqual(new Set(ids.slice(0, 2)));
  });
});

describe("sending", () => {
  test("happens on a timer, with the operator's headers and description", async () => {
    using it = collecting({
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Basic%20abc,x-tenant=one",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test",
      OTEL_SERVICE_NAME: "my-troupe",
      OTEL_METRICS_EXPORTER: "none",
    });
    it.telemetry.finish(request);
    it.clock.advance(4999);
    expect(it.collector.requests).toHaveLength(0);
    it.clock.advance(1);
    await it.collector.received(1);
    const { headers, json, path } = it.collector.last;
    expect(path).toBe("/v1/traces");
    expect(headers.get("authorization")).toBe("Basic abc");
    expect(headers.get("x-tenant")).toBe("one");
    const { resource } = (json as { resourceSpans: [{ resource: { attributes: Attributes } }] }).resourceSpans[0];
    expect(valuesOf(resource.attributes)).toMatchObject({
      "service.name": "my-troupe",
      "service.version": buildInfo.version,
      "deployment.environment.name": "test",
    });
    await it.telemetry.close();
    expect(it.collector.requests).toHaveLength(1);
  });

  test("what is too much, or can't be sent, is counted and forgotten", async () => {
    using it = collecting(
      { OTEL_BSP_MAX_QUEUE_SIZE: "4", OTEL_METRICS_EXPORTER: "none" },
      () => new Response("", { status: 500 }),
    );
    for (let time = 0; time < 5; time += 1) it.telemetry.finish(request);
    expect(it.telemetry.dropped).toBe(3);
    await it.telemetry.close();
    expect(it.telemetry.dropped).toBe(7);
  });

  test("a collector that is not there is no fault of the server", async () => {
    const settings = telemetrySettings({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" })!;
    const telemetry = new Telemetry({
      settings,
      build: buildInfo,
      clock: new ManualClock(),
      log: silentLogger,
      metrics: new Metrics(buildInfo),
    });
    telemetry.finish(request);
    await telemetry.close();
    expect(telemetry.dropped).toBe(3);
  });
});

test("metrics go by OpenTelemetry's names and units, histograms with their buckets apart", async () => {
  using it = collecting({ OTEL_TRACES_EXPORTER: "none" });
  const counted = declareHttpMetrics(it.metrics);
  const route = new RouteSeries(counted, "gateway", "/v1/models", "chat");
  route.request("GET", 200, 0.02);
  route.request("GET", 200, 0.2);
  route.model("openai", "gpt-x").usage({ prompt_tokens: 12, completion_tokens: 3, total_tokens: 15 });
  counted.upstreamErrors.series("openai", "500").add();
  counted.streams.series("gateway").add();
  await it.telemetry.close();
  type Point = {
    attributes: Attributes;
    count?: string;
    sum?: number;
    bucketCounts?: string[];
    explicitBounds?: number[];
    asDouble?: number;
  };
  type Metric = {
    name: string;
    unit: string;
    histogram?: { dataPoints: Point[] };
    sum?: { isMonotonic: boolean; dataPoints: Point[] };
    gauge?: { dataPoints: Point[] };
  };
  const { metrics } = (it.collector.last.json as { resourceMetrics: [{ scopeMetrics: [{ metrics: Metric[] }] }] })
    .resourceMetrics[0].scopeMetrics[0];
  const named = (name: string) => metrics.find((metric) => metric.name === name)!;

  const duration = named("http.server.request.duration");
  expect(duration.unit).toBe("s");
  const [point] = duration.histogram!.dataPoints;
  expect(valuesOf(point!.attributes)).toEqual({
    surface: "gateway",
    "http.route": "/v1/models",
    "http.request.method": "GET",
    "http.response.status_code": "200",
  });
  expect(point!.count).toBe("2");
  expect(point!.sum).toBeCloseTo(0.22);
  expect(point!.bucketCounts!.map(Number).reduce((sum, count) => sum + count)).toBe(2);
  expect(point!.bucketCounts).toHaveLength(point!.explicitBounds!.length + 1);

  expect(named("gen_ai.client.token.usage").unit).toBe("{token}");
  expect(named("troupe_upstream_errors_total").sum).toMatchObject({ isMonotonic: true });
  expect(named("troupe_active_streams").gauge!.dataPoints[0]!.asDouble).toBe(1);
});

describe("the variables", () => {
  const settings = (env: Record<string, string>): TelemetrySettings | undefined => telemetrySettings(env);

  test.each([{}, { OTEL_SERVICE_NAME: "x" }, { OTEL_EXPORTER_OTLP_ENDPOINT: "" }])("%j turn nothing on", (env) => {
    expect(settings(env as Record<string, string>)).toBeUndefined();
  });

  test("OTEL_SDK_DISABLED turns all off", () => {
    expect(settings({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318", OTEL_SDK_DISABLED: "true" })).toBeUndefined();
  });

  test("an endpoint of one kind stands as it is; the common one gets its path", () => {
    const found = settings({
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318/base",
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://t.example/x",
    })!;
    expect(found.tracesUrl).toBe("https://t.example/x");
    expect(found.metricsUrl).toBe("http://c:4318/base/v1/metrics");
  });

  test.each([
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "novalue"],
    ["OTEL_EXPORTER_OTLP_TIMEOUT", "soon"],
    ["OTEL_TRACES_SAMPLER", "sometimes"],
    ["OTEL_TRACES_SAMPLER_ARG", "2"],
  ])("%s=%s is told by its name", (name, value) => {
    expect(() => settings({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318", [name]: value })).toThrow(name);
  });
});
