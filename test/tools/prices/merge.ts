/**
 * Makes one price list of several families' lists. genai-prices' rows are the base. Where the two others agree on a price that it
 * lacks or has otherwise, theirs is taken; what else differs is told as dissent. Pure.
 */
import { findIn, pricesAt, tiersAt } from "../../../src/facts/prices/list.ts";
import type { Constraint, ListedPrice, ListedPricesOf, PricedModel } from "../../../src/facts/prices/listed.ts";
import { publishedRates } from "../../../src/facts/prices/published.ts";
import { cardFromList, type Rates, type UnitKind } from "../../../src/facts/prices/rates.ts";

export const kinds = ["input", "output", "cache_read", "cache_write", "cache_write_1h"] as const;
export type Kind = (typeof kinds)[number];
type Prices = { readonly [K in Kind]?: number };
export type Row = Prices & {
  readonly tiers?: Readonly<Record<string, Prices>>;
  readonly long?: readonly (Prices & { readonly above: number })[];
};
/** By our provider's name and the model's. */
export type Family = Readonly<Record<string, Readonly<Record<string, Row>>>>;

/** A family's word on one model, by the place: `input`, `batch input`, `above 272000 input`. */
export function pricesOf(row: Row): Map<string, number> {
  const found = new Map<string, number>();
  const add = (prices: Prices, before: string) => {
    for (const kind of kinds) if (prices[kind] !== undefined) found.set(`${before}${kind}`, prices[kind]);
  };
  add(row, "");
  for (const [tier, prices] of Object.entries(row.tiers ?? {})) add(prices, `${tier} `);
  for (const { above, ...prices } of row.long ?? []) add(prices, `above ${above} `);
  return found;
}

/** What a list's model is billed at a time, with all that is published beside lists. */
export function rowOf(provider: string, model: PricedModel, now: number): Row {
  const published = publishedRates({ provider, model: model.id });
  const { base, tiers, serviceTiers } = cardFromList(pricesAt(model, now), published, tiersAt(model, now));
  const named = Object.entries(serviceTiers).map(([name, tier]) => [
    name,
    typeof tier === "bigint" ? ofRates(base, Number(tier) / 1000) : ofRates(tier.base),
  ]);
  const long = tiers.map(({ above, rates }) => ({ above, ...ofRates(rates) }));
  return { ...ofRates(base), tiers: Object.fromEntries(named), ...(long.length > 0 && { long }) };
}

const unitKinds: { readonly [K in Kind]: UnitKind } = {
  input: "input",
  output: "output",
  cache_read: "cacheRead",
  cache_write: "cacheWrite",
  cache_write_1h: "cacheWrite1h",
};

function ofRates({ tokens }: Rates, factor = 1): Prices {
  const found: { [K in Kind]?: number } = {};
  for (const kind of kinds) {
    const rate = tokens[unitKinds[kind]];
    if (rate !== undefined) found[kind] = Number(((Number(rate) / 1e9) * factor).toFixed(9));
  }
  return found;
}

/** @returns prices that both say, alike */
export function agreed(one: Row, other: Row): Map<string, number> {
  const [mine, theirs] = [pricesOf(one), pricesOf(other)];
  return new Map([...mine].filter(([place, price]) => theirs.get(place) === price));
}

/** The model with other prices at a time; its other terms stay. */
function patched(model: PricedModel, changes: ReadonlyMap<string, number>, now: number): PricedModel {
  const copy = structuredClone(model) as unknown as Mutable;
  const usual = pricesAt(copy as unknown as PricedModel, now) as Record<string, ListedPrice>;
  for (const [place, price] of changes) {
    const [, above, tier, kind] = /^(?:above (\d+) |(\S+) )?(\S+)$/.exec(place)!;
    const name = `${kind}_mtok`;
    if (above !== undefined) usual[name] = withTier(usual[name], Number(above), price);
    else if (tier === undefined) usual[name] = withBase(usual[name], price);
    else tierPrices(copy, tier, now)[name] = price;
  }
  return copy as unknown as PricedModel;
}

