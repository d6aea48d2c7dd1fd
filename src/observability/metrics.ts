/**
 * The metrics of this process. Names follow OpenTelemetry where it has one
 * (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/); the rest begin with `troupe_`.
 * Label values come from bounded sets: models that only callers name are counted together as "other" beyond a cap.
 */
import { truncate } from "../lib/truncate.ts";
import type { Usage } from "../protocols/chat/schema.ts";
import { type LedgerLine, tokenKinds } from "../store/store.ts";
import { prometheusContentType, renderPrometheus } from "./prometheus.ts";
import { type Aggregate, Registry, type Snapshot } from "./registry.ts";

/** How many models that the operator names nowhere have series of their own: callers choose names freely. */
const maxUnlistedModels = 100;

const durations = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const tokenCounts = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576];
const overheads = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1];

export class Metrics {
  readonly contentType = prometheusContentType;
  readonly #registry = new Registry();
  readonly #unlistedModels = new Set<string>();

  readonly #requests = this.#registry.histogram(
    "http_server_request_duration_seconds",
    "Requests by surface, route, method and status, to the last byte of the answer.",
    ["surface", "route", "method", "status"],
    durations,
  );
  readonly #operations = this.#registry.histogram(
    "gen_ai_server_request_duration_seconds",
    "Chat completions, to the last byte of the answer.",
    ["surface", "gen_ai_provider_name", "gen_ai_request_model", "format"],
    durations,
  );
  readonly #firstToken = this.#registry.histogram(
    "gen_ai_server_time_to_first_token_seconds",
    "From the request to the first fragment of a streamed answer.",
    ["surface", "gen_ai_provider_name", "gen_ai_request_model", "format"],
    durations,
  );
  readonly #tokens = this.#registry.histogram(
    "gen_ai_client_token_usage",
    "Tokens of a call by kind, as the upstream reported them.",
    ["gen_ai_token_type", "gen_ai_provider_name", "gen_ai_request_model"],
    tokenCounts,
  );
  readonly #costs = this.#registry.counter(
    "troupe_cost_micro_dollars_total",
    "What calls cost, where it is known, in millionths of a dollar.",
    ["surface", "gen_ai_provider_name", "gen_ai_request_model"],
  );
  readonly #unknownCosts = this.#registry.counter("troupe_unknown_cost_calls_total", "Calls whose cost is unknown.", [
    "surface",
    "gen_ai_provider_name",
    "gen_ai_request_model",
  ]);
  readonly #usedTokens = this.#registry.counter(
    "troupe_tokens_total",
    "Tokens by kind, as in the ledger: input holds what was cached and heard, output what was thought and spoken.",
    ["kind", "gen_ai_provider_name", "gen_ai_request_model"],
  );
  readonly #calls = this.#registry.counter(
    "troupe_attempts_total",
    "Attempts to answer a request by how they ended, as in the ledger.",
    ["surface", "end"],
  );
  readonly #overhead = this.#registry.histogram(
    "troupe_overhead_seconds",
    "What Troupe added to a call before its request went upstream and after the answer came.",
    ["surface"],
    overheads,
  );
  readonly #upstreamErrors = this.#registry.counter(
    "troupe_upstream_errors_total",
    "Errors that upstreams answered; status 0: none was reached, or the connection broke.",
    ["gen_ai_provider_name", "status"],
  );
  readonly #fallbacks = this.#registry.counter(
    "troupe_fallbacks_total",
    "Personas' calls that moved on to another model.",
    ["gen_ai_provider_name"],
  );
  readonly #rateLimited = this.#registry.counter("troupe_rate_limit_refusals_total", "Requests answered 429.", [
    "surface",
    "tier",
  ]);
  readonly #budgetLimit = this.#registry.gauge(
    "troupe_budget_limit_dollars",
    "What a budget allows in its present day or month, or altogether.",
    ["scope", "period"],
    "max",
  );
  readonly #budgetUsed = this.#registry.gauge(
    "troupe_budget_used_dollars",
    "What is spent of a budget, and reserved by calls under way.",
    ["scope", "period"],
    "max",
  );
  readonly #budgetRefusals = this.#registry.counter(
    "troupe_budget_refusals_total",
    "Calls refused by a budget of that kind, by their key's tokens per minute, or as their price is unknown.",
    ["kind"],
  );
  readonly #idempotent = this.#registry.counter(
    "troupe_idempotent_requests_total",
    "Requests with a service-request-id.",
    ["surface", "result"],
  );
  readonly #streams = this.#registry.gauge("troupe_active_streams", "Streams that are open.", ["surface"]);

  constructor({ version, commit }: { version: string; commit: string }) {
    this.#registry.gauge("troupe_build_info", "Always 1.", ["version", "commit"], "max").series(version, commit).add();
    this.sampleGauge("process_resident_memory_bytes", "Resident memory.", () => process.memoryUsage.rss());
    this.sampleCounter("process_cpu_seconds_total", "Processor time used.", () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    });
    const startedAt = Date.now() / 1000;
    this.sampleGauge("process_start_time_seconds", "Unix time of the start.", () => startedAt, "min");
  }

  /**
   * Registers a gauge whose value is read at each scrape.
   * @param aggregate how the values of several processes become one
   */
  sampleGauge(name: string, help: string, read: () => number, aggregate: Aggregate = "sum"): void {
    this.#registry.sample("gauge", name, help, read, aggregate);
  }

  /** Registers a counter whose value is read at each scrape. @param name ends in `_total` @param read never falls */
  sampleCounter(name: string, help: string, read: () => number): void {
    this.#registry.sample("counter", name, help, read);
  }

  request(surface: string, route: string, method: string, status: number, seconds: number): void {
    this.#requests.series(surface, route, method, String(status)).observe(seconds);
  }

  /**
   * The label value that stands for a model in the following methods.
   * @param isListed whether the operator named it: then no caller's names take its place
   */
  modelLabel(name: string, isListed: boolean): string {
    const label = truncate(name);
    if (isListed || this.#unlistedModels.has(label)) return label;
    if (this.#unlistedModels.size >= maxUnlistedModels) return "other";
    this.#unlistedModels.add(label);
    return label;
  }

  operation(surface: string, provider: string, model: string, format: string, seconds: number): void {
    this.#operations.series(surface, provider, model, format).observe(seconds);
  }

  firstToken(surface: string, provider: string, model: string, format: string, seconds: number): void {
    this.#firstToken.series(surface, provider, model, format).observe(seconds);
  }

  overhead(surface: string, seconds: number): void {
    this.#overhead.series(surface).observe(seconds);
  }

  usage(provider: string, model: string, usage: Usage): void {
    this.#count("input", provider, model, usage.prompt_tokens);
    this.#count("output", provider, model, usage.completion_tokens);
    this.#count("cached", provider, model, usage.prompt_tokens_details?.["cached_tokens"]);
    this.#count("reasoning", provider, model, usage.completion_tokens_details?.["reasoning_tokens"]);
  }

  /** Counts a line of the ledger. @param isListed whether the operator named its model */
  ledgerLine({ surface, ended, provider, upstreamModel, cost, tokens }: LedgerLine, isListed: boolean): void {
    this.#calls.series(surface, ended).add();
    // Names of models that nobody has answered for add no labels.
    if (provider === null || (cost === 0 && tokens.input === 0 && tokens.output === 0)) return;
    const model = this.modelLabel(upstreamModel ?? "", isListed);
    if (cost === null) this.#unknownCosts.series(surface, provider, model).add();
    else if (cost > 0) this.#costs.series(surface, provider, model).add(cost);
    for (const kind of tokenKinds) {
      if (tokens[kind] > 0) this.#usedTokens.series(kind, provider, model).add(tokens[kind]);
    }
  }

  upstreamError(provider: string, status: number): void {
    this.#upstreamErrors.series(provider, String(status)).add();
  }

  fallback(provider: string): void {
    this.#fallbacks.series(provider).add();
  }

  rateLimited(surface: string, tier: string): void {
    this.#rateLimited.series(surface, tier).add();
  }

  /** @param limit, used in dollars; the caller bounds how many budgets are told of */
  budget(scope: string, period: string, limit: number, used: number): void {
    this.#budgetLimit.series(scope, period).value = limit;
    this.#budgetUsed.series(scope, period).value = used;
  }

  budgetRefusal(kind: string): void {
    this.#budgetRefusals.series(kind).add();
  }

  idempotentRequest(surface: string, result: "fresh" | "joined" | "replayed" | "conflict"): void {
    this.#idempotent.series(surface, result).add();
  }

  streamOpened(surface: string): void {
    this.#streams.series(surface).add();
  }

  streamClosed(surface: string): void {
    this.#streams.series(surface).add(-1);
  }

  render(): string {
    return renderPrometheus(this.snapshot());
  }

  /** Every metric with its series, for another process to add up. */
  snapshot(): Snapshot {
    return this.#registry.snapshot();
  }

  #count(kind: string, provider: string, model: string, tokens: unknown): void {
    if (typeof tokens === "number" && tokens > 0) this.#tokens.series(kind, provider, model).observe(tokens);
  }
}
