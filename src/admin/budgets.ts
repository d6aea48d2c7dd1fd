/** The admin API's routes of budgets. */
import { Type } from "@sinclair/typebox";
import { Budget } from "../api/budgets.ts";
import { pageSchema } from "../api/shape.ts";
import { healths, periods } from "../api/words.ts";
import { oneOf, queryOf, writing } from "../http/openapi/describe.ts";
import { Closed } from "../lib/json/schemas.ts";
import { budgetsJson, removeBudget, rulesOf, setBudget, topUpBudget } from "../operate/budgets.ts";
import { kindOf } from "../usage/budgets/forecast.ts";
import { budgetId } from "../usage/budgets/states.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, pageOf, pageParameters, text } from "./pages.ts";

const maxDollars = 1_000_000_000;
const Dollars = Closed({ dollars: Type.Number({ minimum: 0, maximum: maxDollars }) });
const Named = Type.Object({ scope: Type.String(), period: oneOf(periods) });

type Ending = Pick<Budget, "state" | "runs_out_at">;

/** Spent ones, then those that run out, the first to do so first, then those that are low and last. */
function endingFirst<T extends Ending>(all: readonly T[]): T[] {
  const urgency = ({ state, runs_out_at: at }: Ending) =>
    state === "spent" ? 0 : at === null ? Number.POSITIVE_INFINITY : Date.parse(at);
  return all
    .filter(({ state, runs_out_at: at }) => state !== "ok" || at !== null)
    .sort((a, b) => (urgency(a) === urgency(b) ? 0 : urgency(a) - urgency(b)));
}

/** Parts of routes that take a sum for one budget, and return the budget. */
const sumOfOne = {
  params: Named,
  body: Dollars,
  examples: { fifty: { summary: "50 dollars", value: { dollars: 50 } } },
  response: Budget,
  errors: [404, ...writing],
};

export const budgetRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/budgets",
      async ({ operator, query: { scope, kind, period, state, ending, after, limit } }) => {
        const rules = await rulesOf(operator);
        const wanted = (scope === undefined ? rules.all() : rules.ofAnyModel(scope)).filter(
          (rule) =>
            (kind === undefined || kindOf(rule.scope) === kind) && (period === undefined || rule.period === period),
        );
        if (state !== undefined || ending === "true") {
          const all = await budgetsJson(operator, wanted);
          const chosen = all.filter((budget) => state === undefined || budget.state === state);
          return pageOf(ending === "true" ? endingFirst(chosen) : chosen, after, limit);
        }
        const named = wanted.map((rule) => ({ ...rule, id: budgetId(rule) }));
        const { data, ...rest } = pageOf(named, after, limit);
        return { ...rest, data: await budgetsJson(operator, data) };
      },
      adminOperation({
        operationId: "adminListBudgets",
        summary: "Budgets, with what is spent, reserved and left of each, and when they run out",
        query: queryOf({
          scope: text(),
          kind: Type.Optional(oneOf(["key", "tag", "tier", "all"], { description: "Only scopes of that kind." })),
          period: Type.Optional(oneOf(periods)),
          state: Type.Optional(oneOf(healths)),
          ending: Type.Optional(
            oneOf(["true", "false"], {
              description:
                "true: only those that are low, spent or run out; spent ones first, then the first to run out.",
            }),
          ),
          ...pageParameters(1000, 100),
        }),
        response: pageSchema(Budget),
        errors: [400, 404],
      }),
    )
    .put(
      "/v1/budgets/:scope/:period",
      async ({ operator, params, body }) => (await setBudget(operator, params, body.dollars)).after,
      adminOperation({
        operationId: "adminSetBudget",
        summary: "Sets a budget, from the next call on; what was spent stays spent",
        ...sumOfOne,
      }),
    )
    .post(
      "/v1/budgets/:scope/:period/top-up",
      async ({ operator, params, body }) => (await topUpBudget(operator, params, body.dollars)).after,
      adminOperation({
        operationId: "adminTopUpBudget",
        summary: "Raises a budget that was set by so many dollars",
        ...sumOfOne,
      }),
    )
    .delete(
      "/v1/budgets/:scope/:period",
      async ({ operator, params }) => {
        await removeBudget(operator, params);
        return { object: "budget.deleted", id: budgetId(params), deleted: true };
      },
      adminOperation({
        operationId: "adminRemoveBudget",
        summary: "Removes a budget that was set; one of the configuration then applies again",
        params: Named,
        response: Type.Object({
          object: Type.Literal("budget.deleted"),
          id: Type.String(),
          deleted: Type.Literal(true),
        }),
        errors: [400, 404],
      }),
    );
