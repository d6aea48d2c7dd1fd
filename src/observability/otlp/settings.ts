/**
 * OpenTelemetry's own variables, as far as they mean something here. Without an endpoint there is no telemetry.
 * Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */

/** How one kind is sent. */
export type SignalSettings = {
  /** The full address. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** As JSON, in place of protobuf. */
  readonly isJson: boolean;
};

export type TelemetrySettings = {
  /** Absent: that kind is not sent. */
  readonly traces?: SignalSettings;
  readonly metrics?: SignalSettings;
  /** Attributes that describe this server in everything sent. */
  readonly resource: Readonly<Record<string, string>>;
  /** The share of requests without a caller's decision that are traced. */
  readonly ratio: number;
  /** True if the decision of a caller's `traceparent` counts. */
  readonly followsParent: boolean;
  readonly spanDelayMs: number;
  readonly maxSpans: number;
  readonly metricIntervalMs: number;
};

type Environment = Readonly<Record<string, string | undefined>>;

/** @returns undefined where nothing is to be sent. @throws Error naming the variable that can't be understood */
export function telemetrySettings(env: Environment): TelemetrySettings | undefined {
  if (env["OTEL_SDK_DISABLED"]?.toLowerCase() === "true") return undefined;
  const traces = signal(env, "TRACES", "v1/traces");
  const metrics = signal(env, "METRICS", "v1/metrics");
  if (traces === undefined && metrics === undefined) return undefined;
  return {
    ...(traces !== undefined && { traces }),
    ...(metrics !== undefined && { metrics }),
    resource: {
      ...pairs(env, "OTEL_RESOURCE_ATTRIBUTES"),
      ...(env["OTEL_SERVICE_NAME"] && { "service.name": env["OTEL_SERVICE_NAME"] }),
    },
    ...sampling(env),
    spanDelayMs: count(env, "OTEL_BSP_SCHEDULE_DELAY", 5000),
    maxSpans: count(env, "OTEL_BSP_MAX_QUEUE_SIZE", 2048),
    metricIntervalMs: count(env, "OTEL_METRIC_EXPORT_INTERVAL", 60_000),
  };
}

type Kind = "TRACES" | "METRICS";

/** A kind's own variables stand above those of both; of headers each by its name. */
function signal(env: Environment, kind: Kind, path: string): SignalSettings | undefined {
  const url = endpoint(env, kind, path);
  if (url === undefined) return undefined;
  return {
    url,
    headers: { ...pairs(env, "OTEL_EXPORTER_OTLP_HEADERS"), ...pairs(env, `OTEL_EXPORTER_OTLP_${kind}_HEADERS`) },
    timeoutMs: count(env, `OTEL_EXPORTER_OTLP_${kind}_TIMEOUT`, count(env, "OTEL_EXPORTER_OTLP_TIMEOUT", 10_000)),
    isJson: protocol(env, kind) === "http/json",
  };
}

const protocols = ["http/protobuf", "http/json"];

function protocol(env: Environment, kind: Kind): string {
  for (const name of [`OTEL_EXPORTER_OTLP_${kind}_PROTOCOL`, "OTEL_EXPORTER_OTLP_PROTOCOL"]) {
    const found = env[name];
    if (!found) continue;
    if (!protocols.includes(found))
      throw new Error(`${name} knows ${protocols.join(" and ")}, not '${found.slice(0, 40)}'`);
    return found;
  }
  return protocols[0]!;
}

function endpoint(env: Environment, kind: Kind, path: string): string | undefined {
  if (env[`OTEL_${kind}_EXPORTER`] === "none") return undefined;
  const own = env[`OTEL_EXPORTER_OTLP_${kind}_ENDPOINT`];
  const base = env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  const [name, url] = own
    ? [`OTEL_EXPORTER_OTLP_${kind}_ENDPOINT`, own]
    : ["OTEL_EXPORTER_OTLP_ENDPOINT", base && `${base.replace(/\/+$/, "")}/${path}`];
  if (!url) return undefined;
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) throw new Error(`${name} must be an http(s) URL`);
  return url;
}

/** `name=value,name=value`, percent-encoded. */
function pairs(env: Environment, name: string): Record<string, string> {
  const items = (env[name] ?? "").split(",").filter((item) => item.trim() !== "");
  return Object.fromEntries(
    items.map((item) => {
      const at = item.indexOf("=");
      if (at <= 0) throw new Error(`${name} must be name=value pairs, separated by commas`);
      return [item.slice(0, at).trim(), decode(item.slice(at + 1).trim(), name)];
    }),
  );
}

function decode(text: string, name: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error(`${name} has a value that is not percent-encoded`);
  }
}

function count(env: Environment, name: string, byDefault: number): number {
  const text = env[name];
  if (!text) return byDefault;
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new Error(`${name} must be a whole number above 0`);
  return Number(text);
}

const samplers = ["always_on", "always_off", "traceidratio"];

function sampling(env: Environment): { ratio: number; followsParent: boolean } {
  const name = env["OTEL_TRACES_SAMPLER"] || "parentbased_always_on";
  const kind = name.replace(/^parentbased_/, "");
  if (!samplers.includes(kind))
    throw new Error(`OTEL_TRACES_SAMPLER knows ${samplers.join(", ")}, and parentbased_ before them`);
  const ratio = Number(env["OTEL_TRACES_SAMPLER_ARG"] || 1);
  if (!(ratio >= 0 && ratio <= 1)) throw new Error("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1");
  return {
    ratio: { always_on: 1, always_off: 0, traceidratio: ratio }[kind]!,
    followsParent: name.startsWith("parentbased_"),
  };
}
