/** Rates of a model, as exact integers. */
import type { ListedPrice, ListedPrices } from "./listed.ts";

/**
 * Price of a unit, in billionths of a micro-dollar: for tokens that is their price in dollars per million, times a billion, so that
 * every price that people write is a whole number here.
 */
export type Rate = bigint;
const perMicroDollar = 1e9;

export const unitKinds = [
  "input",
  "cacheRead",
  "cacheWrite",
  "cacheWrite1h",
  "output",
  "reasoning",
  "audioInput",
  "audioCacheRead",
  "audioOutput",
  "imageInput",
  "imageOutput",
] as const;
export type UnitKind = (typeof unitKinds)[number];

export type Rates = {
  readonly tokens: { readonly [Kind in UnitKind]?: Rate };
  /** Rate of each call. */
  readonly request?: Rate | undefined;
  /** Rate of each image in the answer. */
  readonly image?: Rate | undefined;
  /** Rate of each second of a recording, where its length is billed. */
  readonly audioSecond?: Rate | undefined;
  /** Rate of each use of a hosted tool, by its name. */
  readonly tools: Readonly<Record<string, Rate>>;
};

/** Rates by the length of the input. */
export type RatesByLength = {
  readonly base: Rates;
  /** For inputs of more tokens than `above`, in ascending order. */
  readonly tiers: readonly { readonly above: number; readonly rates: Rates }[];
};

/**
 * By what an answer names and is billed otherwise: its service tier, and those that `surcharges` of its usage names. Factors in
 * thousandths, of tokens and calls alone; or rates of their own.
 */
type ServiceTiers = Readonly<Record<string, bigint | RatesByLength>>;

export type RateCard = RatesByLength & { readonly serviceTiers: ServiceTiers };

export const rateOf = (dollarsPerMillion: number): Rate => BigInt(Math.round(dollarsPerMillion * perMicroDollar));
/** @param dollars of one use */
export const rateOfUse = (dollars: number): Rate => BigInt(Math.round(dollars * 1e6)) * BigInt(perMicroDollar);
export const microDollars = BigInt(perMicroDollar);

export function ratesAbove({ base, tiers }: RatesByLength, inputTokens: number): Rates {
  for (let at = tiers.length - 1; at >= 0; at--) if (inputTokens > tiers[at]!.above) return tiers[at]!.rates;
  return base;
}

/**
 * Rates of a service tier for each length of the input: they are stated for the usual length, and a long input costs as many times
 * more as it does without the tier.
 */
export function tieredRates({ base, tiers }: RatesByLength, own: Rates): RatesByLength {
  return { base: own, tiers: tiers.map(({ above, rates }) => ({ above, rates: inProportion(own, base, rates) })) };
}

function inProportion(own: Rates, base: Rates, long: Rates): Rates {
  const rate = (mine: Rate | undefined, usual: Rate | undefined, longer: Rate | undefined) =>
    mine === undefined || usual === undefined || longer === undefined || usual === 0n
      ? (mine ?? longer)
      : (2n * mine * longer + usual) / (2n * usual);
  const tokens: { [Kind in UnitKind]?: Rate } = {};
  for (const kind of unitKinds) {
    const found = rate(own.tokens[kind], base.tokens[kind], long.tokens[kind]);
    if (found !== undefined) tokens[kind] = found;
  }
  return {
    tokens,
    request: rate(own.request, base.request, long.request),
    image: rate(own.image, base.image, long.image),
    audioSecond: rate(own.audioSecond, base.audioSecond, long.audioSecond),
    tools: { ...long.tools, ...own.tools },
  };
}

/** The list's names of what we count. */
const listedKinds: { readonly [Kind in UnitKind]: string } = {
  input: "input_mtok",
  cacheRead: "cache_read_mtok",
  cacheWrite: "cache_write_mtok",
  cacheWrite1h: "cache_write_1h_mtok",
  output: "output_mtok",
  reasoning: "output_reasoning_mtok",
  audioInput: "input_audio_mtok",
  audioCacheRead: "cache_audio_read_mtok",
  audioOutput: "output_audio_mtok",
  imageInput: "input_image_mtok",
  imageOutput: "output_image_mtok",
};
const listedTools: Readonly<Record<string, string>> = {
  web_search: "web_searches_kcount",
  file_search: "storage_searches_kcount",
};

/** Half the price: what OpenAI, Anthropic, Google and others ask for calls that may wait. */
const waiting = 500n;
/** Those whose price is the usual one; of others nothing is known. */
const usual = 1000n;
export const commonTiers: ServiceTiers = {
  default: usual,
  auto: usual,
  standard: usual,
  batch: waiting,
  flex: waiting,
};

