/** A persona's variants as their operators see them: what each has of the calls, and how far it is from stopping itself. */
import { isoTime } from "../../lib/time/clock.ts";
import type { Persona, Variant } from "../../personas/persona.ts";
import type { Store } from "../../store/contract/store.ts";
import type { LedgerFilter, LedgerSum } from "../../store/contract/usage.ts";
import type { VariantState } from "../../store/contract/variants.ts";
import { ruleOf } from "./stops.ts";

/** A count of the present window, the least that stops the variant (null: it has no bound), and the same of all others. */
export type WindowCount = { readonly count: number; readonly stops_at: number | null; readonly others: number };

export type VariantReport = {
  readonly name: string;
  readonly weight: number;
  /** Of the callers, while none is stopped. */
  readonly share: number;
  readonly state: "serving" | "stopped";
  readonly stopped_at: string | null;
  readonly reason: string | null;
  /** By the ledger, of all versions of the persona. */
  readonly calls: number;
  readonly finished: number;
  readonly broken: number;
  readonly refused: number;
  readonly cost_micro_dollars: number;
  readonly unknown_cost_calls: number;
  /** Null: it never stops itself. */
  readonly window: {
    readonly calls: number;
    readonly of: number;
    readonly other_calls: number;
    readonly windows: number;
    readonly errors: WindowCount;
    readonly refusals: WindowCount;
    readonly slow: WindowCount;
    readonly cost_micro_dollars: WindowCount;
  } | null;
};

/** @param period of the ledger. @throws StorageError */
export async function variantReports(
  { ledger, variants: states }: Pick<Store, "ledger" | "variants">,
  { id, version, variants = [] }: Persona,
  period: Pick<LedgerFilter, "since" | "until">,
): Promise<VariantReport[]> {
  const sums = await ledger.sums({ ...period, where: { persona: id } }, ["variant"], { limit: 1_000 });
  const known = (await states.list(id)).filter((state) => state.version === version);
  const weights = variants.reduce((sum, { weight }) => sum + weight, 0);
  return variants.map((variant) => {
    const { name, weight } = variant;
    const state = known.find((one) => one.variant === name);
    return {
      ...{ name, weight, share: weight / weights },
      state: state?.stoppedAt == null ? "serving" : "stopped",
      stopped_at: isoTime(state?.stoppedAt),
      reason: state?.reason ?? null,
      ...numbersOf(sums.find(({ group }) => group[0] === name)),
      window: windowOf(variant, state),
    };
  });
}

const numbersOf = (sum: LedgerSum | undefined) => ({
  calls: sum?.calls ?? 0,
  finished: sum?.ended.finished ?? 0,
  broken: sum?.ended.broken ?? 0,
  refused: sum?.ended.refused ?? 0,
  cost_micro_dollars: sum?.cost ?? 0,
  unknown_cost_calls: sum?.unknownCosts ?? 0,
});

function windowOf(variant: Variant, state: VariantState | undefined): VariantReport["window"] {
  const rule = ruleOf(variant);
  if (rule === undefined) return null;
  const count = (own = 0, stops_at: number | null, others = 0): WindowCount => ({ count: own, stops_at, others });
  return {
    calls: state?.calls ?? 0,
    of: rule.calls,
    other_calls: state?.otherCalls ?? 0,
    windows: state?.windows ?? 0,
    errors: count(state?.errors, rule.errors, state?.otherErrors),
    refusals: count(state?.refusals, rule.refusals, state?.otherRefusals),
    slow: count(state?.slow, rule.slow, state?.otherSlow),
    cost_micro_dollars: count(state?.cost, rule.cost, state?.otherCost),
  };
}
