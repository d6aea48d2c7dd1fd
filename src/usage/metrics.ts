/** The metrics of what calls use and cost. Those with `dollars` in their names are shown to whoever may see money: src/http/ops.ts. */
import {
  BoundedLabels,
  type Declared,
  type Metric,
  type MetricTable,
  type Registry,
  type SampledTable,
} from "../lib/process/metrics.ts";
import { type LedgerLine, tokenKinds } from "../store/contract/usage.ts";
import type { Attempt } from "./attempt.ts";
import type { Budgets } from "./budgets/budgets.ts";
import type { LedgerWriter } from "./ledger/writer.ts";

const usageMetrics = {
  costs: {
    name: "troupe_cost_micro_dollars_total",
    help: "What calls cost, where it is known, in millionths of a dollar.",
    labels: ["surface", "gen_ai_provider_name", "gen_ai_request_model"],
  },
  unknownCosts: {
    name: "troupe_unknown_cost_calls_total",
    help: "Calls whose cost is unknown.",
    labels: ["surface", "gen_ai_provider_name", "gen_ai_request_model"],
  },
  tokens: {
    name: "troupe_tokens_total",
    help: "Tokens by kind, as in the ledger: input holds what was cached and heard, output what was thought and spoken.",
    labels: ["kind", "gen_ai_provider_name", "gen_ai_request_model"],
  },
  attempts: {
    name: "troupe_attempts_total",
    help: "Attempts to answer a request by how they ended, as in the ledger.",
    labels: ["surface", "end"],
  },
  left: {
    name: "troupe_attempts_left_total",
    help: "Attempts that an upstream failed or refused, by the reason for which they were left.",
    labels: ["gen_ai_provider_name", "reason"],
  },
  versions: {
    name: "troupe_persona_attempts_total",
    help: "Attempts of personas by version and by how they ended, as in the ledger; beyond 1000 versions since the start: other.",
    labels: ["persona", "version", "end"],
  },
  variants: {
    name: "troupe_variant_attempts_total",
    help: "Attempts of personas with variants by how they ended, as in the ledger.",
    labels: ["persona", "variant", "end"],
  },
  refusals: {
    name: "troupe_budget_refusals_total",
    help: "Calls refused by a budget of that kind, by their key's tokens per minute, or as their price is unknown.",
    labels: ["kind"],
  },
} satisfies MetricTable;

type UsageMetrics = Declared<typeof usageMetrics>;

const ofBudgets = (help: string, of: "limit" | "used" | "reserved") =>
  ({
    help,
    aggregate: "max",
    labels: ["scope", "period"],
    series: ({ known }: Budgets) => known.map((one) => ({ labels: [one.scope, one.period], value: one[of] })),
  }) as const;

export const budgetMetrics: SampledTable<Budgets> = {
  troupe_budgets: { help: "Budgets that are told of.", aggregate: "max", read: ({ known }) => known.length },
  troupe_budget_limit_dollars: ofBudgets("What a budget allows in its present day or month, or altogether.", "limit"),
  troupe_budget_used_dollars: ofBudgets("What is spent of a budget, and reserved by calls under way.", "used"),
  troupe_budget_reserved_dollars: ofBudgets("What is reserved of it by calls under way.", "reserved"),
  troupe_dollars_shown: {
    help: "1 where sums of money are shown to whoever scrapes; absent like them where they are not.",
    aggregate: "max",
    read: () => 1,
  },
};

export const ledgerMetrics: SampledTable<LedgerWriter> = {
  troupe_ledger_lines_total: { help: "Lines of the ledger written.", read: ({ counts }) => counts.written },
  troupe_ledger_lost_total: { help: "Lines that were never written.", read: ({ counts }) => counts.lost },
  troupe_ledger_failures_total: { help: "Writes of the ledger that failed.", read: ({ counts }) => counts.failures },
  troupe_ledger_waiting: { help: "Lines that are not written yet.", read: ({ waiting }) => waiting },
  troupe_ledger_lag_seconds: {
    help: "For how long the oldest line waits to be written.",
    aggregate: "max",
    read: ({ lagSeconds }) => lagSeconds,
  },
};