/**
 * @param published what the list does not know: rates, dollars for a use of hosted tools, and factors of service tiers
 * @param variants what the list says of service tiers, by their names; it counts before what is published
 */
export function cardFromList(
  listed: ListedPrices,
  published: PublishedRates = {},
  variants: Readonly<Record<string, ListedPrices>> = {},
): RateCard {
  const { tools = {}, serviceTiers = {}, relative = {} } = published;
  const prices = { ...published.prices, ...listed };
  const lengthsOf = (all: ListedPrices) => lengthsFromList(withRelative(all, relative), tools);
  const factors = Object.entries(serviceTiers).map(([name, factor]) => [name, factorOf(factor)]);
  const own = Object.entries(variants).map(([name, tier]) => [
    name,
    lengthsOf({ ...prices, ...byLength(tier, prices) }),
  ]);
  return {
    ...lengthsOf(prices),
    serviceTiers: { ...commonTiers, ...Object.fromEntries(factors), ...Object.fromEntries(own) },
  };
}

function lengthsFromList(prices: ListedPrices, tools: Readonly<Record<string, number>> | null): RatesByLength {
  const starts = new Set(
    Object.values(prices).flatMap((price) => (isTiered(price) ? price.tiers.map(({ start }) => start) : [])),
  );
  return {
    base: ratesFromList(prices, 0, tools),
    tiers: [...starts]
      .sort((a, b) => a - b)
      .map((above) => ({ above, rates: ratesFromList(prices, above + 1, tools) })),
  };
}

/** A tier that has one rate has it for the usual length: a long input costs as many times more as it does without the tier. */
const byLength = (tier: ListedPrices, usual: ListedPrices): ListedPrices =>
  Object.fromEntries(
    Object.entries(tier).map(([name, price]) => {
      const without = usual[name];
      const isFlat = !isTiered(price) && without !== undefined && isTiered(without) && without.base > 0;
      return [name, isFlat ? timesOf(without, price / without.base) : price];
    }),
  );

function withRelative(prices: ListedPrices, relative: NonNullable<PublishedRates["relative"]>): ListedPrices {
  const all: Record<string, ListedPrice> = { ...prices };
  for (const [name, sources] of Object.entries(relative)) {
    const source = sources.find(({ of }) => prices[of] !== undefined);
    if (source !== undefined) all[name] ??= timesOf(prices[source.of]!, source.times);
  }
  return all;
}

const timesOf = (price: ListedPrice, times: number): ListedPrice =>
  isTiered(price)
    ? {
        base: price.base * times,
        tiers: price.tiers.map(({ start, price: longer }) => ({ start, price: longer * times })),
      }
    : price * times;

/** So many times another rate, by the list's name of it. */
export type Relative = { readonly of: string; readonly times: number };

export type PublishedRates = {
  readonly prices?: ListedPrices;
  /** By the list's name of the rate. */
  readonly relative?: Readonly<Record<string, readonly Relative[]>>;
  /** Null: its tools are billed by another unit than their uses, so that what the list says of them is none either. */
  readonly tools?: Readonly<Record<string, number>> | null;
  /** Factors of all kinds of tokens. */
  readonly serviceTiers?: Readonly<Record<string, number>>;
};

export const factorOf = (factor: number): bigint => BigInt(Math.round(factor * 1000));

const isTiered = (price: ListedPrice): price is Exclude<ListedPrice, number> => typeof price === "object";

function ratesFromList(
  prices: ListedPrices,
  inputTokens: number,
  toolRates: Readonly<Record<string, number>> | null,
): Rates {
  const at = (name: string): number | undefined => {
    const price = prices[name];
    if (price === undefined || typeof price === "number") return price;
    return price.tiers.findLast(({ start }) => inputTokens > start)?.price ?? price.base;
  };
  const tokens: { [Kind in UnitKind]?: Rate } = {};
  for (const kind of unitKinds) {
    const price = at(listedKinds[kind]);
    if (price !== undefined) tokens[kind] = rateOf(price);
  }
  const request = at("requests_kcount");
  const hour = at("input_audio_hours") ?? at("audio_hours");
  const tools = Object.entries(toolRates ?? {}).map(([tool, dollars]) => [tool, rateOfUse(dollars)] as const);
  for (const [tool, name] of Object.entries(toolRates === null ? {} : listedTools)) {
    const price = at(name);
    if (price !== undefined) tools.push([tool, rateOfUse(price / 1000)]);
  }
  return {
    tokens,
    request: request === undefined ? undefined : rateOfUse(request / 1000),
    audioSecond: hour === undefined ? undefined : rateOfUse(hour) / 3600n,
    tools: Object.fromEntries(tools),
  };
}
