/** Rules by model name: how a provider's models differ, as data that the config can override. */
import { globMatches } from "../lib/glob.ts";

/** One row of model-dependent behaviour; `match` is a glob over the model's name (`*` matches anything). */
export type ModelRule = {
  readonly match: string;
  /**
   * The first version that the row is of, as its line writes it: `5.6`, `5-5`. The version of a model stands in its name in place of the
   * first `*`. Later ones, those that nobody knows yet among them, are of the row too. Absent: all are.
   */
  readonly since?: string;
  readonly [key: string]: unknown;
};

/** Merged rules, by the provider's rows, the overrides and the model's name. */
const cache = new WeakMap<object, WeakMap<object, Map<string, object>>>();
/** Callers choose model names freely: beyond so many of one account its cache is emptied. */
const maxCachedModels = 500;

/**
 * The rows whose glob fits the model, merged: overrides first, then the provider's own, the first to name a key wins.
 * @returns the same frozen object for the same rows and model
 */
export function rulesFor<R extends object>(
  model: string,
  overrides: readonly ModelRule[],
  own: readonly (R & ModelRule)[],
): Readonly<Partial<R>> {
  const byOverrides = cache.get(own) ?? new WeakMap<object, Map<string, object>>();
  const byModel = byOverrides.get(overrides) ?? new Map<string, object>();
  const known = byModel.get(model) as Partial<R> | undefined;
  if (known !== undefined) return known;
  const rules = Object.freeze(mergeRules<R>(model, overrides, own));
  if (byModel.size >= maxCachedModels) byModel.clear();
  cache.set(own, byOverrides.set(overrides, byModel.set(model, rules)));
  return rules;
}

function mergeRules<R extends object>(
  model: string,
  overrides: readonly ModelRule[],
  own: readonly (R & { match: string })[],
): Partial<R> {
  const merged: Record<string, unknown> = {};
  for (const rule of [...overrides, ...own]) {
    if (!globMatches(rule.match, model) || !isSince(rule, model)) continue;
    for (const [key, value] of Object.entries(rule)) {
      if (key !== "match" && key !== "since" && !Object.hasOwn(merged, key)) merged[key] = value;
    }
  }
  return merged as Partial<R>;
}

function isSince({ match, since }: ModelRule, model: string): boolean {
  if (since === undefined) return true;
  const [major, minor] = versionOf(model.slice(match.indexOf("*")));
  const [firstMajor = 0, firstMinor = 0] = versionOf(since);
  return major !== undefined && (major > firstMajor || (major === firstMajor && minor! >= firstMinor));
}

/** @returns nothing where the text does not begin with a version */
function versionOf(text: string): readonly number[] {
  const [, written, minor] = /^(\d{1,2})(?:[.-](\d{1,2}))?(?!\d)/.exec(text) ?? [];
  if (written === undefined) return [];
  const major = Number(written);
  // Azure names models without the dot: `gpt-35-turbo`.
  if (minor === undefined && major >= 20) return [Math.floor(major / 10), major % 10];
  return [major, Number(minor ?? 0)];
}
