/** Adds to the price of an answer what was done beside it: each part by its own model. */

import { modelsBeside } from "../../facts/examples.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { type BilledPart, billed } from "../../protocols/chat/schema.ts";
import { type CostParts, costKinds, type LedgerLine, type TokenCounts } from "../../store/contract/usage.ts";
import type { AttemptTarget } from "../attempt.ts";
import { countedOf } from "../tokens/counts.ts";
import type { Priced, Prices } from "./prices.ts";

/** @param own the price of the answer itself @param asked the model of parts that name none, and are of no model that is known for them */
export function pricedWithParts(
  own: Priced,
  parts: readonly BilledPart[],
  prices: Prices,
  asked: AttemptTarget,
  now: number,
): Priced & Pick<LedgerLine, "beside"> {
  // What the upstream says of the whole is of its parts too, and what nobody bills has none.
  if (own.priceSource === "upstream" || own.priceSource === "free") return own;
  const notes = new Set<string>(own.priceNote === null ? [] : [own.priceNote]);
  let { cost } = own;
  let costs = own.costs;
  const beside: (readonly [string, number])[] = [];
  for (const { what, model: named, usage } of parts) {
    const model = named ?? ownMember(modelsBeside, what) ?? asked.model;
    const priced = prices.price({ ...asked, model }, countedOf(usage), usage[billed]?.serviceTier, now);
    const name = model === asked.model ? what : `${what} by ${truncate(model)}`;
    notes.add(priced.priceNote === null ? `with ${name}` : `with ${name}: ${priced.priceNote}`);
    cost = cost === null || priced.cost === null ? null : cost + priced.cost;
    if (model !== asked.model && priced.cost !== null)
      beside.push([`${asked.provider}/${truncate(model)}`, priced.cost]);
    costs = costs === null || priced.costs === null ? null : addedCosts(costs, priced.costs);
  }
  return {
    ...own,
    cost,
    costs: cost === null ? null : costs,
    ...(cost === null ? { priceSource: "unknown" } : beside.length > 0 && { beside }),
    priceNote: [...notes].slice(0, maxNotes).join("; "),
  };
}

/** An answer may have any number of parts, of any number of models. */
const maxNotes = 8;

const addedCosts = (one: CostParts, other: CostParts): CostParts =>
  Object.fromEntries(costKinds.map((kind) => [kind, one[kind] + other[kind]])) as CostParts;

/** @returns the tokens of an answer and of all its parts */
export function tokensWithParts(own: TokenCounts, parts: readonly BilledPart[]): TokenCounts {
  let all = own;
  for (const { usage } of parts) {
    const { tokens } = countedOf(usage);
    all = Object.fromEntries(
      Object.entries(all).map(([kind, count]) => [kind, count + tokens[kind as keyof TokenCounts]]),
    ) as TokenCounts;
  }
  return all;
}
