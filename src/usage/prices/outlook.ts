/** What is known of the prices of models in use, and what is not: how old the list is, which have none, which will change. Pure. */

import { dayMs } from "../../lib/time/duration.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import type { Accounts } from "../../upstream/accounts.ts";
import type { AttemptTarget } from "../attempt.ts";
import type { Prices } from "./prices.ts";

/** From when on a list is old. */
const oldDays = 30;
/** So long before a price changes it is told. */
const aheadMs = 60 * dayMs;

/** What a price changes, in dollars per million tokens. @property on YYYY-MM-DD */
type PriceAhead = { readonly on: string; readonly words: string };

export type ListAge = { readonly asOf: string; readonly days: number; readonly isOld: boolean };

/** @param asOf YYYY-MM-DD @param now Unix milliseconds @returns whole days */
export const daysOld = (asOf: string, now: number): number => Math.max(0, Math.floor((now - Date.parse(asOf)) / dayMs));

export function ageOf({ list }: Prices, now: number): ListAge {
  const { asOf } = list;
  const days = daysOld(asOf, now);
  return { asOf, days, isOld: days > oldDays };
}

export const ageWords = ({ asOf, days }: ListAge) => `of ${asOf}, ${days} ${days === 1 ? "day" : "days"} old`;

/** @returns undefined where the account of `<account>/<model>` is not set up, or bills nothing */
export function billedTarget(accounts: Accounts, id: string): AttemptTarget | undefined {
  const { namespace, name } = parseModelId(id) ?? {};
  const bound = namespace === undefined ? undefined : accounts.find(namespace);
  if (bound === undefined || bound.provider.kind === "local") return undefined;
  const { account, provider } = bound;
  return {
    ...{ provider: account.name, dialect: provider.name, baseUrl: account.baseUrl, model: name! },
    ...{ isLocal: false, isListed: true },
  };
}

/** @returns the next change of a model's price, where the list says one that is not far */
export function priceAhead(prices: Prices, target: AttemptTarget, now: number): PriceAhead | undefined {
  const found = prices.find(target);
  const at = found?.nextStart?.(now);
  if (found === undefined || at === undefined || at - now > aheadMs) return undefined;
  const words = (["input", "output"] as const).flatMap((kind) => {
    const [before, after] = [now, at].map((time) => found.cardAt(time).base.tokens[kind]);
    return before === undefined || after === undefined || before === after
      ? []
      : [`${kind} $${Number(before) / 1e9} → $${Number(after) / 1e9}`];
  });
  const on = new Date(at).toISOString().slice(0, 10);
  return { on, words: words.length === 0 ? "other conditions" : words.join(", ") };
}
