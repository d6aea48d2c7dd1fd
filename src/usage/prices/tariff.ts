/** A model's rates, worked out once for all its calls: what each kind of tokens costs, and in numbers that multiply exactly. */

import { microDollars, type Rate, type Rates, type UnitKind } from "../../facts/prices/rates.ts";
import { costKinds } from "../../store/contract/usage.ts";

/** A whole number of the tariff's own smallest unit. `exact` is it for sums that `number` can't hold. */
export type Scaled = { readonly number: number; readonly exact: bigint };

/** @property part the place in `costKinds` @property note what is taken in place of a rate that is missing */
type TokenRate = { readonly part: number; readonly rate: Scaled; readonly note: string | undefined };

export type Tariff = {
  /** By kind of tokens; a text says in words which rate is missing. */
  readonly tokens: { readonly [Kind in UnitKind]: TokenRate | string };
  readonly request: Scaled | undefined;
  readonly image: Scaled | undefined;
  readonly audioSecond: Scaled | undefined;
  readonly tools: ReadonlyMap<string, Scaled>;
  readonly microDollar: Scaled;
};

type Kind = {
  readonly part: (typeof costKinds)[number];
  readonly words: string;
  /** Whose dearest rate is taken where this kind has none. */
  readonly others?: readonly UnitKind[];
  /** True if taking the rate of another kind needs no note. */
  readonly isUsual?: boolean;
};

const kinds: { readonly [K in UnitKind]: Kind } = {
  input: { part: "input", words: "input tokens" },
  cacheRead: { part: "cacheRead", words: "cached tokens", others: ["input"] },
  cacheWrite: { part: "cacheWrite", words: "tokens written to the cache", others: ["input"] },
  cacheWrite1h: {
    part: "cacheWrite",
    words: "tokens written to the cache for an hour",
    others: ["cacheWrite", "input"],
  },
  output: { part: "output", words: "output tokens" },
  // Everybody bills thoughts as output where no other rate is said.
  reasoning: { part: "reasoning", words: "reasoning tokens", others: ["output"], isUsual: true },
  audioInput: { part: "audioInput", words: "audio input", others: ["input"] },
  audioCacheRead: { part: "cacheRead", words: "cached audio", others: ["audioInput", "cacheRead", "input"] },
  audioOutput: { part: "audioOutput", words: "audio output", others: ["output"] },
  imageInput: { part: "input", words: "image input", others: ["input"], isUsual: true },
  imageOutput: { part: "output", words: "image output", others: ["output"] },
};

const known = new WeakMap<Rates, Tariff>();

export function tariffOf(rates: Rates): Tariff {
  let tariff = known.get(rates);
  if (tariff === undefined) {
    tariff = workedOut(rates);
    known.set(rates, tariff);
  }
  return tariff;
}

function workedOut({ tokens, request, image, audioSecond, tools }: Rates): Tariff {
  // In units of what divides all of them, rates are small: most calls' sums are exact as plain numbers.
  const all = [...Object.values(tokens), request, image, audioSecond, ...Object.values(tools)];
  const unit = all.reduce<bigint>((divisor, rate) => greatestDivisor(divisor, rate ?? 0n), microDollars);
  const scaled = (rate: Rate): Scaled => ({ number: Number(rate / unit), exact: rate / unit });
  const maybe = (rate: Rate | undefined) => (rate === undefined ? undefined : scaled(rate));
  const ofTokens = ([name, { part, words, others = [], isUsual = false }]: [string, Kind]) => {
    const own = tokens[name as UnitKind];
    const rate = own ?? dearest(others.map((other) => tokens[other]));
    if (rate === undefined) return [name, `no rate for ${words}`];
    const note = own !== undefined || isUsual ? undefined : `no rate for ${words}: the dearest of their kinds is taken`;
    return [name, { part: costKinds.indexOf(part), rate: scaled(rate), note }];
  };
  return {
    tokens: Object.fromEntries(Object.entries(kinds).map(ofTokens)) as Tariff["tokens"],
    request: maybe(request),
    image: maybe(image),
    audioSecond: maybe(audioSecond),
    tools: new Map(Object.entries(tools).map(([tool, rate]) => [tool, scaled(rate)])),
    microDollar: scaled(microDollars),
  };
}

function greatestDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestDivisor(b, a % b);
}

function dearest(rates: readonly (Rate | undefined)[]): Rate | undefined {
  let found: Rate | undefined;
  for (const rate of rates) if (rate !== undefined && (found === undefined || rate > found)) found = rate;
  return found;
}
