/**
 * Traces and metrics for OpenTelemetry, sent by OTLP over HTTP. A request is recorded when it is over, and so is each of its attempts; all
 * else happens on a timer. What can't be sent is counted and forgotten: telemetry never holds a request, nor fills the memory.
 *
 * docs/decisions/telemetry.md says why this is no official package.
 * Source: https://opentelemetry.io/docs/specs/otlp/ and https://opentelemetry.io/docs/specs/semconv/gen-ai/
 */
import type { BuildInfo } from "../../build-info.ts";
import type { Logger } from "../../lib/process/log.ts";
import type { SampledTable, Snapshot } from "../../lib/process/metrics.ts";
import { type Clock, repeat, withTimeout } from "../../lib/time/clock.ts";
import { OnceAMinute } from "../../lib/time/once-a-minute.ts";
import { metricsPayload } from "./metrics.ts";
import { protobufOf } from "./protobuf.ts";
import type { SignalSettings, TelemetrySettings } from "./settings.ts";
import { RequestTrace, type Span, type TracedRequest, type TraceParent } from "./trace.ts";
import { resourceOf } from "./values.ts";

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
    if (settings.traces !== undefined) this.#stops.push(repeat(clock, settings.spanDelayMs, () => this.#sendSpans()));
    if (settings.metrics !== undefined)
      this.#stops.push(repeat(clock, settings.metricIntervalMs, () => this.#sendMetrics()));
  }

  /** Begins the trace of a request. @returns undefined where it is not traced */
  trace(request: TracedRequest): RequestTrace | undefined {
    const { settings, clock } = this.#options;
    if (settings.traces === undefined) return undefined;
    const parent = parentOf(request, settings);
    return parent && new RequestTrace(request, parent, () => clock.newId().slice(-16), this.#add);
  }

  readonly #add = (span: Span): void => {
    if (this.#spans.length < this.#options.settings.maxSpans) this.#spans.push(span);
    else this.dropped += 1;
  };

  /** Sends what is left. */
  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
    const sent = Promise.all([this.#sendSpans(), this.#sendMetrics()]);
    await withTimeout(this.#options.clock, sent, shutdownTimeoutMs);
  }

  async #sendSpans(): Promise<void> {
    const { traces } = this.#options.settings;
    while (traces !== undefined && this.#spans.length > 0) {
      const spans = this.#spans.slice(0, maxInBatch);
      this.#spans = this.#spans.slice(maxInBatch);
      const scopeSpans = [{ scope: { name: "troupe" }, spans }];
      await this.#post(traces, { resourceSpans: [{ resource: this.#resource, scopeSpans }] }, spans.length);
    }
  }

  async #sendMetrics(): Promise<void> {
    const { settings, metrics: known, clock } = this.#options;
    const { metrics } = settings;
    if (metrics === undefined) return;
    const payload = metricsPayload(known.snapshot(), { startedAt: this.#startedAt, now: clock.now() });
    const scopeMetrics = [{ scope: { name: "troupe" }, metrics: payload }];
    await this.#post(metrics, { resourceMetrics: [{ resource: this.#resource, scopeMetrics }] }, 1);
  }

  async #post({ url, headers, timeoutMs, isJson }: SignalSettings, message: object, count: number): Promise<void> {
    const { fetch: send = fetch } = this.#options;
    try {
      const answer = await send(url, {
        method: "POST",
        headers: { "content-type": isJson ? "application/json" : "application/x-protobuf", ...headers },
        body: isJson ? JSON.stringify(message) : protobufOf(message),
        signal: AbortSignal.timeout(timeoutMs),
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

/** Source: https://www.w3.org/TR/trace-context/#traceparent-header */
const traceparentForm = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

/** @returns undefined when this request is not traced */
function parentOf(
  { id, traceparent }: TracedRequest,
  { ratio, followsParent }: TelemetrySettings,
): TraceParent | undefined {
  const [, traceId = id, spanId = "", flags] = traceparentForm.exec(traceparent ?? "") ?? [];
  const isSampled =
    flags !== undefined && followsParent
      ? (Number.parseInt(flags, 16) & 1) === 1
      : Number.parseInt(traceId.slice(-8), 16) < ratio * 2 ** 32;
  return isSampled ? { traceId, spanId } : undefined;
}

export const telemetryMetrics: SampledTable<Telemetry> = {
  troupe_telemetry_dropped_total: { help: "Spans and messages lost on the way.", read: ({ dropped }) => dropped },
};
