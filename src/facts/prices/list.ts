/** Price lists: which model of which provider has which rates. One is compiled in; an operator may have stored a newer one. */
import { ownMember } from "../../lib/json/own-member.ts";
import { aliasOf, newestDated } from "./alias.ts";
import text from "./list.txt" with { type: "text" };
import type { Conditional, Constraint, ListedPrices, ListedPricesOf, ListedProvider, PricedModel } from "./listed.ts";
import { matches } from "./match.ts";

/** The list's names of providers that we name otherwise. */
const otherNames: Readonly<Record<string, string>> = {
  xai: "x-ai",
  moonshot: "moonshotai",
  // "uses Anthropic's standard API pricing": https://platform.claude.com/docs/en/build-with-claude/claude-in-microsoft-foundry
  foundry: "anthropic",
  vertex: "google",
  bedrock: "aws",
};

/**
 * Names that mean a newer version today than the list says, or that it lacks. Mistral Medium 3.1 was to be retired on 2026-08-31, and the
 * bare name is taken as the version left: https://github.com/anomalyco/models.dev/blob/dev/providers/mistral/models/mistral-medium-latest.toml
 */
const successors: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  mistral: { "mistral-medium": "mistral-medium-3.5", "mistral-medium-2604": "mistral-medium-3.5" },
};

/** From a time to before another. */
export type PricePeriod = { readonly from: number; readonly until: number };

export type Listed = {
  readonly provider: string;
  readonly model: string;
  /** Date of the list, as YYYY-MM-DD. */
  readonly date: string;
  /** The rates at a time, as some change with the day or the hour. */
  at(now: number): ListedPrices;
  /** By the service tiers that the list prices. */
  tiersAt(now: number): Readonly<Record<string, ListedPrices>>;
  /** The period around a time in which all of these stay as they are. */
  steadyAt(now: number): PricePeriod;
  /** When the usual rates change next, but for the hours of a day. */
  readonly nextStart: (now: number) => number | undefined;
};

export class PriceList {
  readonly #text: string;
  #asOf: string | undefined;
  #parsed: WeakRef<ListedPricesOf> | undefined;

  /** What tells it from others of its day; absent: it is the executable's. */
  readonly id: string | undefined;

  constructor(text: string, id?: string) {
    this.#text = text;
    this.id = id;
  }

  /** Parsed when a new model is asked for, as that takes some milliseconds, and kept until memory is looked for. */
  get content(): ListedPricesOf {
    let found = this.#parsed?.deref();
    if (found === undefined) {
      found = JSON.parse(this.#text) as ListedPricesOf;
      this.#parsed = new WeakRef(found);
    }
    return found;
  }

  /** The day of its prices, as YYYY-MM-DD: known without its content, once that was read. */
  get asOf(): string {
    this.#asOf ??= this.content.as_of;
    return this.#asOf;
  }

  /**
   * @param dialect the provider's own name, where the address says nothing
   * @returns undefined where the model is not listed
   */
  find(dialect: string, baseUrl: string, model: string): Listed | undefined {
    const { as_of: date, providers } = this.content;
    const byAddress = providers.find(({ api }) => new RegExp(`^(?:${api})`).test(baseUrl));
    const name = otherNames[dialect] ?? dialect;
    const provider = byAddress ?? providers.find(({ id }) => id === name);
    if (provider === undefined) return undefined;
    const meant = ownMember(ownMember(successors, provider.id) ?? {}, model.toLowerCase()) ?? model;
    const found =
      findModel(providers, provider, meant) ??
      findModel(providers, provider, withDashedDate(meant)) ??
      // Where an account has models of several makers, one may stand behind its maker's name.
      (meant.startsWith(`${provider.id}/`)
        ? findModel(providers, provider, meant.slice(provider.id.length + 1))
        : undefined);
    if (found === undefined) return undefined;
    return {
      provider: provider.id,
      model: found.id,
      date,
      at: (now) => pricesAt(found, now),
      tiersAt: (now) => tiersAt(found, now),
      steadyAt: (now) => steadyAt(found, now),
      nextStart: (now) => nextStart(found, now),
    };
  }
}

export const compiledList = new PriceList(text);

function findModel(
  all: readonly ListedProvider[],
  { models, fallbacks }: ListedProvider,
  name: string,
): PricedModel | undefined {
  const lower = name.toLowerCase();
  for (const listed of [models, ...fallbacks.map((id) => all.find((one) => one.id === id)?.models ?? [])]) {
    const found = findIn(listed, lower);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A name that means the latest of its family costs what the newest dated name costs, unless its own price is newer still. */
export function findIn(models: readonly PricedModel[], name: string): PricedModel | undefined {
  const own = models.find(({ match }) => matches(match, name));
  const family = aliasOf(name);
  const newest = family === undefined ? undefined : newestDated(models, family, own);
  return newest === undefined ? own : models.find(({ match }) => matches(match, newest));
}

/** `gpt-4o-20241120` as the list has it. */
const withDashedDate = (model: string) => model.replace(/-(20\d\d)(\d\d)(\d\d)(?=-|:|$)/g, "-$1-$2-$3");

/** Finds a model's prices at a time: of conditional ones, the last whose condition holds. */
export function pricesAt({ prices }: PricedModel, now: number): ListedPrices {
  if (!Array.isArray(prices)) return prices as ListedPrices;
  const conditional = prices as readonly Conditional[];
  for (let at = conditional.length - 1; at > 0; at--)
    if (holds(conditional[at]!.constraint, now)) return conditional[at]!.prices;
  return conditional[0]!.prices;
}

export function tiersAt({ variants = [] }: PricedModel, now: number): Record<string, ListedPrices> {
  const tiers: Record<string, ListedPrices> = {};
  for (const { tier, constraint, prices } of variants)
    if (holds(constraint, now)) tiers[tier] = { ...prices, ...ownMember(tiers, tier) };
  return tiers;
}

/** Hours of a day are told to the minute. */
const minuteMs = 60_000;

function steadyAt({ prices, variants = [] }: PricedModel, now: number): PricePeriod {
  let [from, until] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (const { constraint } of [...(Array.isArray(prices) ? (prices as readonly Conditional[]) : []), ...variants]) {
    if (constraint === undefined) continue;
    if (constraint.type === "time_of_date") {
      const minute = now - (now % minuteMs);
      return { from: minute, until: minute + minuteMs };
    }
    const start = Date.parse(constraint.start_date);
    if (start > now) until = Math.min(until, start);
    else from = Math.max(from, start);
  }
  return { from, until };
}

function nextStart({ prices }: PricedModel, now: number): number | undefined {
  const starts = (Array.isArray(prices) ? (prices as readonly Conditional[]) : []).flatMap(({ constraint }) =>
    constraint?.type === "start_date" ? Date.parse(constraint.start_date) : [],
  );
  const ahead = starts.filter((start) => start > now);
  return ahead.length === 0 ? undefined : Math.min(...ahead);
}

function holds(constraint: Constraint | undefined, now: number): boolean {
  if (constraint === undefined) return true;
  if (constraint.type === "start_date") return now >= Date.parse(constraint.start_date);
  const at = new Date(now);
  if (constraint.weekdays?.includes(at.getUTCDay() || 7) === false) return false;
  const time = at.toISOString().slice(11, 19);
  const start = constraint.start_time.slice(0, 8);
  const end = constraint.end_time.slice(0, 8);
  return end < start ? time >= start || time < end : time >= start && time < end;
}
