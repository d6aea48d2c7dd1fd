/** `troupe budgets`: what may be spent. A running server takes every change over with its next call. */
import type { Budget } from "../../api/budgets.ts";
import { type BudgetPeriod, periods } from "../../api/words.ts";
import type { Config } from "../../config/config.ts";
import type { Operator } from "../../operate/act.ts";
import * as acts from "../../operate/budgets.ts";
import { budgetScope, partsOfScope } from "../../store/ledger/charges.ts";
import { kindOf, scopeNameOf } from "../../usage/budgets/forecast.ts";
import { formatDollars, microsFrom } from "../../usage/money.ts";
import type { Context, ExitCode } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";
import { withOperator } from "./operator.ts";

type Options = { readonly json?: boolean };

export function listBudgets(context: Context, { json = false }: Options): Promise<ExitCode> {
  return withOperator(context, async (operator, config) => {
    const budgets = await acts.budgetsJson(operator, (await acts.rulesOf(operator)).all());
    show(context, budgets, defaultsIn(config.budgets), json);
  });
}

export const setBudget = (
  context: Context,
  given: string,
  period: BudgetPeriod,
  dollars: number,
  options: Options,
): Promise<ExitCode> =>
  change(context, given, period, options, (operator, budget) => acts.setBudget(operator, budget, dollars));

export const topUpBudget = (
  context: Context,
  given: string,
  period: BudgetPeriod,
  dollars: number,
  options: Options,
): Promise<ExitCode> =>
  change(context, given, period, options, (operator, budget) => acts.topUpBudget(operator, budget, dollars));

export const removeBudget = (
  context: Context,
  given: string,
  period: BudgetPeriod,
  options: Options,
): Promise<ExitCode> =>
  change(context, given, period, options, async (operator, budget) => {
    const { after } = await acts.removeBudget(operator, budget);
    context.io.stderr.write(`${budget.scope} ${period} is removed.\n`);
    return { after, isGone: true };
  });

/** Changes one budget, and shows it. */
function change(
  context: Context,
  given: string,
  period: BudgetPeriod,
  { json = false }: Options,
  act: (
    operator: Operator,
    budget: acts.BudgetName,
  ) => Promise<{ readonly after: Budget | undefined; readonly isGone?: boolean }>,
): Promise<ExitCode> {
  return withOperator(context, async (operator) => {
    const { after, isGone = false } = await act(operator, { scope: await scopeFrom(operator, given), period });
    const shown = after === undefined ? [] : [after];
    if (!isGone || json) show(context, shown, [], json);
  });
}

/** A key's budget may be named by whatever names the key. @throws KeyError for what fits no key or several */
async function scopeFrom({ keys }: Operator, given: string): Promise<string> {
  const { whose, model } = partsOfScope(given);
  const [kind, name] = [kindOf(given), scopeNameOf(given)];
  if (whose === "all" || kind === "tier" || kind === "tag") return given;
  const key = kind === "key" && name !== "" ? name : whose;
  return budgetScope(`key:${(await keys.show(key)).id}`, model);
}

function show({ io }: Context, budgets: readonly Budget[], defaults: readonly Default[], json: boolean): void {
  if (json) printJson(io, [...budgets.map(({ object: _, ...rest }) => rest), ...defaults.map(defaultJson)]);
  else if (budgets.length + defaults.length === 0)
    io.stderr.write("There are no budgets yet: troupe budgets set <scope> <period> <dollars> makes one.\n");
  else io.stdout.write(formatTable(columns, [...budgets.map(rowFrom), ...defaults.map(defaultRow)]));
}

/** What each key has that has no budget of its own. */
const defaultsIn = ({ keys, models = {} }: Config["budgets"]): Default[] =>
  [[undefined, keys] as const, ...Object.entries(models).map(([model, one]) => [model, one.keys] as const)]
    .flatMap(([model, limits = {}]) => periods.map((period): Default => ({ model, period, dollars: limits[period] })))
    .filter(({ dollars }) => dollars !== undefined);

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
  ...{ state: null, runs_out_at: null },
});

const columns = ["scope", "name", "period", "budget", "spent", "reserved", "left", "origin"];

const rowFrom = ({ scope, name, period, dollars, spent, reserved, left, origin }: Budget) => [
  ...[scope, name ?? "", period],
  ...[dollars, spent, reserved, left].map((sum) => formatDollars(microsFrom(sum))),
  origin,
];
