/** Rules by model name: how a provider's models differ, as data that the config can override. */
import { globMatches } from "../lib/text/glob.ts";
import { bareName, isAtLeast, versionAt } from "./model-name.ts";

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

type Matched = Pick<ModelRule, "match" | "since">;

/** Merged rules, by the provider's rows, the overrides and the model's name. */
let cache = new WeakMap<object, WeakMap<object, Map<string, object>>>();
/** To be called when rows have changed. */
export const forgetRules = (): void => {
  cache = new WeakMap();
};
/** Callers choose model names freely: beyond so many of one account its cache is emptied. */
const maxCachedModels = 500;

/**
 * The rows whose glob fits the model, merged: overrides first, then the provider's own, the first to name a key wins. Overrides go by the
 * name as it is given; the provider's own also by the maker's name within it, so that a gateway's or a cloud's name is known.
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
  own: readonly (R & ModelRule)[],
): Partial<R> {
  const merged: Record<string, unknown> = {};
  const bare = bareName(model);
  const fitting = [
    ...overrides.filter((rule) => fits(rule, model)),
    ...own.filter((rule) => fits(rule, model) || (bare !== model && fits(rule, bare))),
  ];
  for (const rule of fitting) {
    for (const [key, value] of Object.entries(rule)) {
      if (key !== "match" && key !== "since" && !Object.hasOwn(merged, key)) merged[key] = value;
    }
  }
  return merged as Partial<R>;
}

/** True if a row of a provider's own is of the model, by the name as it is given or by the maker's name within it. */
export const isOf = (rule: Matched, model: string): boolean => fits(rule, model) || fits(rule, bareName(model));

function fits({ match, since }: Matched, model: string): boolean {
  if (!globMatches(match, model)) return false;
  if (since === undefined) return true;
  const version = versionAt(model.slice(match.indexOf("*")));
  return version !== undefined && isAtLeast(version, versionAt(since)!);
}
