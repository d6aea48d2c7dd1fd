/** The price list that is compiled in: which model of which provider has which rates. */
import text from "./list.txt" with { type: "text" };

/** Dollars per unit by the list's own names; tiers go by the tokens of the whole input. */
export type ListedPrice = number | { readonly base: number; readonly tiers: readonly ListedTier[] };
type ListedTier = { readonly start: number; readonly price: number };
export type ListedPrices = Readonly<Record<string, ListedPrice>>;
type Constraint =
  | { readonly type: "start_date"; readonly start_date: string }
  | { readonly type: "time_of_date"; readonly start_time: string; readonly end_time: string };
type Conditional = { readonly constraint?: Constraint; readonly prices: ListedPrices };
type Match =
  | { readonly or: readonly Match[] }
  | { readonly and: readonly Match[] }
  | { readonly equals: string }
  | { readonly starts_with: string }
  | { readonly ends_with: string }
  | { readonly contains: string }
  | { readonly regex: string };
type ListedModel = {
  readonly id: string;
  readonly match: Match;
  readonly prices: ListedPrices | readonly Conditional[];
};
type ListedProvider = {
  readonly id: string;
  readonly api: string;
  readonly fallbacks: readonly string[];
  readonly models: readonly ListedModel[];
};
type PriceList = { readonly date: string; readonly providers: readonly ListedProvider[] };

let parsed: WeakRef<PriceList> | undefined;
/** Parsed when a new model is asked for, as that takes some milliseconds, and kept until memory is looked for. */
function list(): PriceList {
  let found = parsed?.deref();
  if (found === undefined) {
    found = JSON.parse(text) as PriceList;
    parsed = new WeakRef(found);
  }
  return found;
}

/** The list's names of providers that we name otherwise. */
const otherNames: Readonly<Record<string, string>> = {
  xai: "x-ai",
  moonshot: "moonshotai",
  vertex: "google",
  bedrock: "aws",
};

export type Listed = {
  readonly provider: string;
  readonly model: string;
  /** Of the list, as YYYY-MM-DD. */
  readonly date: string;
  /** The rates at a time, as some change with the day or the hour. */
  at(now: number): ListedPrices;
};

/**
 * @param dialect the provider's own name, where the address tells nothing
 * @returns undefined where the model is not listed
 */
export function findListed(dialect: string, baseUrl: string, model: string): Listed | undefined {
  const { date, providers } = list();
  const byAddress = providers.find(({ api }) => new RegExp(`^(?:${api})`).test(baseUrl));
  const name = otherNames[dialect] ?? dialect;
  const provider = byAddress ?? providers.find(({ id }) => id === name);
  if (provider === undefined) return undefined;
  const found = findModel(provider, model) ?? findModel(provider, withDashedDate(model));
  if (found === undefined) return undefined;
  return { provider: provider.id, model: found.id, date, at: (now) => pricesAt(found, now) };
}

function findModel({ models, fallbacks }: ListedProvider, name: string): ListedModel | undefined {
  const lower = name.toLowerCase();
  const own = models.find(({ match }) => matches(match, lower));
  if (own !== undefined) return own;
  for (const id of fallbacks) {
    const other = list().providers.find((provider) => provider.id === id);
    const found = other?.models.find(({ match }) => matches(match, lower));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** `gpt-4o-20241120` as the list has it. */
const withDashedDate = (model: string) => model.replace(/-(20\d\d)(\d\d)(\d\d)(?=-|:|$)/g, "-$1-$2-$3");

/** @param name in lower case */
function matches(match: Match, name: string): boolean {
  if ("or" in match) return match.or.some((one) => matches(one, name));
  if ("and" in match) return match.and.every((one) => matches(one, name));
  if ("equals" in match) return name === match.equals.toLowerCase();
  if ("starts_with" in match) return name.startsWith(match.starts_with.toLowerCase());
  if ("ends_with" in match) return name.endsWith(match.ends_with.toLowerCase());
  if ("contains" in match) return name.includes(match.contains.toLowerCase());
  return new RegExp(match.regex).test(name);
}

/** Of conditional prices the last one that holds. */
function pricesAt({ prices }: ListedModel, now: number): ListedPrices {
  if (!Array.isArray(prices)) return prices as ListedPrices;
  const conditional = prices as readonly Conditional[];
  return (conditional.findLast(({ constraint }) => holds(constraint, now)) ?? conditional[0]!).prices;
}

function holds(constraint: Constraint | undefined, now: number): boolean {
  if (constraint === undefined) return true;
  if (constraint.type === "start_date") return now >= Date.parse(constraint.start_date);
  const time = new Date(now).toISOString().slice(11, 19);
  const start = constraint.start_time.slice(0, 8);
  const end = constraint.end_time.slice(0, 8);
  return end < start ? time >= start || time < end : time >= start && time < end;
}
