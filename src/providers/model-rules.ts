/** Rules by model name: how a provider's models differ, as data that the config can override. */
import { globMatches } from "../lib/glob.ts";

/** One row of model-dependent behaviour; `match` is a glob over the model's name (`*` matches anything). */
export type ModelRule = { readonly match: string; readonly [key: string]: unknown };

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
  own: readonly (R & { match: string })[],
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
    if (!globMatches(rule.match, model)) continue;
    for (const [key, value] of Object.entries(rule)) {
      if (key !== "match" && !Object.hasOwn(merged, key)) merged[key] = value;
    }
  }
  return merged as Partial<R>;
}
