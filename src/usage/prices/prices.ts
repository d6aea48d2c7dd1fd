/** Prices of models: the upstream's own word first, then the operator's, then the list's. */
import type { PriceConfig, UnknownPriceConfig } from "../../config/config.ts";
import { compiledList, type PriceList, type PricePeriod } from "../../facts/prices/list.ts";
import { publishedRates } from "../../facts/prices/published.ts";
import { cardFromList, type RateCard, type Rates, ratesAbove } from "../../facts/prices/rates.ts";
import { globMatches } from "../../lib/text/glob.ts";
import type { LedgerLine } from "../../store/contract/usage.ts";
import type { AttemptTarget } from "../attempt.ts";
import { type Counted, noTokens } from "../tokens/counts.ts";
import { cardFromConfig } from "./configured.ts";
import { costOf } from "./cost.ts";

export type Priced = Pick<LedgerLine, "cost" | "costs" | "priceSource" | "priceDate" | "priceNote">;

/** Source of a model's price, and the means to find it at a time. */
export type ModelPrice = {
  readonly source: "configuration" | "list" | "free" | "fallback";
  /** The glob of the configuration, or the list's name of the model. */
  readonly name: string;
  readonly date: string | null;
  cardAt(now: number): RateCard;
  /** When the list's price of it changes next for good, as far as it says so. */
  nextStart?(now: number): number | undefined;
};

/** Maximum number of models whose prices are remembered: callers choose names freely. */
const maxKnown = 2000;

export class Prices {
  readonly #configured: readonly { readonly match: string; readonly card: RateCard }[];
  /** Price of a model for which no other is known. */
  readonly #fallback: ModelPrice | undefined;
  readonly list: PriceList;
  /** By account and model; null: none. */
  readonly #known = new Map<string, ModelPrice | null>();
  /** The one that was asked for last, which is most often asked for again. */
  #last: { readonly provider: string; readonly model: string; readonly price: ModelPrice | null } | undefined;

  constructor(rows: readonly (PriceConfig | UnknownPriceConfig)[], list: PriceList = compiledList) {
    this.list = list;
    this.#configured = rows.flatMap((row) => ("match" in row ? [{ match: row.match, card: cardFromConfig(row) }] : []));
    const fallback = rows.find((row) => "unknown_price" in row);
    if (fallback !== undefined) {
      const card = cardFromConfig(fallback.unknown_price);
      this.#fallback = { source: "fallback", name: "unknown_price", date: null, cardAt: () => card };
    }
  }