type Mutable = { variants?: { tier: string; constraint?: Constraint; prices: Record<string, ListedPrice> }[] };

/** What is stated first counts. */
function tierPrices(model: Mutable, tier: string, now: number): Record<string, ListedPrice> {
  model.variants ??= [];
  const stated = { tier, prices: { ...tiersAt(model as unknown as PricedModel, now)[tier] } };
  model.variants.unshift(stated);
  return stated.prices;
}

const withBase = (price: ListedPrice | undefined, base: number): ListedPrice =>
  typeof price === "object" ? { ...price, base } : base;

const withTier = (price: ListedPrice | undefined, start: number, long: number): ListedPrice => ({
  base: typeof price === "object" ? price.base : (price ?? long),
  tiers: [
    ...(typeof price === "object" ? price.tiers.filter((one) => one.start !== start) : []),
    { start, price: long },
  ].sort((a, b) => a.start - b.start),
});

export type Note = {
  readonly model: string;
  readonly what: "added" | "corrected" | "dissent";
  readonly words: string;
};

/**
 * @param families two that are independent of the base and of each other, by our names of providers
 * @param nameOf the list's name of a provider, by ours
 */
export function merge(
  base: ListedPricesOf,
  families: readonly [Family, Family],
  nameOf: (provider: string) => string,
  now: number,
): { readonly list: ListedPricesOf; readonly notes: readonly Note[] } {
  const notes: Note[] = [];
  const providers = new Map(base.providers.map((one) => [one.id, { ...one, models: [...one.models] }]));
  for (const [provider, models] of Object.entries(families[0])) {
    const listed = providers.get(nameOf(provider));
    if (listed === undefined) continue;
    for (const [model, row] of Object.entries(models)) {
      const second = families[1][provider]?.[model];
      const found = findIn(listed.models, model.toLowerCase());
      const known = found && pricesOf(rowOf(listed.id, found, now));
      const name = `${listed.id}/${model}`;
      if (second === undefined) {
        if (known !== undefined) notes.push(...dissentOf(name, known, pricesOf(row)));
        continue;
      }
      const both = agreed(row, second);
      // A price of nothing is a preview's, or a gap.
      if ([...both.values()].includes(0)) continue;
      if (found === undefined || known === undefined) {
        if (!both.has("input") || !both.has("output")) continue;
        listed.models.push(patched({ id: model, match: { equals: model }, prices: {} }, both, now));
        notes.push({ model: name, what: "added", words: wordsOf(both) });
        continue;
      }
      const changes = new Map(
        [...both].filter(([place, price]) => (known.has(place) || !place.includes(" ")) && known.get(place) !== price),
      );
      if (changes.size === 0) continue;
      const before = new Map([...changes.keys()].flatMap((one) => (known.has(one) ? [[one, known.get(one)!]] : [])));
      notes.push({ model: name, what: "corrected", words: `${wordsOf(before)} → ${wordsOf(changes)}` });
      if (found.id === model) listed.models[listed.models.indexOf(found)] = patched(found, changes, now);
      else listed.models.unshift(patched({ ...found, id: model, match: { equals: model } }, changes, now));
    }
  }
  return { list: { ...base, providers: [...providers.values()] }, notes };
}

function dissentOf(model: string, known: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): Note[] {
  const places = ["input", "output"].filter((one) => other.has(one) && other.get(one) !== known.get(one));
  const of = (prices: ReadonlyMap<string, number>) =>
    wordsOf(new Map(places.flatMap((one) => (prices.has(one) ? [[one, prices.get(one)!] as const] : []))));
  return places.length === 0 ? [] : [{ model, what: "dissent", words: `${of(known)}, and elsewhere ${of(other)}` }];
}

const wordsOf = (prices: ReadonlyMap<string, number>): string =>
  [...prices].map(([place, price]) => `${place} $${price}`).join(", ") || "none";
