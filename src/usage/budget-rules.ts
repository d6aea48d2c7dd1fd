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

const scopesOf = ({ keyId, tier, tags }: Payer): string[] => [
  `key:${keyId}`,
  ...tags.map((tag) => `tag:${tag}`),
  `tier:${tier}`,
  "all",
];

export class BudgetRules {
  readonly #settings: Settings;
  /** By scope and period. */
  readonly #set: ReadonlyMap<string, BudgetRow>;
  readonly #isEmpty: boolean;

  /** @param rows the budgets that were set while serving */
  constructor(settings: Settings, rows: readonly BudgetRow[]) {
    this.#settings = settings;
    this.#set = new Map(rows.map((row) => [nameOf(row.scope, row.period), row]));
    const { all, keys, tiers, tags } = settings;
    const configured = [all, keys, ...Object.values(tiers), ...Object.values(tags)];
    this.#isEmpty = rows.length === 0 && configured.every((limits) => Object.keys(limits).length === 0);
  }

  /** The narrowest scope first. */
  of(payer: Payer): readonly Rule[] {
    return this.#isEmpty ? none : scopesOf(payer).flatMap((scope) => this.ofScope(scope));
  }

  ofScope(scope: string): Rule[] {
    const configured = configuredFor(this.#settings, scope);
    return periods.flatMap((period): Rule[] => {
      const row = this.#set.get(nameOf(scope, period));
      const dollars = configured[period];
      if (row !== undefined) return [{ scope, period, limit: row.limit, isSet: true }];
      return dollars === undefined ? [] : [{ scope, period, limit: microsFrom(dollars), isSet: false }];
    });
  }

  /** All but the default of keys, which has no scope of its own. */
  all(): Rule[] {
    const { tiers, tags } = this.#settings;
    const scopes = new Set([
      "all",
      ...Object.keys(tiers).map((tier) => `tier:${tier}`),
      ...Object.keys(tags).map((tag) => `tag:${tag}`),
      ...[...this.#set.values()].map(({ scope }) => scope),
    ]);
    return [...scopes].flatMap((scope) => this.ofScope(scope));
  }
}

const none: readonly Rule[] = [];
const nameOf = (scope: string, period: string) => `${scope}/${period}`;

const nothing: BudgetLimits = {};

function configuredFor({ all, tiers, tags, keys }: Settings, scope: string): BudgetLimits {
  const [kind, name = ""] = scope.split(":", 2);
  if (kind === "all") return all;
  if (kind === "key") return keys;
  const named: Readonly<Record<string, BudgetLimits>> = kind === "tag" ? tags : tiers;
  return Object.hasOwn(named, name) ? named[name]! : nothing;
}