  /** @returns undefined where nothing is known of the model's price */
  find(target: AttemptTarget): ModelPrice | undefined {
    const last = this.#last;
    if (last !== undefined && last.model === target.model && last.provider === target.provider)
      return last.price ?? undefined;
    const id = `${target.provider}/${target.model}`;
    let known = this.#known.get(id);
    if (known === undefined) {
      known = this.#look(id, target) ?? null;
      if (this.#known.size >= maxKnown) this.#known.clear();
      this.#known.set(id, known);
    }
    this.#last = { provider: target.provider, model: target.model, price: known };
    return known ?? undefined;
  }

  /** True if the operator gave a price for it. @param id `<account>/<model>` */
  isConfigured(id: string): boolean {
    return this.#configured.some(({ match }) => globMatches(match, id));
  }

  price(target: AttemptTarget, counted: Counted, serviceTier: string | undefined, now: number): Priced {
    if (counted.cost !== undefined) {
      return { cost: counted.cost, costs: null, priceSource: "upstream", priceDate: null, priceNote: null };
    }
    const found = this.find(target);
    if (found === undefined) return unknown("no price is known for this model");
    if (found.source === "free") return free;
    const cost = costOf(counted, found.cardAt(now), serviceTier?.toLowerCase());
    if (typeof cost === "string") return { ...unknown(cost), priceDate: found.date };
    return {
      cost: cost.total,
      costs: cost.parts,
      priceSource: found.source,
      priceDate: found.date,
      priceNote:
        found.source === "list" && cost.notes.length === 0
          ? (this.list.id ?? null)
          : noteOf(found.source, this.list.id, cost.notes),
    };
  }

  /**
   * The most that so much use costs, in micro-dollars, whichever of the model's kinds of output it is.
   * @returns undefined where nothing is known of it, or of one of the tools
   */
  bound(target: AttemptTarget, counted: Counted, serviceTier: string | undefined, now: number): number | undefined {
    const found = this.find(target);
    if (found === undefined || found.source === "free") return found && 0;
    const card = found.cardAt(now);
    const rates = ratesAbove(card, counted.tokens.input);
    for (const tool in counted.tools) if (!Object.hasOwn(rates.tools, tool)) return undefined;
    let most: number | undefined;
    for (const form of formsOf(counted, serviceTier === undefined ? rates : undefined)) {
      const cost = costOf(form, card, serviceTier?.toLowerCase());
      if (typeof cost === "string") continue;
      most = Math.max(most ?? 0, cost.total);
    }
    return most;
  }

  #look(id: string, { dialect, baseUrl, model, isLocal }: AttemptTarget): ModelPrice | undefined {
    const own = this.#configured.find(({ match }) => globMatches(match, id));
    if (own !== undefined) return { source: "configuration", name: own.match, date: null, cardAt: () => own.card };
    if (isLocal) return { source: "free", name: id, date: null, cardAt: () => freeCard };
    const listed = this.list.find(dialect, baseUrl, model);
    if (listed === undefined) return this.#fallback;
    const published = publishedRates(listed);
    let known: (PricePeriod & { readonly card: RateCard }) | undefined;
    const cardAt = (now: number): RateCard => {
      if (known === undefined || now < known.from || now >= known.until) {
        const card = cardFromList(listed.at(now), published, listed.tiersAt(now));
        known = { card, ...listed.steadyAt(now) };
      }
      return known.card;
    };
    return {
      source: "list",
      name: `${listed.provider}/${listed.model}`,
      date: listed.date,
      cardAt,
      nextStart: listed.nextStart,
    };
  }
}

/**
 * The ways in which an answer may be counted, but for those that cost the same: text, where sound and pictures have no rates of their own.
 * @param rates of the call, where it is certain that no others apply
 */
function formsOf(counted: Counted, rates: Rates | undefined): Counted[] {
  const { tokens, images, imageOutput, audioSeconds, surcharges } = counted;
  const { output, reasoning, audioOutput } = tokens;
  const isText = reasoning === 0 && audioOutput === 0 && imageOutput === 0;
  const own = isText && surcharges.length === 0 ? rates?.tokens : undefined;
  const forms = [counted];
  if (own === undefined || own.audioOutput !== undefined)
    forms.push({ ...counted, tokens: { ...tokens, audioOutput: output } });
  if (own === undefined || own.imageOutput !== undefined) forms.push({ ...counted, imageOutput: output });
  // Some models have no tokens: they are billed by images, or by the length of a recording.
  if (images > 0 || audioSeconds > 0) forms.push({ ...counted, tokens: noTokens });
  return forms;
}

/** @param list what tells it from others, where it is not the executable's */
function noteOf(source: ModelPrice["source"], list: string | undefined, notes: readonly string[]): string | null {
  const by = source === "fallback" ? "no list knows the model: by unknown_price" : source === "list" ? list : undefined;
  const all = by === undefined ? notes : [by, ...notes];
  return all.length === 0 ? null : all.join("; ");
}

const freeCard: RateCard = { base: { tokens: {}, tools: {} }, tiers: [], serviceTiers: {} };
const free: Priced = { cost: 0, costs: null, priceSource: "free", priceDate: null, priceNote: null };

function unknown(note: string): Priced {
  return { cost: null, costs: null, priceSource: "unknown", priceDate: null, priceNote: note };
}
