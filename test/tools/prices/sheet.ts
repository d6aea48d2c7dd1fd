/** The prices on which independent families agree: what the program is to bill, whoever of them it takes its list from. Pure. */
import { pricesAt, tiersAt } from "../../../src/facts/prices/list.ts";
import type { ListedPrices, ListedPricesOf, Match, PricedModel } from "../../../src/facts/prices/listed.ts";
import { matches } from "../../../src/facts/prices/match.ts";
import { type Family, kinds, pricesOf, type Row } from "./merge.ts";

/** By `<provider>/<model>` in our names, and the place: `input`, `batch output`, `above 200000 input`. */
export type Sheet = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** Providers whose models are judged: makers, clouds and hosts. */
const judged = [
  ...["openai", "anthropic", "google", "xai", "mistral", "deepseek", "moonshot", "zai", "minimax", "alibaba"],
  ...["groq", "cerebras", "perplexity", "together", "fireworks", "bedrock", "azure"],
];

/** @param nameOf the list's name of a provider, by ours */
export function sheetOf(
  genai: ListedPricesOf,
  families: readonly Family[],
  nameOf: (provider: string) => string,
  now: number,
): Sheet {
  const rows: [string, Readonly<Record<string, number>>][] = [];
  for (const provider of judged) {
    const listed = genai.providers.find(({ id }) => id === nameOf(provider));
    const own = Object.fromEntries((listed?.models ?? []).flatMap((one) => namesOf(one).map((name) => [name, one])));
    const models = new Set([...Object.keys(own), ...families.flatMap((one) => Object.keys(one[provider] ?? {}))]);
    for (const model of [...models].sort()) {
      const words = [
        ...(own[model] === undefined ? [] : [pricesOf(rawRow(own[model], now))]),
        ...families.flatMap((one) => (one[provider]?.[model] === undefined ? [] : [pricesOf(one[provider][model])])),
      ];
      const both = new Map<string, number>();
      for (const place of new Set(words.flatMap((one) => [...one.keys()]))) {
        const said = words.flatMap((one) => one.get(place) ?? []);
        const price = said.find((one, at) => said.indexOf(one) !== at);
        // Where they don't agree nobody is right.
        if (price !== undefined && price > 0 && new Set(said).size === 1) both.set(place, price);
      }
      if (both.has("input") && both.has("output")) rows.push([`${provider}/${model}`, Object.fromEntries(both)]);
    }
  }
  return Object.fromEntries(rows);
}

function namesOf({ id, match }: PricedModel): string[] {
  const literals = (one: Match): string[] =>
    "or" in one ? one.or.flatMap(literals) : "equals" in one ? [one.equals] : [];
  // Some ids are the list's own: no upstream knows them.
  return [...new Set([id, ...literals(match)])].filter((name) => matches(match, name.toLowerCase()));
}

/** A row as the list says it, without what is published beside. */
function rawRow(model: PricedModel, now: number): Row {
  const usual = pricesAt(model, now);
  const of = (prices: ListedPrices, tokens: number) =>
    Object.fromEntries(
      kinds.flatMap((kind) => {
        const price = prices[`${kind}_mtok`];
        if (price === undefined) return [];
        if (typeof price === "number") return [[kind, price]];
        return [[kind, price.tiers.findLast(({ start }) => tokens > start)?.price ?? price.base]];
      }),
    );
  const starts = Object.values(usual).flatMap((one) =>
    typeof one === "number" ? [] : one.tiers.map((tier) => tier.start),
  );
  return {
    ...of(usual, 0),
    tiers: Object.fromEntries(Object.entries(tiersAt(model, now)).map(([name, prices]) => [name, of(prices, 0)])),
    long: [...new Set(starts)].map((above) => ({ above, ...of(usual, above + 1) })),
  };
}
