/** Traces in the servers that people look at them with, and read by OpenTelemetry's own code. */
import { describe, expect, test } from "bun:test";
import { dirname, join } from "node:path";
import { telemetrySettings } from "../../src/observability/otlp/settings.ts";
import { freePort } from "../helpers/free-port.ts";
import { isLongForm } from "../helpers/long-form.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";
import { lacksPython, type PythonPackage, python } from "./installed.ts";

/** Makes one call of a server that sends its telemetry there. @returns the call's trace id */
async function callTraced(env: Record<string, string>): Promise<string> {
  await using troupe = await Troupe.start({ telemetry: telemetrySettings(env)! });
  const body = { model: "builtin/echo", messages: [{ role: "user", content: "blue" }] };
  const answer = await troupe.post("/gateway/v1/chat/completions", body, { headers: { "x-session-id": "talk-1" } });
  expect(answer.status).toBe(200);
  await answer.text();
  return answer.headers.get("x-request-id")!.slice("req_".length);
}

const tool = (name: string) => join(dirname(Bun.which(python!) ?? python!), name);

/** Starts a server, and ends it behind the use. Nothing but its own answer says that it is ready. */
async function served(
  command: readonly string[],
  env: Record<string, string>,
  ready: string,
  use: () => Promise<void>,
) {
  const child = Bun.spawn([...command], { stdout: "ignore", stderr: "ignore", env: { ...process.env, ...env } });
  try {
    for (;;) {
      const isReady = await fetch(ready, { signal: AbortSignal.timeout(2_000) }).then(
        ({ ok }) => ok,
        () => false,
      );
      if (isReady) break;
      if (child.exitCode !== null) throw new Error(`${command[0]} ended with ${child.exitCode}`);
      await Bun.sleep(200);
    }
    await use();
  } finally {
    child.kill();
    await child.exited;
  }
}

function suite(name: PythonPackage, define: () => void): void {
  const lack = lacksPython(name) ?? (isLongForm ? undefined : "the long form asks it");
  describe.skipIf(lack !== undefined)(lack === undefined ? name : `${name}: ${lack}`, define);
}

suite("opentelemetry.proto", () => {
  test("reads spans and metrics, every number as it is in the JSON form", async () => {
    const received = new Map<string, unknown>();
    const read = async (env: Record<string, string>) => {
      using collector = new UpstreamServer(() => new Response(""));
      await callTraced({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...env });
      return collector.requests;
    };
    for (const { path, bytes } of await read({})) {
      const kind = path.endsWith("traces") ? "trace" : "metrics";
      const type = kind === "trace" ? "ExportTraceServiceRequest" : "ExportMetricsServiceRequest";
      const script = `
import sys, json
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.${kind}.v1.${kind}_service_pb2 import ${type}
message = ${type}()
message.ParseFromString(sys.stdin.buffer.read())
print(json.dumps(MessageToDict(message)))`;
      const child = Bun.spawn([python!, "-c", script], { stdin: Buffer.from(bytes), stdout: "pipe" });
      received.set(path, JSON.parse(await child.stdout.text()));
    }
    const json = await read({ OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" });
    const shapes = (value: unknown): string =>
      JSON.stringify(value, (key, one) => (/Nano$|^(traceId|spanId|parentSpanId)$/.test(key) ? key : one)).replace(
        /\d+(\.\d+)?/g,
        "0",
      );
    expect([...received.keys()].sort()).toEqual(["/v1/metrics", "/v1/traces"]);
    const named = (value: unknown) => new Set(shapes(value).match(/"(?:name|key|unit)":"[^"]+"/g));
    for (const { path, json: sent } of json) expect(named(received.get(path))).toEqual(named(sent));
  });
});

suite("phoenix", () => {
  test("shows the call to the model as one, with its tokens and its session", async () => {
    using folder = new TempFolder();
    const [port, grpc] = [freePort(), freePort()];
    const url = `http://127.0.0.1:${port}`;
    const env = { PHOENIX_WORKING_DIR: folder.path, PHOENIX_PORT: String(port), PHOENIX_GRPC_PORT: String(grpc) };
    await served([tool("phoenix"), "serve"], env, `${url}/`, async () => {
      const traceId = await callTraced({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${url}/v1/traces` });
      type Shown = {
        name: string;
        span_kind: string;
        context: { trace_id: string };
        attributes: Record<string, unknown>;
      };
      let shown: Shown[] = [];
      // It answers before it has stored them.
      while (shown.length < 2) {
        const { data } = (await (await fetch(`${url}/v1/projects/default/spans?limit=10`)).json()) as { data: Shown[] };
        shown = data.filter(({ context }) => context.trace_id === traceId);
      }
      const call = shown.find(({ span_kind }) => span_kind === "LLM")!;
      expect(call.name).toBe("chat echo");
      expect(call.attributes).toMatchObject({
        ...{ "llm.model_name": "echo", "session.id": "talk-1", "llm.finish_reason": "stop", "gen_ai.usage.cost": 0 },
        "llm.token_count.total": expect.any(Number),
      });
    });
  });
});

suite("mlflow", () => {
  test("shows the trace with its session and its tokens", async () => {
    using folder = new TempFolder();
    const port = freePort();
    const url = `http://127.0.0.1:${port}`;
    const command = [tool("mlflow"), "server", "--host", "127.0.0.1", "--port", String(port), "--workers", "1"];
    const store = ["--backend-store-uri", `sqlite:///${folder.file("ml.db")}`, "--artifacts-destination", folder.path];
    await served([...command, ...store], {}, `${url}/health`, async () => {
      const traceId = await callTraced({
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${url}/v1/traces`,
        OTEL_EXPORTER_OTLP_TRACES_HEADERS: "x-mlflow-experiment-id=0",
      });
      const body = { locations: [{ type: "MLFLOW_EXPERIMENT", mlflow_experiment: { experiment_id: "0" } }] };
      type Shown = { trace_id: string; trace_metadata: Record<string, string> };
      let trace: Shown | undefined;
      // It answers before it has stored them.
      while (trace === undefined) {
        const asked = await fetch(`${url}/api/3.0/mlflow/traces/search`, {
          ...{ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) },
        });
        const text = await asked.text();
        if (!asked.ok) throw new Error(`${asked.status}: ${text}`);
        const { traces = [] } = JSON.parse(text) as { traces?: Shown[] };
        trace = traces.find(({ trace_id }) => trace_id === `tr-${traceId}`);
      }
      expect(trace.trace_metadata["mlflow.trace.session"]).toBe("talk-1");
      expect(JSON.parse(trace.trace_metadata["mlflow.trace.tokenUsage"]!)).toMatchObject({
        total_tokens: expect.any(Number),
      });
    });
  });
});
