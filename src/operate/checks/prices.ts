/** What is not known of the prices of models that personas and the configuration name. */

import type { Config } from "../../config/config.ts";
import type { LoadedConfig } from "../../config/load.ts";
import { compiledAsOf, inForce } from "../../facts/in-force.ts";
import { printable } from "../../lib/text/printable.ts";
import type { Diagnostic } from "../../lib/yaml/yaml.ts";
import { providers } from "../../providers/registry.ts";
import { Accounts } from "../../upstream/accounts.ts";
import { ageOf, ageWords, billedTarget, daysOld, type ListAge, priceAhead } from "../../usage/prices/outlook.ts";
import { Prices } from "../../usage/prices/prices.ts";
import { listInUse } from "../../usage/prices/stored-list.ts";
import type { FileReading, PersonaFiles } from "./retiring.ts";
import { type RetiringMessage, retiringIn, retiringInConfiguration } from "./retiring.ts";

export type PriceChecks = {
  readonly age: ListAge;
  /** Words for a model that has no price, or whose price changes soon. */
  readonly words: RetiringMessage;
};

/** Reads the list in use. */
export function priceChecks(config: Config, now: number): PriceChecks {
  const prices = new Prices(config.prices, listInUse(config.data).list);
  const accounts = new Accounts(config.providers, providers);
  const isKnown = (id: string) => {
    const target = billedTarget(accounts, id);
    return target === undefined ? accounts.find(id.split("/", 1)[0]!) !== undefined : prices.find(target) !== undefined;
  };
  const words: RetiringMessage = (id, all) => {
    // An alias with a glob names no model.
    if (id.includes("*")) return undefined;
    const target = billedTarget(accounts, id);
    if (target === undefined) return undefined;
    if (prices.find(target) === undefined) {
      const next = all.slice(all.indexOf(id) + 1).find(isKnown);
      const instead =
        next === undefined ? "a budget refuses its calls" : `where a budget applies, '${next}' is asked in its place`;
      return `'${id}' has no price: what it costs is unknown, and ${instead}. Give it a row in 'prices'`;
    }
    const ahead = priceAhead(prices, target, now);
    return ahead && `'${id}' costs otherwise from ${ahead.on} on: ${ahead.words}`;
  };
  return { age: ageOf(prices, now), words };
}

/** @returns a diagnostic at each place that names such a model */
export const priceWarnings = (
  context: FileReading,
  files: PersonaFiles,
  loaded: Pick<LoadedConfig, "config" | "file">,
  { words }: PriceChecks,
): Diagnostic[] => [...retiringInConfiguration(context, loaded, words), ...retiringIn(context, files, words)];

/** For people: which facts count, of when they are and where they came from. */
export function factsPhrase(now: number): string {
  const { renewed } = inForce();
  const asOf = renewed?.asOf ?? compiledAsOf;
  const days = daysOld(asOf, now);
  const from = renewed === undefined ? "in the executable" : `from ${renewed.source}`;
  return `${ageWords({ asOf, days, isOld: false })}, ${printable(from)}`;
}

/** For people: of when the list is, and what to do where that is long ago. */
export const agePhrase = (age: ListAge): string =>
  age.isOld ? `${ageWords(age)}: renew them (troupe prices update, or a newer version)` : ageWords(age);
