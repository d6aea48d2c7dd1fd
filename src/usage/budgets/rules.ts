import { type BudgetPeriod, periods } from "../../api/words.ts";
import type { BudgetLimits, Config } from "../../config/config.ts";
import { globMatches, globReaches } from "../../lib/text/glob.ts";
import type { BudgetRow } from "../../store/contract/usage.ts";
import { budgetScope, partsOfScope } from "../../store/ledger/charges.ts";
import type { Attempt } from "../attempt.ts";
import { microsFrom } from "../money.ts";

type Settings = Pick<Config["budgets"], "all" | "tiers" | "tags" | "keys" | "models">;
/** The budgets of all models, or of some. */
type Limits = Omit<Settings, "models"> | NonNullable<Settings["models"]>[string];

/** A budget that applies to a call. */
export type Rule = {
  readonly scope: string;
  /** Pattern of the models whose calls alone count; absent: all do. */
  readonly model?: string;
  readonly period: BudgetPeriod;
  /** In micro-dollars. */
  readonly limit: number;
  /** True if it was set while serving. */
  readonly isSet: boolean;
};

/** Who a call counts for. */
export type Payer = { readonly keyId: string; readonly tier: string; readonly tags: readonly string[] };

/** @param set the scope's rows, which go before what is configured */
function rulesFor(scope: string, configured: BudgetLimits, set: readonly BudgetRow[]): Rule[] {
  const { model } = partsOfScope(scope);
  const whole = { scope, ...(model !== undefined && { model }) };
  return periods.flatMap((period): Rule[] => {
    const row = set.find((one) => one.period === period);
    if (row !== undefined) return [{ ...whole, period, limit: row.limit, isSet: true }];
    const dollars = configured[period];
    return dollars === undefined ? [] : [{ ...whole, period, limit: microsFrom(dollars), isSet: false }];
  });
}

const isOfKey = (scope: string) => scope.startsWith("key:");

/** The budgets of a section of the configuration by their scopes. @param model of the section; absent: of all models */
function* limitsIn(
  { all = nothing, tiers = {}, tags = {} }: Limits,
  model?: string,
): Iterable<[scope: string, limits: BudgetLimits]> {
  yield [budgetScope("all", model), all];
  for (const [tier, limits] of Object.entries(tiers)) yield [budgetScope(`tier:${tier}`, model), limits];
  for (const [tag, limits] of Object.entries(tags)) yield [budgetScope(`tag:${tag}`, model), limits];
}

export class BudgetRules {
  /** Of each scope that is named in the configuration, or was set: they are asked for by each call. */
  readonly #named = new Map<string, readonly Rule[]>();
  /** Defaults of the keys for which none was set, by the model that they are for; undefined: all models. */
  readonly #keys = new Map<string | undefined, BudgetLimits>();
  /** Models that those of `#named` are for which are for some alone, by whom they hold. */
  readonly #models = new Map<string, Set<string>>();
  /** True if there is any that counts the calls of some models alone. */
  readonly isByModel: boolean;

  /** @param rows the budgets that were set while serving */
  constructor({ models = {}, ...common }: Settings, rows: readonly BudgetRow[]) {
    const sections = [[undefined, common] as const, ...Object.entries(models)];
    const configured = new Map(sections.flatMap(([model, limits]) => [...limitsIn(limits, model)]));
    for (const [model, { keys = nothing }] of sections) if (Object.keys(keys).length > 0) this.#keys.set(model, keys);
    const set = Map.groupBy(rows, ({ scope }) => scope);
    for (const scope of set.keys()) if (!configured.has(scope)) configured.set(scope, this.#defaultOf(scope));
    for (const [scope, limits] of configured) {
      const rules = rulesFor(scope, limits, set.get(scope) ?? []);
      if (rules.length === 0) continue;
      this.#named.set(scope, rules);
      const { whose, model } = partsOfScope(scope);
      if (model === undefined) continue;
      const known = this.#models.get(whose) ?? new Set();
      this.#models.set(whose, known.add(model));
    }
    this.isByModel = this.#models.size > 0 || [...this.#keys.keys()].some((model) => model !== undefined);
  }

  /** What a key's calls are held to which none was set for: nothing for all other scopes. */
  #defaultOf(scope: string): BudgetLimits {
    const { model } = partsOfScope(scope);
    return (isOfKey(scope) ? this.#keys.get(model) : undefined) ?? nothing;
  }

  /** The narrowest scope first. */
  of({ keyId, tier, tags }: Payer): readonly Rule[] {
    if (this.#named.size === 0 && this.#keys.size === 0) return none;
    const whose = [`key:${keyId}`];
    for (const tag of tags) whose.push(`tag:${tag}`);
    whose.push(`tier:${tier}`, "all");
    const found: Rule[] = [];
    for (const one of whose) found.push(...(this.isByModel ? this.ofAnyModel(one) : this.ofScope(one)));
    return found;
  }

  /** Those that an attempt counts against: by the model that it asks, and all that may answer in its place or beside it. */
  ofAttempt(attempt: Attempt): readonly Rule[] {
    const { target, bounds } = attempt;
    const rules = this.of(attempt);
    if (target === undefined) return rules;
    const { provider, model } = target;
    const { otherModels = [], toolModels = [] } = bounds ?? {};
    const asked = [model, ...otherModels, ...toolModels].map((name) => `${provider}/${name}`);
    // Which model it is for nobody knows yet: it may be any of the provider's.
    const isOf = (glob: string) =>
      model === "" ? globReaches(glob, `${provider}/`) : asked.some((one) => globMatches(glob, one));
    return rules.filter((rule) => rule.model === undefined || isOf(rule.model));
  }

  /** Those of a scope with those that count the calls of some models alone, which go before. @param whose as `budgetScope` has it */
  ofAnyModel(whose: string): readonly Rule[] {
    const models = new Set(this.#models.get(whose));
    if (isOfKey(whose)) for (const model of this.#keys.keys()) if (model !== undefined) models.add(model);
    const found = [...models].flatMap((model) => this.ofScope(budgetScope(whose, model)));
    return [...found, ...this.ofScope(whose)];
  }

  ofScope(scope: string): readonly Rule[] {
    const named = this.#named.get(scope);
    if (named !== undefined || this.#keys.size === 0 || !isOfKey(scope)) return named ?? none;
    return rulesFor(scope, this.#defaultOf(scope), []);
  }

  /** All but the defaults of keys, which have no scopes of their own. */
  all(): Rule[] {
    return [...this.#named.values()].flat();
  }
}

const none: readonly Rule[] = [];
const nothing: BudgetLimits = {};
