/**
 * Counts by which a persona's variants stop themselves. They grow with the lines of the ledger, in one transaction with them, and what
 * counts decides: of all processes and nodes one finds that a variant is to stop.
 */

/** What became of a call. `refused`: by the model, or its provider's content filter. Others, as of a client that left, are not counted. */
export type VariantOutcome = "answered" | "refused" | "failed";

/** When a variant stops, by counts over a window of its calls. */
export type VariantRule = {
  readonly variant: string;
  /** Calls of a window. */
  readonly calls: number;
  /** The least failed, refused and slow calls that stop it; null: none do. */
  readonly errors: number | null;
  readonly refusals: number | null;
  readonly slow: number | null;
  /** A call that takes longer is slow. */
  readonly slowMs: number | null;
  /** Micro-dollars that the calls of a window may cost together. */
  readonly cost: number | null;
};

/** A call of a persona with variants that may stop. */
export type VariantCall = {
  readonly persona: string;
  readonly version: string;
  readonly variant: string;
  readonly outcome: VariantOutcome;
  /** Those of all its variants that may stop. */
  readonly rules: readonly VariantRule[];
};

/** `operator`: it was stopped by hand. */
export const stopReasons = ["error_rate", "refusals", "p95_seconds", "cost", "operator"] as const;
export type StopReason = (typeof stopReasons)[number];

/** A variant that may stop, or was stopped: its calls in the present window, and those of the persona's other variants in the same time. */
export type VariantState = {
  readonly persona: string;
  readonly version: string;
  readonly variant: string;
  readonly calls: number;
  readonly errors: number;
  readonly refusals: number;
  readonly slow: number;
  /** Micro-dollars; a call whose cost is unknown adds nothing. */
  readonly cost: number;
  readonly otherCalls: number;
  readonly otherErrors: number;
  readonly otherRefusals: number;
  readonly otherSlow: number;
  readonly otherCost: number;
  /** Windows that ended without a stop. */
  readonly windows: number;
  readonly updatedAt: number;
  /** When it was stopped; null: it was not, or goes on. Then its counts stay as they were. */
  readonly stoppedAt: number | null;
  readonly reason: StopReason | null;
};

export interface VariantRepository {
  /** Of a persona in all its versions, the latest first. */
  list(persona: string): Promise<VariantState[]>;
  /** All that are stopped, by persona, version and variant. */
  stopped(): Promise<VariantState[]>;
  /** Stops a variant of a version by hand, with what was counted of it as it was. @returns 0 where it was stopped already, else 1 */
  stop(persona: string, version: string, variant: string, at: number): Promise<number>;
  /** Lets a stopped variant go on, in all versions of the persona, with a new window. @returns how many versions of it were stopped */
  resume(persona: string, variant: string, at: number): Promise<number>;
  /** Forgets counts that nothing was added to since that time; a stop is never forgotten. @returns how many */
  removeUnused(before: number): Promise<number>;
}

/**
 * Standard errors by which a share must lie above the others', so that it comes by chance in at most one of a thousand windows, though it is
 * compared with each call. Source: test/simulation/variants.test.ts
 */
export const standardErrors = 4;

/** The two-proportion z-test: https://www.itl.nist.gov/div898/handbook/prc/section3/prc33.htm. True where the others had no calls. */
function isWorse(count: number, calls: number, otherCount: number, otherCalls: number): boolean {
  if (otherCalls === 0) return true;
  const pooled = (count + otherCount) / (calls + otherCalls);
  const above = count / calls - otherCount / otherCalls;
  return above > 0 && above ** 2 >= standardErrors ** 2 * pooled * (1 - pooled) * (1 / calls + 1 / otherCalls);
}

/** The part of a call's line that is counted: when it began, how long it took, and micro-dollars. */
type CountedLine = { readonly at: number; readonly totalMs: number; readonly cost: number | null };

/** Adds a call to a variant's counts, and judges it. @param state of a variant that is not stopped */
export function countCall(state: VariantState, rule: VariantRule, call: VariantCall, line: CountedLine): VariantState {
  const endedAt = line.at + line.totalMs;
  const updatedAt = Math.max(state.updatedAt, endedAt);
  const errors = call.outcome === "failed" ? 1 : 0;
  const refusals = call.outcome === "refused" ? 1 : 0;
  const slow = rule.slowMs !== null && line.totalMs > rule.slowMs ? 1 : 0;
  const cost = line.cost ?? 0;
  if (call.variant !== state.variant)
    return {
      ...state,
      otherCalls: state.otherCalls + 1,
      otherErrors: state.otherErrors + errors,
      otherRefusals: state.otherRefusals + refusals,
      otherSlow: state.otherSlow + slow,
      otherCost: state.otherCost + cost,
      updatedAt,
    };
  const counted = {
    ...state,
    calls: state.calls + 1,
    errors: state.errors + errors,
    refusals: state.refusals + refusals,
    slow: state.slow + slow,
    cost: state.cost + cost,
    updatedAt,
  };
  const reason = reasonToStop(counted, rule);
  if (reason !== undefined) return { ...counted, stoppedAt: endedAt, reason };
  return counted.calls < rule.calls ? counted : { ...counted, ...noCounts, windows: state.windows + 1 };
}

function reasonToStop(state: VariantState, rule: VariantRule): StopReason | undefined {
  const { calls, otherCalls } = state;
  const isBeyond = (count: number, least: number | null, otherCount: number) =>
    least !== null && count >= least && isWorse(count, calls, otherCount, otherCalls);
  if (isBeyond(state.errors, rule.errors, state.otherErrors)) return "error_rate";
  if (isBeyond(state.refusals, rule.refusals, state.otherRefusals)) return "refusals";
  if (isBeyond(state.slow, rule.slow, state.otherSlow)) return "p95_seconds";
  const isDearer = otherCalls === 0 || state.cost * otherCalls > state.otherCost * calls;
  return rule.cost !== null && state.cost > rule.cost && isDearer ? "cost" : undefined;
}

const noCounts = {
  ...{ calls: 0, errors: 0, refusals: 0, slow: 0, cost: 0 },
  ...{ otherCalls: 0, otherErrors: 0, otherRefusals: 0, otherSlow: 0, otherCost: 0 },
};

export const newState = ({ persona, version }: VariantCall, { variant }: VariantRule): VariantState => ({
  ...{ persona, version, variant, ...noCounts },
  ...{ windows: 0, updatedAt: 0, stoppedAt: null, reason: null },
});
