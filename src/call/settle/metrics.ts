/** The metrics of requests and calls, and their series, which a route and a model of it keep: a call looks up next to nothing. */
import type { Declared, Histogram, MetricTable, Registry, SampledTable } from "../../lib/process/metrics.ts";
import { operationOf } from "../../observability/operation-name.ts";
import type { Usage } from "../../protocols/chat/schema.ts";

const durations = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const tokenCounts = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576];
const overheads = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1];

export const httpMetrics = {
  requests: {
    name: "http_server_request_duration_seconds",
    help: "Requests by surface, route, method and status, to the last byte of the answer.",
    labels: ["surface", "route", "method", "status"],
    bounds: durations,
  },
  operations: {
    name: "gen_ai_server_request_duration_seconds",
    help: "Chat completions, to the last byte of the answer.",
    labels: ["surface", "gen_ai_provider_name", "gen_ai_request_model", "format", "gen_ai_operation_name"],
    bounds: durations,
  },
  firstToken: {
    name: "gen_ai_server_time_to_first_token_seconds",
    help: "From the request to the first fragment of a streamed answer.",
    labels: ["surface", "gen_ai_provider_name", "gen_ai_request_model", "format", "gen_ai_operation_name"],
    bounds: durations,
  },
  tokens: {
    name: "gen_ai_client_token_usage",
    help: "Tokens of a call by kind, as the upstream reported them.",
    labels: ["gen_ai_token_type", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_operation_name"],
    bounds: tokenCounts,
  },
  overhead: {
    name: "troupe_overhead_seconds",
    help: "What Troupe added to a call before its request went upstream and after the answer came.",
    labels: ["surface"],
    bounds: overheads,
  },
  upstreamErrors: {
    name: "troupe_upstream_errors_total",
    help: "Errors that upstreams answered; status 0: none was reached, or the connection broke.",
    labels: ["gen_ai_provider_name", "status"],
  },
  fallbacks: {
    name: "troupe_fallbacks_total",
    help: "Personas' calls that moved on to another model.",
    labels: ["gen_ai_provider_name"],
  },
  rateLimited: {
    name: "troupe_rate_limit_refusals_total",
    help: "Requests answered 429.",
    labels: ["surface", "tier"],
  },
  idempotent: {
    name: "troupe_idempotent_requests_total",
    help: "Requests with a service-request-id.",
    labels: ["surface", "result"],
  },
  streams: { name: "troupe_active_streams", help: "Streams that are open.", labels: ["surface"] },
} satisfies MetricTable;

export type HttpMetrics = Declared<typeof httpMetrics>;

export const declareHttpMetrics = (registry: Registry): HttpMetrics => registry.declare(httpMetrics);

type Serving = {
  readonly running: number;
  readonly bodyMemory: { readonly heldBytes: number };
  readonly background: { readonly size: number };
  readonly log: { readonly dropped: number };
};

export const servicesMetrics: SampledTable<Serving> = {
  troupe_requests_running: { help: "Requests under way, open streams included.", read: ({ running }) => running },
  troupe_request_body_bytes: {
    help: "Bytes of request bodies that are held in memory.",
    read: ({ bodyMemory }) => bodyMemory.heldBytes,
  },
  troupe_background_responses_running: {
    help: "Responses that are made in the background.",
    read: ({ background }) => background.size,
  },
  troupe_log_lines_dropped_total: { help: "Log lines lost because nobody read them.", read: ({ log }) => log.dropped },
};

type Buckets = ReturnType<Histogram["series"]>;

/** The metrics of one route. */
export class RouteSeries {
  readonly #metrics: HttpMetrics;
  readonly #surface: string;
  readonly #path: string;
  readonly #format: string;
  /** The series that was asked for last, which is most often asked for again. */
  #last: { readonly method: string; readonly status: number; readonly series: Buckets } | undefined;
  #overhead: Buckets | undefined;
  /** By provider and model. */
  readonly #models = new Map<string, Map<string, ModelSeries>>();

  constructor(metrics: HttpMetrics, surface: string, path: string, format: string) {
    this.#metrics = metrics;
    this.#surface = surface;
    this.#path = path;
    this.#format = format;
  }

  request(method: string, status: number, seconds: number): void {
    let last = this.#last;
    if (last === undefined || last.status !== status || last.method !== method) {
      last = {
        method,
        status,
        series: this.#metrics.requests.series(this.#surface, this.#path, method, String(status)),
      };
      this.#last = last;
    }
    last.series.observe(seconds);
  }

  overhead(seconds: number): void {
    this.#overhead ??= this.#metrics.overhead.series(this.#surface);
    this.#overhead.observe(seconds);
  }

  /** @param model as a label: one of a bounded set */
  model(provider: string, model: string): ModelSeries {
    let models = this.#models.get(provider);
    if (models === undefined) {
      models = new Map();
      this.#models.set(provider, models);
    }
    let found = models.get(model);
    if (found === undefined) {
      const labels = { surface: this.#surface, provider, model, format: this.#format };
      found = new ModelSeries(this.#metrics, { ...labels, operation: operationOf(this.#path) });
      models.set(model, found);
    }
    return found;
  }
}

type ModelLabels = { readonly [name in "surface" | "provider" | "model" | "format" | "operation"]: string };

/** The metrics of one provider's model on one route. Series begin with what is first counted in them. */
export class ModelSeries {
  readonly #metrics: HttpMetrics;
  readonly #labels: ModelLabels;
  #duration: Buckets | undefined;
  #firstToken: Buckets | undefined;
  readonly #tokens: { [kind in "input" | "output" | "cached" | "reasoning"]: Buckets | undefined };

  constructor(metrics: HttpMetrics, labels: ModelLabels) {
    this.#metrics = metrics;
    this.#labels = labels;
    this.#tokens = { input: undefined, output: undefined, cached: undefined, reasoning: undefined };
  }

  operation(seconds: number): void {
    this.#duration ??= this.#seriesOf(this.#metrics.operations);
    this.#duration.observe(seconds);
  }

  firstToken(seconds: number): void {
    this.#firstToken ??= this.#seriesOf(this.#metrics.firstToken);
    this.#firstToken.observe(seconds);
  }

  #seriesOf(family: HttpMetrics["operations"]): Buckets {
    const { surface, provider, model, format, operation } = this.#labels;
    return family.series(surface, provider, model, format, operation);
  }

  usage(usage: Usage): void {
    this.#count("input", usage.prompt_tokens);
    this.#count("output", usage.completion_tokens);
    this.#count("cached", usage.prompt_tokens_details?.["cached_tokens"]);
    this.#count("reasoning", usage.completion_tokens_details?.["reasoning_tokens"]);
  }

  #count(kind: "input" | "output" | "cached" | "reasoning", tokens: unknown): void {
    if (typeof tokens !== "number" || tokens <= 0) return;
    const { provider, model, operation } = this.#labels;
    this.#tokens[kind] ??= this.#metrics.tokens.series(kind, provider, model, operation);
    this.#tokens[kind].observe(tokens);
  }
}
