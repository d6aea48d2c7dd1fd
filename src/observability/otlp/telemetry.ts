/**
 * Traces and metrics for OpenTelemetry, sent as OTLP/JSON over HTTP. A request is recorded once, when it is over; all else
 * happens on a timer. What can't be sent is counted and forgotten: telemetry never holds a request, nor fills the memory.
 *
 * docs/decisions/telemetry.md says why this is no official package.
 * Source: https://opentelemetry.io/docs/specs/otlp/ and https://opentelemetry.io/docs/specs/semconv/gen-ai/
 */
import type { BuildInfo } from "../../build-info.ts";
import { type Clock, repeat, withTimeout } from "../../lib/clock.ts";
import type { Logger } from "../../lib/log.ts";
import type { SampledTable, Snapshot } from "../../lib/metrics.ts";
import { OnceAMinute } from "../../lib/once-a-minute.ts";
import { metricsPayload } from "./metrics.ts";
import type { TelemetrySettings } from "./settings.ts";
import { attributes, resourceOf } from "./values.ts";

/** One request, when its last byte is out. */
export type FinishedRequest = {
  /** 32 hexadecimal characters. */
  readonly id: string;
  readonly method: string;
  readonly route: string;
  readonly surface: string;
  readonly status: number;
  readonly milliseconds: number;
  /** The caller's `traceparent`. */
  readonly traceparent: string | null;
  /** From its beginning until it went upstream; undefined: it did not. */
  readonly sentAfterMs: number | undefined;
  /** The fields of the request's log line. */
  readonly logFields: Readonly<Record<string, unknown>>;
};

type TelemetryOptions = {
  readonly settings: TelemetrySettings;
  readonly build: BuildInfo;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: { snapshot(): Snapshot };
  readonly fetch?: typeof fetch;
};

/** Spans in one message. */
const maxInBatch = 512;
/** Timeout of the last messages when the server ends. */
const shutdownTimeoutMs = 2000;

type Span = Readonly<Record<string, unknown>>;

export class Telemetry {
  /** Spans and messages that were lost. */
  dropped = 0;
  readonly #options: TelemetryOptions;
  readonly #resource: unknown;
  readonly #startedAt: number;
  #spans: Span[] = [];
  readonly #stops: (() => void)[] = [];
  readonly #warnings: OnceAMinute;

  constructor(options: TelemetryOptions) {
    const { settings, build, clock } = options;
    this.#options = options;
    this.#resource = resourceOf(settings.resource, build, clock.newId());
    this.#startedAt = clock.now();
    this.#warnings = new OnceAMinute(clock);
    if (settings.tracesUrl !== undefined)
      this.#stops.push(repeat(clock, settings.spanDelayMs, () => this.#sendSpans()));
    if (settings.metricsUrl !== undefined)
      this.#stops.push(repeat(clock, settings.metricIntervalMs, () => this.#sendMetrics()));
  }

  finish(request: FinishedRequest): void {
    const { settings, clock } = this.#options;
    if (settings.tracesUrl === undefined) return;
    const context = traceContext(request, settings);
    if (context === undefined) return;
    if (this.#spans.length + 2 > settings.maxSpans) {
      this.dropped += 1;
      return;
    }
    this.#spans.push(...spansOf(request, context, clock));
  }

  /** Sends what is left. */
  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
    const sent = Promise.all([this.#sendSpans(), this.#sendMetrics()]);
    await withTimeout(this.#options.clock, sent, shutdownTimeoutMs);
  }

  async #sendSpans(): Promise<void> {
    const { tracesUrl } = this.#options.settings;
    while (tracesUrl !== undefined && this.#spans.length > 0) {
      const spans = this.#spans.slice(0, maxInBatch);
      this.#spans = this.#spans.slice(maxInBatch);
      const scopeSpans = [{ scope: { name: "troupe" }, spans }];
      await this.#post(tracesUrl, { resourceSpans: [{ resource: this.#resource, scopeSpans }] }, spans.length);
    }
  }

  async #sendMetrics(): Promise<void> {
    const { settings, metrics, clock } = this.#options;
    if (settings.metricsUrl === undefined) return;
    const payload = metricsPayload(metrics.snapshot(), { startedAt: this.#startedAt, now: clock.now() });
    const scopeMetrics = [{ scope: { name: "troupe" }, metrics: payload }];
    await this.#post(settings.metricsUrl, { resourceMetrics: [{ resource: this.#resource, scopeMetrics }] }, 1);
  }

  async #post(url: string, message: unknown, count: number): Promise<void> {
    const { settings, fetch: send = fetch } = this.#options;
    try {
      const answer = await send(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...settings.headers },
        body: JSON.stringify(message),
        signal: AbortSignal.timeout(settings.timeoutMs),
        redirect: "manual",
      });
      await answer.body?.cancel();
      if (!answer.ok) throw new Error(`status ${answer.status}`);
    } catch (error) {
      this.dropped += count;
      this.#warn(error);
    }
  }

  #warn(error: unknown): void {
    if (!this.#warnings.takes()) return;
    this.#options.log.warn("telemetry could not be sent", { error: (error as Error).message, dropped: this.dropped });
  }
}

