/** `troupe budgets`: what may be spent. A running server takes every change over with its next call. */
import type { BudgetPeriod } from "../../api/words.ts";
import { periods } from "../../api/words.ts";
import { isTag } from "../../auth/key-spec.ts";
import type { Config } from "../../config/config.ts";
import { faultOfBudgetModel } from "../../http/models/model-patterns.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { tiers } from "../../protocols/tiers.ts";
import { budgetScope, partsOfScope } from "../../store/charges.ts";
import type { OpenedStore } from "../../store/open.ts";
import type { Store } from "../../store/store.ts";
import { kindOf, nameOf } from "../../usage/budgets/forecast.ts";
import { BudgetRules, type Rule } from "../../usage/budgets/rules.ts";
import { type BudgetState, budgetJson, budgetStates, leftOf, originOf } from "../../usage/budgets/states.ts";
import { formatDollars, microsFrom } from "../../usage/spans.ts";
import { CommandError, type Context, type ExitCode, UsageError } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";
import { record } from "./audit.ts";
import { keysIn, withStore } from "./storage.ts";

type Options = { readonly json?: boolean };

export function listBudgets(context: Context, { json }: Options): Promise<ExitCode> {
  return withStore(context, async (store, config) =>
    show(context, store, await rulesIn(store, config), json, config.budgets),
  );
}

export function setBudget(
  context: Context,
  given: string,
  period: BudgetPeriod,
  dollars: number,
  options: Options,
): Promise<ExitCode> {
  return changeBudget(context, "budget.set", given, period, options, async ({ budgets }, scope, config) => {
    const before = new BudgetRules(config.budgets, await budgets.list()).ofScope(scope);
    const isNew = !before.some((rule) => rule.period === period);
    await budgets.set({ scope, period, limit: microsFrom(dollars), updatedAt: systemClock.now() }, isNew);
  });
}

export function topUpBudget(
  context: Context,
  given: string,
  period: BudgetPeriod,
  dollars: number,
  options: Options,
): Promise<ExitCode> {
  return changeBudget(context, "budget.top-up", given, period, options, async ({ budgets }, scope) => {
    const limit = await budgets.add({ scope, period }, microsFrom(dollars), systemClock.now());
    if (limit === undefined) throw new CommandError(`No budget ${scope} ${period} was set: set it first.`);
  });
}

export function removeBudget(
  context: Context,
  given: string,
  period: BudgetPeriod,
  options: Options,
): Promise<ExitCode> {
  return changeBudget(context, "budget.remove", given, period, options, async ({ budgets }, scope) => {
    if (!(await budgets.remove({ scope, period })))
      throw new CommandError(`No budget ${scope} ${period} was set; what the configuration says is changed there.`);
  });
}

/** Changes one budget, writes its audit line, and shows the budget. */
function changeBudget(
  context: Context,
  act: string,
  given: string,
  period: BudgetPeriod,
  { json }: Options,
  change: (store: Store, scope: string, config: Config) => Promise<void>,
): Promise<ExitCode> {
  return withStore(context, async (store, config) => {
    const scope = await scopeFrom(store, config, given);
    const rules = async () =>
      (await rulesIn(store, config)).filter((rule) => rule.scope === scope && rule.period === period);
    const audited = async () => {
      const [one] = await statesOf(store, await rules());
      return one && { object: "budget", ...budgetJson(one, null) };
    };
    const before = await audited();
    await change(store, scope, config);
    await record(context, store, { act, subject: `${scope}/${period}`, before, after: await audited() });
    const isRemoved = act === "budget.remove";
    if (isRemoved) context.io.stderr.write(`${scope} ${period} is removed.\n`);
    if (!isRemoved || json) await show(context, store, await rules(), json);
  });
}

/** @throws UsageError for what is no scope, KeyError for what fits no key or several */
async function scopeFrom(store: OpenedStore, config: Config, given: string): Promise<string> {
  const { whose, model } = partsOfScope(given);
  const fault = model === undefined ? undefined : faultOfBudgetModel(model, config);
  if (fault !== undefined) throw new UsageError(`model: ${fault}`);
  const [kind, name] = [kindOf(given), nameOf(given)];
  if (whose === "all" || (kind === "tier" && tiers.some((tier) => tier === name))) return given;
  if (kind === "tag" && isTag(name)) return given;
  if (kind === "tag" || kind === "tier") throw new UsageError(`'${whose}' names no ${kind}.`);
  const key = kind === "key" && name !== "" ? name : whose;
  return budgetScope(`key:${(await (await keysIn(store, config)).show(key)).id}`, model);
}

async function rulesIn(store: Store, config: Config): Promise<readonly Rule[]> {
  return new BudgetRules(config.budgets, await store.budgets.list()).all();
}

const statesOf = (store: Store, rules: readonly Rule[]): Promise<BudgetState[]> =>
  budgetStates(store.budgets, rules, systemClock.now());

/** @param perKey what each key has that has no budget of its own */
async function show(
  { io }: Context,
  store: Store,
  rules: readonly Rule[],
  json = false,
  { keys, models = {} }: Partial<Config["budgets"]> = {},
): Promise<void> {
  const names = new Map((await store.keys.list()).map(({ id, name }) => [`key:${id}`, name]));
  const all = (await statesOf(store, rules)).map((state) => ({
    ...{ state, name: names.get(partsOfScope(state.scope).whose) ?? null },
  }));
  const defaults = [
    [undefined, keys] as const,
    ...Object.entries(models).map(([model, one]) => [model, one.keys] as const),
  ]
    .flatMap(([model, limits = {}]) => periods.map((period): Default => ({ model, period, dollars: limits[period] })))
    .filter(({ dollars }) => dollars !== undefined);
  if (json) printJson(io, [...all.map(({ state, name }) => budgetJson(state, name)), ...defaults.map(defaultJson)]);
  else if (all.length + defaults.length === 0)
    io.stderr.write("There are no budgets yet: troupe budgets set <scope> <period> <dollars> makes one.\n");
  else io.stdout.write(formatTable(columns, [...all.map(rowFrom), ...defaults.map(defaultRow)]));
}

type Default = {
  readonly model: string | undefined;
  readonly period: BudgetPeriod;
  readonly dollars: number | undefined;
};
const eachKey = "each key";
const defaultRow = ({ model, period, dollars }: Default) => [
  ...[budgetScope(eachKey, model), "", period, formatDollars(microsFrom(dollars!))],
  ...["", "", "", "configuration"],
];
const defaultJson = ({ model, period, dollars }: Default) => ({
  ...{ id: null, scope: budgetScope(eachKey, model), ...(model !== undefined && { model }), name: null },
  ...{ period, origin: "configuration", dollars },
  ...{ span: null, spent: null, reserved: null, left: null, resets_at: null },
});

const columns = ["scope", "name", "period", "budget", "spent", "reserved", "left", "origin"];

const rowFrom = ({ state, name }: { readonly state: BudgetState; readonly name: string | null }) => [
  state.scope,
  name ?? "",
  state.period,
  ...[state.limit, state.spent, state.reserved, leftOf(state)].map(formatDollars),
  originOf(state),
];
