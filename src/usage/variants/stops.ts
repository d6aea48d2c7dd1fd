/**
 * The variants of personas that have stopped themselves, or were stopped by hand. The store counts and decides; what it decided is read together with keys and
 * budgets, as one version covers all of them: a call that begins afterwards knows of it, as it knows of a revoked key.
 */

import type { Logger } from "../../lib/process/log.ts";
import type { SampledTable } from "../../lib/process/metrics.ts";
import { type Clock, repeat } from "../../lib/time/clock.ts";
import { hourMs } from "../../lib/time/duration.ts";
import type { Persona, Variant } from "../../personas/persona.ts";
import type {
  VariantCall,
  VariantOutcome,
  VariantRepository,
  VariantRule,
  VariantState,
} from "../../store/contract/variants.ts";
import type { AttemptVariant } from "../attempt.ts";

type VariantStopTools = { readonly store: VariantRepository; readonly clock: Clock; readonly log: Logger };

/** Counts of versions that nobody calls any more are kept so long. */
const keptMs = 30 * 24 * hourMs;

const idOf = (persona: string, version: string, variant: string) => `${persona}@${version} ${variant}`;

export class VariantStops {
  readonly #tools: VariantStopTools;
  #stopped: ReadonlyMap<string, VariantState> = new Map();
  readonly #stopTidying: () => Promise<void>;

  constructor(tools: VariantStopTools) {
    this.#tools = tools;
    this.#stopTidying = repeat(tools.clock, hourMs, () => this.#tidy());
  }

  /** Those that are stopped, of all versions of personas. */
  get all(): readonly VariantState[] {
    return [...this.#stopped.values()];
  }

  isStopped({ id, version }: Pick<Persona, "id" | "version">, { name }: Variant): boolean {
    return this.#stopped.size > 0 && this.#stopped.has(idOf(id, version, name));
  }

  /** Reads which are stopped, and logs what is new. @throws StorageError */
  async load(): Promise<void> {
    const found = await this.#tools.store.stopped();
    const before = this.#stopped;
    this.#stopped = new Map(found.map((state) => [idOf(state.persona, state.version, state.variant), state]));
    for (const [id, state] of this.#stopped)
      if (!before.has(id)) {
        const how = state.reason === "operator" ? "was stopped by hand" : "has stopped itself";
        this.#tools.log.warn(`a persona's variant ${how}`, stopFields(state));
      }
    for (const [id, { persona, version, variant }] of before)
      if (!this.#stopped.has(id))
        this.#tools.log.info("a persona's variant goes on", { persona, persona_version: version, variant });
  }

  close(): Promise<void> {
    return this.#stopTidying();
  }

  async #tidy(): Promise<void> {
    const { store, clock, log } = this.#tools;
    try {
      await store.removeUnused(clock.now() - keptMs);
    } catch (error) {
      log.warn("counts of variants could not be tidied up", { error });
    }
  }
}

/** What a stop says for people: in the log, in alerts, on the command line. */
export const stopFields = (state: VariantState) => ({
  persona: state.persona,
  persona_version: state.version,
  variant: state.variant,
  reason: state.reason,
  calls: state.calls,
  errors: state.errors,
  refusals: state.refusals,
  slow: state.slow,
  cost_micro_dollars: state.cost,
  other_calls: state.otherCalls,
  other_errors: state.otherErrors,
  other_refusals: state.otherRefusals,
  other_slow: state.otherSlow,
  other_cost_micro_dollars: state.otherCost,
  stopped_at: new Date(state.stoppedAt ?? 0).toISOString(),
});

export const variantStopMetrics: SampledTable<VariantStops> = {
  troupe_variants_stopped: {
    help: "1 for each variant of a persona's version that has stopped itself, or was stopped.",
    aggregate: "max",
    labels: ["persona", "version", "variant"],
    series: ({ all }) => all.map((one) => ({ labels: [one.persona, one.version, one.variant], value: 1 })),
  },
};

/** A variant that may stop, as the store judges it. */
export function ruleOf({ name, until }: Variant): VariantRule | undefined {
  if (until === undefined) return undefined;
  const { calls, errors = null, refusals = null, slow, cost } = until;
  return {
    ...{ variant: name, calls, errors, refusals },
    slow: slow?.calls ?? null,
    slowMs: slow === undefined ? null : slow.seconds * 1000,
    cost: cost === undefined ? null : Math.round(cost * calls * 1_000_000),
  };
}

/** A variant never changes. */
const attempts = new WeakMap<Variant, AttemptVariant>();

/** The variant as attempts know it: calls of one kind share what is counted of them. */
export function attemptVariant({ id, version, variants = [] }: Persona, variant: Variant): AttemptVariant {
  const known = attempts.get(variant);
  if (known !== undefined) return known;
  const { name } = variant;
  const rules = variants.flatMap((one) => ruleOf(one) ?? []);
  const callOf = (outcome: VariantOutcome): VariantCall => ({ persona: id, version, variant: name, outcome, rules });
  const calls = { answered: callOf("answered"), refused: callOf("refused"), failed: callOf("failed") };
  const made = { name, persona: id, ...(rules.length > 0 && { calls }) };
  attempts.set(variant, made);
  return made;
}
