/** What a new price list may not change by itself: such models keep the terms that they had. Pure. */
import { findIn } from "../../../src/facts/prices/list.ts";
import type { ListedPricesOf, Match, PricedModel } from "../../../src/facts/prices/listed.ts";
import { matches } from "../../../src/facts/prices/match.ts";
import { rowOf } from "./merge.ts";

export type Judged = {
  readonly now: number;
  /** Texts whose models are looked at closely. */
  readonly named: string;
  /** By `<provider>/<id>`, or the provider alone: the page that says that the change is right. */
  readonly passed: Readonly<Record<string, string>>;
};

/** @returns the list, with what was kept of the one before, and why in words */
export function guard(
  before: ListedPricesOf,
  after: ListedPricesOf,
  { now, named, passed }: Judged,
): { readonly list: ListedPricesOf; readonly kept: readonly string[] } {
  const kept: string[] = [];
  const providers = after.providers.map((provider) => {
    const isPassed = (model: string) =>
      Object.hasOwn(passed, provider.id) || Object.hasOwn(passed, `${provider.id}/${model}`);
    const old = before.providers.find(({ id }) => id === provider.id)?.models ?? [];
    const models = provider.models.flatMap((model): PricedModel[] => {
      const id = `${provider.id}/${model.id}`;
      const had = namesOf(model)
        .map((name) => findIn(old, name))
        .find((one) => one !== undefined);
      const why = isPassed(model.id) ? undefined : objection(provider.id, model, had, now, isNamed(named, model.id));
      if (why === undefined) return [model];
      kept.push(`${id}: ${why}`);
      return had === undefined ? [] : [{ ...had, id: model.id, match: model.match }];
    });
    const lost = old.flatMap((model): PricedModel[] => {
      const names = namesOf(model).filter((name) => findIn(models, name) === undefined);
      if (names.length === 0 || isPassed(model.id)) return [];
      kept.push(`${provider.id}/${model.id}: its price is gone (${names.join(", ")})`);
      const id = models.some((one) => one.id === model.id) ? names[0]! : model.id;
      return [{ ...model, id, match: { or: names.map((name) => ({ equals: name })) } }];
    });
    return { ...provider, models: [...models, ...lost] };
  });
  return { list: { ...after, providers }, kept };
}

/** Names that a row certainly prices: ids of some are their list's own. */
function namesOf({ id, match }: PricedModel): string[] {
  const literals = (one: Match): string[] => {
    if ("or" in one) return one.or.flatMap(literals);
    if ("and" in one) return one.and.flatMap(literals);
    return "regex" in one ? [] : Object.values(one);
  };
  const names = [id, ...literals(match)].map((name) => name.toLowerCase());
  return [...new Set(names)].filter((name) => matches(match, name));
}

/** Most that a price may move by itself. */
const usualMove = 0.2;

function objection(
  provider: string,
  model: PricedModel,
  had: PricedModel | undefined,
  now: number,
  isNamedAnywhere: boolean,
): string | undefined {
  const is = rowOf(provider, model, now);
  const was = had && rowOf(provider, had, now);
  if ((is.input ?? 0) === 0 && (is.output ?? 0) === 0 && is.input !== undefined && was?.input !== 0)
    return "it would cost nothing";
  if (was === undefined || !isNamedAnywhere) return undefined;
  for (const kind of ["input", "output"] as const) {
    const [old, next] = [was[kind] ?? 0, is[kind] ?? 0];
    if (old > 0 && Math.abs(next - old) > usualMove * old) return `${kind} would go from $${old} to $${next}`;
  }
  return undefined;
}

/** As a whole word: `gpt-5` does not stand in `gpt-5.4`. */
function isNamed(texts: string, model: string): boolean {
  let at = texts.indexOf(model);
  while (at >= 0) {
    if (!/[\w.-]/.test(texts[at - 1] ?? " ") && !/[\w.-]/.test(texts[at + model.length] ?? " ")) return true;
    at = texts.indexOf(model, at + 1);
  }
  return false;
}
