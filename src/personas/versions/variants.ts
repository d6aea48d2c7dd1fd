/** Variants of a persona in its file: their fields in place of the persona's, their errors, and the counts that stop them. */
import { formatPath } from "../../lib/json/schema-errors.ts";
import type { RuleError } from "../file/rule-error.ts";
import { type PersonaContent, type VariantContent, variantFields } from "../file/schema.ts";

/**
 * When a variant stops: judged over each so many of its calls, a window. Counts are the least that stop it, so that nothing has to be
 * calculated while calls are counted.
 */
export type StopRule = {
  /** Calls of a window. */
  readonly calls: number;
  readonly errors?: number;
  readonly refusals?: number;
  /** `calls`: so many take longer. */
  readonly slow?: { readonly seconds: number; readonly calls: number };
  /** Dollars that a call costs on average. */
  readonly cost?: number;
};

/** The chance that a variant whose true share is just its bound reaches the count that stops it, in one window. */
const chance = 0.001;
/** By the definition of the 95th percentile. */
const slowShare = 0.05;

/**
 * @param share true share of calls of a kind
 * @returns the least count of them that comes by chance in at most one of a thousand windows, by the binomial distribution; undefined
 * where even all of them would come more often
 */
export function countBeyond(calls: number, share: number): number | undefined {
  if (share <= 0) return 1;
  let tail = 0;
  let found: number | undefined;
  // The logarithm of P(count = calls), and from there downwards.
  let log = calls * Math.log(share);
  for (let count = calls; count > 0; count -= 1) {
    tail += Math.exp(log);
    if (tail > chance) return found;
    found = count;
    log += Math.log(count) - Math.log(calls - count + 1) + Math.log1p(-share) - Math.log(share);
  }
  return found;
}

/** Names it by its place, from 1 on, where it has no name. */
export const variantName = ({ name }: VariantContent, at: number): string => name ?? String(at + 1);

/** The persona's content as it is with the variant's fields. */
export function withVariant(
  { variants: _, weights, ...file }: PersonaContent,
  variant: VariantContent,
): PersonaContent {
  const given = Object.entries(variant).filter(([field]) => variantFields.includes(field));
  // They are of the models.
  const shares = variant.model === undefined && weights !== undefined ? { weights } : {};
  return { ...file, ...shares, ...Object.fromEntries(given) };
}

/** @param until that has been checked */
export function stopRule(until: NonNullable<VariantContent["until"]>): StopRule {
  const { calls, error_rate, refusals, p95_seconds, cost } = until;
  return {
    calls,
    ...(error_rate !== undefined && { errors: countBeyond(calls, error_rate)! }),
    ...(refusals !== undefined && { refusals: countBeyond(calls, refusals)! }),
    ...(p95_seconds !== undefined && { slow: { seconds: p95_seconds, calls: countBeyond(calls, slowShare)! } }),
    ...(cost !== undefined && { cost }),
  };
}

/**
 * The errors of a file's variants, each checked like a persona of its own.
 * @param check finds the errors of a file without variants
 */
export function* variantErrors(
  file: PersonaContent,
  check: (file: PersonaContent) => Iterable<RuleError>,
): Generator<RuleError, void> {
  const { variants = [] } = file;
  if (variants.length === 0) return;
  const wordsOf = ({ path, message }: RuleError) => `${formatPath(path)} ${message}`;
  const known = new Set([...check(file)].map(wordsOf));
  for (const [at, variant] of variants.entries()) {
    const path = ["variants", at];
    const names = variants.map(variantName);
    if (names.indexOf(names[at]!) < at) yield { path: [...path, "name"], message: `repeats ${names[at]}` };
    yield* untilErrors(variant, [...path, "until"]);
    for (const error of check(withVariant(file, variant))) {
      const [field] = error.path;
      if (Object.hasOwn(variant, field!)) yield { ...error, path: [...path, ...error.path] };
      else if (!known.has(wordsOf(error)))
        yield { path, message: `leaves ${formatPath(error.path)} wrong: it ${error.message}` };
    }
  }
  if (!variants.some(({ weight, until }) => weight > 0 && until === undefined))
    yield {
      path: ["variants"],
      message: "must have one with a weight and without until, to which all go when others stop",
    };
}

function* untilErrors({ until }: VariantContent, path: RuleError["path"]): Generator<RuleError, void> {
  if (until === undefined) return;
  const { calls, ...bounds } = until;
  if (Object.keys(bounds).length === 0)
    yield { path, message: "must have one of error_rate, refusals, p95_seconds and cost" };
  for (const [name, bound] of Object.entries(bounds)) {
    const share = name === "p95_seconds" ? slowShare : name === "cost" ? undefined : bound;
    if (share === undefined || countBeyond(calls, share) !== undefined) continue;
    const message = `can't stop it: in ${calls} calls even all of them may be chance; give more calls`;
    yield { path: [...path, name], message };
  }
}