type TraceContext = { readonly traceId: string; readonly parentSpanId: string };

/** Source: https://www.w3.org/TR/trace-context/#traceparent-header */
const traceparentForm = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

/** @returns undefined when this request is not traced */
function traceContext(
  { id, traceparent }: FinishedRequest,
  { ratio, followsParent }: TelemetrySettings,
): TraceContext | undefined {
  const [, traceId = id, parentSpanId = "", flags] = traceparentForm.exec(traceparent ?? "") ?? [];
  const isSampled =
    flags !== undefined && followsParent
      ? (Number.parseInt(flags, 16) & 1) === 1
      : Number.parseInt(traceId.slice(-8), 16) < ratio * 2 ** 32;
  return isSampled ? { traceId, parentSpanId } : undefined;
}

const kinds = { server: 2, client: 3 };
const failed = { code: 2 };

/** The request, and within it the call to the model, where there was one. */
function spansOf(request: FinishedRequest, { traceId, parentSpanId }: TraceContext, clock: Clock): Span[] {
  const { method, route, surface, status, milliseconds, logFields } = request;
  const endedAt = clock.now();
  const spanId = newSpanId(clock);
  const server = {
    traceId,
    spanId,
    parentSpanId,
    name: `${method} ${route}`,
    kind: kinds.server,
    ...between(endedAt - milliseconds, endedAt),
    attributes: attributes({
      "http.request.method": method,
      "http.route": route,
      "http.response.status_code": status,
      "error.type": status >= 500 ? String(status) : undefined,
      "troupe.surface": surface,
      "troupe.request_id": `req_${request.id}`,
      "troupe.key": logFields["key"],
    }),
    ...(status >= 500 && { status: failed }),
  };
  if (request.sentAfterMs === undefined) return [server];
  const fault = logFields["fault"] !== undefined || status >= 400;
  const call = {
    traceId,
    spanId: newSpanId(clock),
    parentSpanId: spanId,
    name: `chat ${logFields["upstream_model"]}`,
    kind: kinds.client,
    ...between(endedAt - milliseconds + (request.sentAfterMs ?? 0), endedAt),
    attributes: attributes({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": logFields["provider"],
      "gen_ai.request.model": logFields["upstream_model"],
      "gen_ai.usage.input_tokens": logFields["prompt_tokens"],
      "gen_ai.usage.output_tokens": logFields["completion_tokens"],
      "gen_ai.response.time_to_first_chunk": seconds(logFields["first_token_ms"]),
      "troupe.format": logFields["format"],
      "troupe.persona": surface === "orchestrator" ? logFields["model"] : undefined,
      "troupe.persona_version": logFields["persona_version"],
      "troupe.persona_variant": logFields["variant"],
      "troupe.stream_end": logFields["stream_end"],
      "error.type": fault ? String(logFields["upstream_status"] ?? status) : undefined,
    }),
    ...(fault && { status: failed }),
  };
  return [server, call];
}

const newSpanId = (clock: Clock) => clock.newId().slice(-16);
const seconds = (milliseconds: unknown) => (typeof milliseconds === "number" ? milliseconds / 1000 : undefined);

const between = (startedAt: number, endedAt: number) => ({
  startTimeUnixNano: nanoseconds(startedAt),
  endTimeUnixNano: nanoseconds(endedAt),
});

/** Text, as a double has not that many digits. */
const nanoseconds = (milliseconds: number) => String(BigInt(Math.round(milliseconds * 1000)) * 1000n);

export const telemetryMetrics: SampledTable<Telemetry> = {
  troupe_telemetry_dropped_total: { help: "Spans and messages lost on the way.", read: ({ dropped }) => dropped },
};
