import { describe, expect, test } from "bun:test";
import { buildInfo } from "../../../src/build-info.ts";
import { declareHttpMetrics, RouteSeries } from "../../../src/call/settle/metrics.ts";
import { Metrics } from "../../../src/observability/metrics.ts";
import { type TelemetrySettings, telemetrySettings } from "../../../src/observability/otlp/settings.ts";
import { Telemetry } from "../../../src/observability/otlp/telemetry.ts";
import type { FinishedRequest, TracedRequest } from "../../../src/observability/otlp/trace.ts";
import type { AnswerTold, AttemptTarget } from "../../../src/usage/attempt.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
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

const json = { OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" };

const id = "0123456789abcdef0123456789abcdef";
const asked: TracedRequest = {
  ...{ id, answerId: `chatcmpl-${id}`, traceparent: null },
  ...{ route: "/v1/chat/completions", conversation: undefined },
};
const finished: FinishedRequest = {
  ...{ id: `req_${id}`, method: "POST", scheme: "https", route: "/v1/chat/completions" },
  ...{ surface: "orchestrator", status: 200 },
  ...{ endedAt: 1_700_000_000_000, milliseconds: 1500, logFields: { key: "key_1" } },
};
const target: AttemptTarget = {
  ...{ provider: "openai", dialect: "openai", baseUrl: "", model: "gpt-x", isLocal: false, isListed: true },
};
const line = ledgerLine(`req_${id}`, {
  ...{ at: 1_699_999_998_502, totalMs: 1498, firstTokenMs: 400, provider: "openai", upstreamModel: "gpt-x" },
  ...{ persona: "troupe/guide", cost: 1250, tokens: { ...ledgerLine("x").tokens, input: 12, output: 34 } },
});

/** A collector that takes everything, and the telemetry that it is sent. */
function collecting(env: Record<string, string> = {}, answer = () => new Response("{}")) {
  const collector = new UpstreamServer(answer);
  const clock = new ManualClock();
  const settings = telemetrySettings({ OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`, ...json, ...env })!;
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

/** Records a request with one attempt. */
function record({ telemetry }: { readonly telemetry: Telemetry }, of: Partial<TracedRequest> = {}, changes = {}): void {
  const trace = telemetry.trace({ ...asked, ...of });
  trace?.attempt(target).ended(ledgerLine(line.requestId, { ...line, ...changes }));
  trace?.finish(finished);
}

describe("a traced request", () => {
  test("is a server's span and, within it, each attempt at a model by the GenAI conventions", async () => {
    using it = collecting();
    const trace = it.telemetry.trace({ ...asked, conversation: "session-7" })!;
    const failed = trace.attempt({ ...target, model: "m-1" });
    failed.ended({
      ...ledgerLine(line.requestId, { at: line.at - 100, totalMs: 90, provider: "first", upstreamModel: "m-1" }),
      ...{ ended: "broken", failure: "rate_limit", errorCode: "rate_limit_exceeded", status: 429, counted: "none" },
      ...{ cost: 0, firstTokenMs: null },
    });
    const attempt = trace.attempt(target);
    attempt.told({ finishReasons: ["stop"] });
    attempt.told({ id: "resp_1" } satisfies AnswerTold);
    trace.finish(finished);
    // An estimate may end an attempt's line behind the request.
    attempt.ended({ ...line, attempt: 2, upstreamModel: "gpt-x-mini" });
    await it.telemetry.close();
    const [first, server, second] = it.spans();
    expect(server).toMatchObject({ name: "POST /v1/chat/completions", kind: 2, traceId: id, parentSpanId: "" });
    expect(valuesOf(server!.attributes)).toEqual({
      "http.request.method": "POST",
      "url.scheme": "https",
      "http.route": "/v1/chat/completions",
      "http.response.status_code": "200",
      "troupe.surface": "orchestrator",
      "troupe.request_id": `req_${id}`,
      "troupe.key": "key_1",
    });
    expect(first).toMatchObject({ name: "chat m-1", kind: 3, parentSpanId: server!.spanId, status: { code: 2 } });
    expect(valuesOf(first!.attributes)).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "first",
      "gen_ai.request.model": "m-1",
      "gen_ai.response.id": `chatcmpl-${id}`,
      "gen_ai.conversation.id": "session-7",
      "gen_ai.usage.cost": 0,
      "troupe.format": "chat",
      "troupe.upstream_format": "chat",
      "troupe.ended": "broken",
      "troupe.attempt": "1",
      "error.type": "rate_limit_exceeded",
      "troupe.failure": "rate_limit",
    });
    expect(second).toMatchObject({ name: "chat gpt-x-mini", kind: 3, traceId: id, parentSpanId: server!.spanId });
    expect(second!.status).toBeUndefined();
    const finishReasons = second!.attributes.find(({ key }) => key === "gen_ai.response.finish_reasons")!;
    expect(finishReasons.value).toEqual({ arrayValue: { values: [{ stringValue: "stop" }] } });
    expect(valuesOf(second!.attributes)).toMatchObject({
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "gpt-x",
      "gen_ai.response.model": "gpt-x-mini",
      "gen_ai.response.id": "resp_1",
      "gen_ai.response.time_to_first_chunk": 0.4,
      "gen_ai.usage.input_tokens": "12",
      "gen_ai.usage.output_tokens": "34",
      "gen_ai.usage.cache_read.input_tokens": "40",
      "gen_ai.usage.cache_creation.input_tokens": "8",
      "gen_ai.usage.reasoning.output_tokens": "7",
      "gen_ai.usage.cost": 0.00125,
      "troupe.persona": "troupe/guide",
      "troupe.attempt": "2",
    });
    expect(server!.spanId).toMatch(/^[0-9a-f]{16}$/);
    expect(new Set([first, server, second].map((span) => span!.spanId)).size).toBe(3);
    expect(server!.endTimeUnixNano).toBe("1700000000000000000");
    expect(server!.startTimeUnixNano).toBe("1699999998500000000");
    expect([second!.startTimeUnixNano, second!.endTimeUnixNano]).toEqual([
      "1699999998502000000",
      "1700000000000000000",
    ]);
  });

  test("a call of a tool is a span of its own; what asked nobody has none", async () => {
    using it = collecting();
    const trace = it.telemetry.trace(asked)!;
    const tool = { provider: "mcp:files", upstreamModel: "files_read", counted: "none", cost: 0 } as const;
    trace.attempt({ ...target, dialect: "mcp" }).ended({
      ...ledgerLine(line.requestId, { ...tool, ended: "broken", status: 504, errorCode: "timeout" }),
    });
    trace.attempt(undefined).ended(ledgerLine(line.requestId, { provider: null, ended: "refused" }));
    trace.attempt(target).ended(ledgerLine(line.requestId, { ended: "replayed" }));
    await it.telemetry.close();
    expect(it.spans().map(({ name }) => name)).toEqual(["execute_tool files_read"]);
    expect(valuesOf(it.spans()[0]!.attributes)).toEqual({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "files_read",
      "gen_ai.tool.type": "extension",
      "troupe.mcp_server": "files",
      "troupe.ended": "broken",
      "troupe.attempt": "1",
      "error.type": "timeout",
    });
  });

  test.each([
    [{ status: 503, logFields: {} }, "503", true],
    [{ status: 429, logFields: { failure: "rate_limit_exceeded" } }, "rate_limit_exceeded", false],
    [{ status: 401, logFields: {} }, "401", false],
    [{ status: 200, logFields: { fault: "upstream_invalid_response", failure_reason: "broken" } }, "broken", true],
    // Words are nobody's code.
    [{ status: 502, logFields: { failure: "the upstream said something odd" } }, "502", true],
    [{ status: 200, logFields: { fault: "The answer broke off." } }, "broken", true],
  ])("%j says its error by a code", async (changes, type, isFault) => {
    using it = collecting();
    it.telemetry.trace(asked)!.finish({ ...finished, ...changes });
    await it.telemetry.close();
    expect(valuesOf(it.spans()[0]!.attributes)["error.type"]).toBe(type);
    expect(it.spans()[0]!.status).toEqual(isFault ? { code: 2 } : undefined);
  });

  test.each([
    ["/gateway/v1/chat/completions", "chat"],
    ["/v1/completions", "text_completion"],
    ["/gateway/v1/embeddings", "embeddings"],
    ["/gateway/v1beta/models/:call", "chat"],
    ["/gateway/v1/images/generations", "generate_content"],
    ["/v1/messages", "chat"],
  ])("%s is the operation %s", async (route, operation) => {
    using it = collecting();
    record(it, { route });
    await it.telemetry.close();
    expect(it.spans()[0]!.name).toBe(`${operation} gpt-x`);
  });

  test("continues the caller's trace, and follows its decision", async () => {
    using it = collecting();
    const traceId = "a".repeat(32);
    record(it, { traceparent: `00-${traceId}-${"b".repeat(16)}-01` });
    record(it, { traceparent: `00-${"c".repeat(32)}-${"b".repeat(16)}-00` });
    record(it, { traceparent: "00-nonsense" });
    await it.telemetry.close();
    const servers = it.spans().filter(({ kind }) => kind === 2);
    expect(servers.map((span) => [span.traceId, span.parentSpanId])).toEqual([
      [traceId, "b".repeat(16)],
      [id, ""],
    ]);
  });

  test("is one of a share by its id, where a ratio is set", async () => {
    using it = collecting({ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.25" });
    const ids = ["00000000", "3fffffff", "40000000", "ffffffff"].map((end) => `${"1".repeat(24)}${end}`);
    for (const one of ids) record(it, { id: one });
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
    record(it);
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
    for (let time = 0; time < 5; time += 1) record(it);
    expect(it.telemetry.dropped).toBe(6);
    await it.telemetry.close();
    expect(it.telemetry.dropped).toBe(10);
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
    record({ telemetry });
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
    // As Prometheus has it, so that the shipped alerts and panels hold either way.
    status: "200",
    "http.response.status_code": "200",
  });
  expect(point!.count).toBe("2");
  expect(point!.sum).toBeCloseTo(0.22);
  expect(point!.bucketCounts!.map(Number).reduce((sum, count) => sum + count)).toBe(2);
  expect(point!.bucketCounts).toHaveLength(point!.explicitBounds!.length + 1);

  const used = named("gen_ai.client.token.usage");
  expect(used.unit).toBe("{token}");
  expect(valuesOf(used.histogram!.dataPoints[0]!.attributes)).toEqual({
    "gen_ai.token.type": "input",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-x",
    "gen_ai.operation.name": "chat",
  });
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

  test("a kind's own protocol, headers and time stand above those of both", () => {
    const found = settings({
      ...{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318", OTEL_EXPORTER_OTLP_HEADERS: "a=1,b=2" },
      ...{ OTEL_EXPORTER_OTLP_TRACES_HEADERS: "b=3,x-mlflow-experiment-id=0", OTEL_EXPORTER_OTLP_TIMEOUT: "7" },
      ...{ OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "http/json", OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: "9" },
    })!;
    expect(found.traces).toEqual({
      ...{ url: "http://c:4318/v1/traces", timeoutMs: 7, isJson: false },
      headers: { a: "1", b: "3", "x-mlflow-experiment-id": "0" },
    });
    expect(found.metrics).toEqual({
      ...{ url: "http://c:4318/v1/metrics", timeoutMs: 9, isJson: true },
      headers: { a: "1", b: "2" },
    });
  });

  test("an endpoint of one kind stands as it is; the common one gets its path", () => {
    const found = settings({
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318/base",
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://t.example/x",
    })!;
    expect(found.traces!.url).toBe("https://t.example/x");
    expect(found.metrics!.url).toBe("http://c:4318/base/v1/metrics");
  });

  test.each([
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "novalue"],
    ["OTEL_EXPORTER_OTLP_TIMEOUT", "soon"],
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"],
    ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/xml"],
    ["OTEL_EXPORTER_OTLP_METRICS_HEADERS", "novalue"],
    ["OTEL_TRACES_SAMPLER", "sometimes"],
    ["OTEL_TRACES_SAMPLER_ARG", "2"],
  ])("%s=%s is told by its name", (name, value) => {
    expect(() => settings({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318", [name]: value })).toThrow(name);
  });
});
