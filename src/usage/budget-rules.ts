/** Which budgets a call counts against: those of the configuration, and those set while serving, which go before. */
import type { BudgetLimits, Config } from "../config/config.ts";
import type { BudgetPeriod, BudgetRow } from "../store/usage.ts";
import { microsFrom, periods } from "./spans.ts";

type Settings = Pick<Config["budgets"], "all" | "tiers" | "tags" | "keys">;

/** A budget that applies to a call. */
export type Rule = {
  readonly scope: string;
  readonly period: BudgetPeriod;
  /** In micro-dollars. */
  readonly limit: number;
  /** True if it was set while serving. */
  readonly isSet: boolean;
};

/** Who a call counts for. */
export type Payer = { readonly keyId: string; readonly tier: string; readonly tags: readonly string[] };

/** @param set the scope's rows, which go before what is configured */
const rulesFor = (scope: string, configured: BudgetLimits, set: readonly BudgetRow[]): Rule[] =>
  periods.flatMap((period): Rule[] => {
    const row = set.find((one) => one.period === period);
    if (row !== undefined) return [{ scope, period, limit: row.limit, isSet: true }];
    const dollars = configured[period];
    return dollars === undefined ? [] : [{ scope, period, limit: microsFrom(dollars), isSet: false }];
  });

export class BudgetRules {
  /** Of each scope that is named in the configuration, or was set: they are asked for by each call. */
  readonly #named = new Map<string, readonly Rule[]>();
  /** Default of the keys for which none was set; undefined: there is none. */
  readonly #keys: BudgetLimits | undefined;

  /** @param rows the budgets that were set while serving */
  constructor({ all, keys, tiers, tags }: Settings, rows: readonly BudgetRow[]) {
    this.#keys = Object.keys(keys).length > 0 ? keys : undefined;
    const configured = new Map<string, BudgetLimits>([["all", all]]);
    for (const [tier, limits] of Object.entries(tiers)) configured.set(`tier:${tier}`, limits);
    for (const [tag, limits] of Object.entries(tags)) configured.set(`tag:${tag}`, limits);
    const set = Map.groupBy(rows, ({ scope }) => scope);
    for (const scope of set.keys())
      if (!configured.has(scope)) configured.set(scope, scope.startsWith("key:") ? keys : nothing);
    for (const [scope, limits] of configured) {
      const rules = rulesFor(scope, limits, set.get(scope) ?? []);
      if (rules.length > 0) this.#named.set(scope, rules);
    }
  }

  /** The narrowest scope first. */
  of({ keyId, tier, tags }: Payer): readonly Rule[] {
    if (this.#named.size === 0 && this.#keys === undefined) return none;
    const found = [...this.ofScope(`key:${keyId}`)];
    for (const tag of tags) found.push(...this.ofScope(`tag:${tag}`));
    found.push(...this.ofScope(`tier:${tier}`), ...this.ofScope("all"));
    return found;
  }

  ofScope(scope: string): readonly Rule[] {
    const named = this.#named.get(scope);
    if (named !== undefined || this.#keys === undefined || !scope.startsWith("key:")) return named ?? none;
    return rulesFor(scope, this.#keys, []);
  }

  /** All but the default of keys, which has no scope of its own. */
  all(): Rule[] {
    return [...this.#named.values()].flat();
  }
}

const none: readonly Rule[] = [];
const nothing: BudgetLimits = {};