/** The most versions of personas with series of their own. */
const maxVersions = 1000;

type Value = ReturnType<Metric["series"]>;
/** The series of one provider's model: its costs by surface, and its tokens by kind. */
type ModelSeries = {
  calls: number;
  readonly costs: Map<string, Value>;
  readonly tokens: { [kind in (typeof tokenKinds)[number]]?: Value };
};

/** A model that was called since the start, by its name in the metrics. */
export type UsedModel = { readonly provider: string; readonly model: string; readonly calls: number };

/** Counts the lines of the ledger. */
export class LineCounter {
  readonly metrics: UsageMetrics;
  readonly #models: BoundedLabels;
  readonly #versions = new BoundedLabels(maxVersions);
  /** By provider and model. */
  readonly #series = new Map<string, Map<string, ModelSeries>>();
  /** The attempts that were counted last, which are most often counted again. */
  #last: { readonly surface: string; readonly ended: string; readonly attempts: Value } | undefined;

  constructor(registry: Registry, models: BoundedLabels) {
    this.metrics = registry.declare(usageMetrics);
    this.#models = models;
  }

  count(line: LedgerLine, { target, variant }: Attempt): void {
    const { surface, ended, provider, upstreamModel, cost, tokens, persona, personaVersion } = line;
    const { attempts, costs, unknownCosts, variants, versions } = this.metrics;
    let last = this.#last;
    if (last === undefined || last.ended !== ended || last.surface !== surface) {
      last = { surface, ended, attempts: attempts.series(surface, ended) };
      this.#last = last;
    }
    last.attempts.add();
    if (line.failure !== null && provider !== null) this.metrics.left.series(provider, line.failure).add();
    if (persona !== null && personaVersion !== null) {
      // A preview's label lives for days, and would be a label of metrics for ever.
      const label = persona.indexOf("@");
      const isKnown = label < 0 && this.#versions.of(`${persona}@${personaVersion}`, false) !== "other";
      if (label < 0) versions.series(persona, isKnown ? personaVersion : "other", ended).add();
      else versions.series(persona.slice(0, label), "preview", ended).add();
    }
    if (variant?.persona !== undefined && !variant.persona.includes("@"))
      variants.series(variant.persona, variant.name, ended).add();
    // Names of models that nobody has answered for add no labels.
    if (provider === null || (cost === 0 && tokens.input === 0 && tokens.output === 0)) return;
    // An operator's own models have labels of their own.
    // A name in an upstream's own word is none that the operator listed.
    const isListed = target?.isListed === true && target.model === upstreamModel;
    const model = this.#models.of(upstreamModel ?? "", isListed);
    const series = this.#of(provider, model);
    series.calls += 1;
    if (cost === null) unknownCosts.series(surface, provider, model).add();
    else if (cost > 0) {
      let value = series.costs.get(surface);
      if (value === undefined) {
        value = costs.series(surface, provider, model);
        series.costs.set(surface, value);
      }
      value.add(cost);
    }
    for (const kind of tokenKinds) {
      if (tokens[kind] === 0) continue;
      series.tokens[kind] ??= this.metrics.tokens.series(kind, provider, model);
      series.tokens[kind].add(tokens[kind]);
    }
  }

  /** The models that have series of their own. */
  *used(): Generator<UsedModel> {
    for (const [provider, models] of this.#series)
      for (const [model, { calls }] of models) yield { provider, model, calls };
  }

  #of(provider: string, model: string): ModelSeries {
    let models = this.#series.get(provider);
    if (models === undefined) {
      models = new Map();
      this.#series.set(provider, models);
    }
    let found = models.get(model);
    if (found === undefined) {
      found = { calls: 0, costs: new Map(), tokens: {} };
      models.set(model, found);
    }
    return found;
  }
}
