/** Acts on budgets, and budgets as they are shown. */
import type { Budget } from "../api/budgets.ts";
import { scopeWords } from "../api/budgets.ts";
import type { ActName, BudgetPeriod } from "../api/words.ts";
import { isTag } from "../auth/key-spec.ts";
import { isoTime } from "../lib/time/clock.ts";
import { ApiError } from "../protocols/errors.ts";
import { tiers } from "../protocols/tiers.ts";
import { partsOfScope } from "../store/ledger/charges.ts";
import { healthOf, kindOf, recentSpending, runsOutAt, scopeNameOf } from "../usage/budgets/forecast.ts";
import { BudgetRules, type Rule } from "../usage/budgets/rules.ts";
import { budgetId, budgetStates, leftOf } from "../usage/budgets/states.ts";
import { dollarsFrom, microsFrom } from "../usage/money.ts";
import { type Done, done, type Operator } from "./act.ts";
import { faultOfBudgetModel } from "./checks/model-patterns.ts";

/** @property scope as `budgetScope` has it, a key by its id */
export type BudgetName = { readonly scope: string; readonly period: BudgetPeriod };

/** Those of the configuration, and those that were set as they are now. @throws StorageError */
export const rulesOf = async ({ config, store }: Pick<Operator, "config" | "store">): Promise<BudgetRules> =>
  new BudgetRules(config.budgets, await store.budgets.list());

/** Reads what is spent, reserved and left of each, and how long it will last. @throws StorageError */
export async function budgetsJson(
  { store, clock, keys }: Pick<Operator, "store" | "clock" | "keys">,
  rules: readonly Rule[],
): Promise<Budget[]> {
  const now = clock.now();
  const states = await budgetStates(store.budgets, rules, now);
  const recent = await recentSpending(store.ledger, rules, now);
  const names = states.some(({ scope }) => isOfKey(scope)) ? await keys.names() : new Map<string, string>();
  return states.map((state) => ({
    ...{ object: "budget" as const, id: budgetId(state), scope: state.scope },
    ...(state.model !== undefined && { model: state.model }),
    name: isOfKey(state.scope) ? (names.get(scopeNameOf(state.scope)) ?? null) : null,
    ...{ period: state.period, origin: state.isSet ? ("set" as const) : ("configuration" as const) },
    ...{ dollars: dollarsFrom(state.limit), span: state.span, spent: dollarsFrom(state.spent) },
    ...{ reserved: dollarsFrom(state.reserved), left: dollarsFrom(leftOf(state)), resets_at: state.resetsAt },
    ...{ state: healthOf(state), runs_out_at: isoTime(runsOutAt(state, now, recent)) },
  }));
}

const isOfKey = (scope: string) => kindOf(scope) === "key";

/** @throws ApiError invalid_value, not_found where it is the budget of no key */
async function checkScope({ keys, config }: Operator, scope: string): Promise<void> {
  const [kind, name] = [kindOf(scope), scopeNameOf(scope)];
  const { whose, model } = partsOfScope(scope);
  const isKnown = kind === "tier" ? tiers.some((tier) => tier === name) : kind === "tag" && isTag(name);
  if ((kind === "tag" || kind === "tier") && !isKnown)
    throw ApiError.invalidValue("scope", `'${whose}' names no ${kind}.`);
  if (whose !== "all" && !isKnown && (kind !== "key" || name === ""))
    throw ApiError.invalidValue("scope", `scope must be ${scopeWords}`);
  const fault = model === undefined ? undefined : faultOfBudgetModel(model, config);
  if (fault !== undefined) throw ApiError.invalidValue("scope", `model: ${fault}`);
  if (kind === "key" && (await keys.named(name)) === undefined)
    throw ApiError.notFound("There is no such key.", "scope");
}

/** @param change rejects where there is nothing to change; `isNew`: nothing was held to it before */
async function changeBudget(
  operator: Operator,
  act: ActName,
  { scope, period }: BudgetName,
  change: (isNew: boolean) => Promise<void>,
): Promise<Done<Budget | undefined>> {
  await checkScope(operator, scope);
  const find = async () => {
    const rule = (await rulesOf(operator)).ofScope(scope).find((one) => one.period === period);
    return rule && (await budgetsJson(operator, [rule]))[0];
  };
  const before = await find();
  await change(before === undefined);
  await operator.reread();
  return done(operator, act, budgetId({ scope, period }), before, await find());
}

type Changed = Done<Budget | undefined, Budget>;

/** Sets a budget, from the next call on; what was spent stays spent. @throws ApiError invalid_value, not_found */
export async function setBudget(operator: Operator, budget: BudgetName, dollars: number): Promise<Changed> {
  const { store, clock } = operator;
  return (await changeBudget(operator, "budget.set", budget, (isNew) =>
    store.budgets.set({ ...budget, limit: microsFrom(dollars), updatedAt: clock.now() }, isNew),
  )) as Changed;
}

/** Raises a budget that was set. @throws ApiError invalid_value, not_found */
export async function topUpBudget(operator: Operator, budget: BudgetName, dollars: number): Promise<Changed> {
  const { store, clock } = operator;
  return (await changeBudget(operator, "budget.top-up", budget, async () => {
    if ((await store.budgets.add(budget, microsFrom(dollars), clock.now())) === undefined)
      throw ApiError.notFound(`No budget ${nameIn(budget)} was set: set it first.`, "scope");
  })) as Changed;
}

/** Removes a budget that was set; one of the configuration then applies again. @throws ApiError invalid_value, not_found */
export const removeBudget = (operator: Operator, budget: BudgetName): Promise<Done<Budget | undefined>> =>
  changeBudget(operator, "budget.remove", budget, async () => {
    if (!(await operator.store.budgets.remove(budget)))
      throw ApiError.notFound(
        `No budget ${nameIn(budget)} was set; what the configuration says is changed there.`,
        "scope",
      );
  });

const nameIn = ({ scope, period }: BudgetName) => `${scope} ${period}`;
