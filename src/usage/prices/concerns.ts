/** What speaks against taking a price list in place of the one in use. */
import type { Config } from "../../config/config.ts";
import { PriceList } from "../../facts/prices/list.ts";
import { dayMs } from "../../lib/time/duration.ts";
import { formatModelId } from "../../protocols/model-id.ts";
import type { LedgerRepository } from "../../store/contract/usage.ts";
import type { Accounts } from "../../upstream/accounts.ts";
import { allSums } from "../ledger/report.ts";
import { billedTarget } from "./outlook.ts";
import { type ModelPrice, Prices } from "./prices.ts";

type ListChange = {
  readonly before: PriceList;
  /** The text of the other list, and its day. */
  readonly after: { readonly text: string; readonly asOf: string };
};

/** @param models in use, as `<account>/<model>` @returns in words */
export function concernsOf(
  { before, after }: ListChange,
  config: Pick<Config, "prices">,
  accounts: Accounts,
  models: readonly string[],
  now: number,
): string[] {
  const found: string[] = [];
  const inForce = before.asOf;
  if (after.asOf < inForce) found.push(`it is of ${after.asOf}, older than the list in use, which is of ${inForce}`);
  const [old, next] = [before, new PriceList(after.text)].map((list) => new Prices(config.prices, list));
  for (const id of models) {
    const target = billedTarget(accounts, id);
    if (target === undefined) continue;
    const [was, is] = [old!.find(target), next!.find(target)];
    if (was?.source !== "list") continue;
    if (is?.source !== "list") found.push(`it has no price of ${id}, which is in use`);
    else if (outputOf(was, now) > 0n && outputOf(is, now) === 0n)
      found.push(`by it ${id}, which is in use, costs nothing`);
  }
  return found;
}

const outputOf = (price: ModelPrice, now: number) => {
  const { input = 0n, output = 0n } = price.cardAt(now).base.tokens;
  return input + output;
};

const monthMs = 30 * dayMs;

/** @returns models that were called within 30 days, as `<account>/<model>` */
export async function calledModels(ledger: Pick<LedgerRepository, "sums">, now: number): Promise<string[]> {
  const query = {
    filter: { since: now - monthMs, until: now },
    by: ["provider", "upstream_model"] as const,
    limit: 1000,
  };
  const models: string[] = [];
  for await (const { group } of allSums(ledger, query)) {
    const [namespace = "", name = ""] = group;
    if (namespace !== "" && name !== "") models.push(formatModelId({ namespace, name }));
  }
  return models;
}
