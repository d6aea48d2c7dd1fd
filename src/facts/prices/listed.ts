/** Types of a price list's content. */

/** Dollars per unit by the list's own names; tiers go by the tokens of the whole input. */
export type ListedPrice = number | { readonly base: number; readonly tiers: readonly ListedTier[] };
type ListedTier = { readonly start: number; readonly price: number };
export type ListedPrices = Readonly<Record<string, ListedPrice>>;
export type Constraint =
  | { readonly type: "start_date"; readonly start_date: string }
  /** In UTC. @property weekdays 1 (Monday) to 7; absent: every day */
  | {
      readonly type: "time_of_date";
      readonly start_time: string;
      readonly end_time: string;
      readonly weekdays?: readonly number[];
    };
export type Conditional = { readonly constraint?: Constraint; readonly prices: ListedPrices };
export type Match =
  | { readonly or: readonly Match[] }
  | { readonly and: readonly Match[] }
  | { readonly equals: string }
  | { readonly starts_with: string }
  | { readonly ends_with: string }
  | { readonly contains: string }
  | { readonly regex: string };
/**
 * What a model costs by an option that an answer names: a service tier, or `batch`. What it does not price costs the usual. Of
 * several in force, the first that prices a kind counts.
 */
type ListedVariant = Conditional & { readonly tier: string };
export type PricedModel = {
  readonly id: string;
  readonly match: Match;
  readonly prices: ListedPrices | readonly Conditional[];
  readonly variants?: readonly ListedVariant[];
};
export type ListedProvider = {
  readonly id: string;
  readonly api: string;
  readonly fallbacks: readonly string[];
  readonly models: readonly PricedModel[];
};
/** @property as_of the day of which the prices are, as YYYY-MM-DD: the list's own word */
export type ListedPricesOf = { readonly as_of: string; readonly providers: readonly ListedProvider[] };
