/** The admin API's routes of budgets. */
import { Type } from "@sinclair/typebox";
import { isTag } from "../auth/key-spec.ts";
import type { RequestContext } from "../http/context.ts";
import { describeOperation } from "../http/openapi/describe.ts";
import { jsonAnswer } from "../http/respond.ts";
import { type Route, restOfPath } from "../http/routes.ts";
import type { Services } from "../http/services.ts";
import { ApiError } from "../protocols/errors.ts";
import { tiers } from "../protocols/tiers.ts";
import { needsStorage } from "../store/require-storage.ts";
import type { BudgetPeriod } from "../store/usage.ts";
import type { Rule } from "../usage/budget-rules.ts";
import { budgetJson, budgetStates } from "../usage/budget-states.ts";
import { microsFrom, periods } from "../usage/spans.ts";
import { type Actor, admitAdmin, record } from "./act.ts";
import { Query, readBody } from "./bodies.ts";
import { keyed, listParameters, pageOf, pageSchema, writing } from "./pages.ts";
import { keyNames } from "./usage.ts";

const maxDollars = 1_000_000_000;
const Dollars = Type.Object(
  { dollars: Type.Number({ minimum: 0, maximum: maxDollars }) },
  { additionalProperties: false },
);
const Budget = Type.Object({
  object: Type.Literal("budget"),
  id: Type.String({ description: "<scope>/<period>" }),
  scope: Type.String({ description: "key:<id>, tag:<name>, tier:<name> or all." }),
  name: Type.Union([Type.String(), Type.Null()], { description: "The key's, where it is a key's budget." }),
  period: Type.String({ description: "day or month, in UTC, or prepaid." }),
  origin: Type.String({ description: "set: by this API or troupe budgets; configuration." }),
  dollars: Type.Number(),
  span: Type.String(),
  spent: Type.Number({ description: "Dollars, here and below." }),
  reserved: Type.Number({ description: "By calls that are under way." }),
  left: Type.Number(),
  resets_at: Type.Union([Type.String(), Type.Null()]),
});

type Named = { readonly scope: string; readonly period: BudgetPeriod };

/** What is spent, reserved and left of each. */
async function budgetsJson(services: Services, rules: readonly Rule[]) {
  const { store, clock } = services;
  const states = await needsStorage(() => budgetStates(store.budgets, rules, clock.now()));
  const names = states.some(({ scope }) => isOfKey(scope)) ? await keyNames(services) : new Map<string, string>();
  return states.map((state) => ({
    object: "budget",
    ...budgetJson(state, isOfKey(state.scope) ? (names.get(state.scope.slice(keyScope.length)) ?? null) : null),
  }));
}

const keyScope = "key:";
const isOfKey = (scope: string) => scope.startsWith(keyScope);

const base = "/v1/budgets";

/** @throws ApiError invalid_value, not_found where it is the budget of no key */
async function named(services: Services, context: RequestContext): Promise<Named> {
  const [scope = "", period = ""] = restOfPath(context, `${base}/`)
    .replace(/\/top-up$/, "")
    .split("/");
  if (!(periods as readonly string[]).includes(period)) {
    throw ApiError.invalidValue("period", `period must be one of ${periods.join(", ")}.`);
  }
  const [kind, name = ""] = scope.split(":", 2);
  const isScope =
    scope === "all" ||
    (kind === "tag" && isTag(name)) ||
    (kind === "tier" && (tiers as readonly string[]).includes(name)) ||
    (kind === "key" && name !== "");
  if (!isScope) throw ApiError.invalidValue("scope", "scope must be key:<id>, tag:<name>, tier:<name> or all.");
  if (kind === "key" && !(await needsStorage(() => services.keys.list())).some(({ id }) => id === name)) {
    throw ApiError.notFound("There is no such key.", "scope");
  }
  return { scope, period: period as BudgetPeriod };
}

async function ruleOf(services: Services, { scope, period }: Named): Promise<Rule | undefined> {
  await needsStorage(() => services.budgets.load());
  return services.budgets.rules.ofScope(scope).find((rule) => rule.period === period);
}

async function told(services: Services, name: Named) {
  const rule = await ruleOf(services, name);
  return rule && (await budgetsJson(services, [rule]))[0];
}

/**
 * Makes a change, and the line that tells of it.
 * @param change rejects where there is nothing to change; `isNew`: no such budget was known
 * @returns the budget's id, and what it is now: undefined where there is none any more
 */
async function changed(
  services: Services,
  context: RequestContext,
  actor: Actor,
  act: string,
  change: (name: Named, isNew: boolean) => Promise<void>,
) {
  const name = await named(services, context);
  const before = await told(services, name);
  await needsStorage(() => change(name, before === undefined));
  const after = await told(services, name);
  const id = `${name.scope}/${name.period}`;
  await record(services, context, actor, { act, subject: id, before, after });
  return { id, after };
}

/** What a route does that takes a sum for one budget, and returns the budget. @param change takes the sum in micro-dollars */
const givingSum =
  (
    act: string,
    change: (services: Services, name: Named, amount: number, isNew: boolean) => Promise<void>,
  ): Route["run"] =>
  async (services, context) => {
    const actor = await admitAdmin(services, context);
    const { dollars } = await readBody(services, context, Dollars);
    const { after } = await changed(services, context, actor, act, (name, isNew) =>
      change(services, name, microsFrom(dollars), isNew),
    );
    return jsonAnswer(after);
  };

const describe = (operation: Omit<Parameters<typeof describeOperation>[0], "tag">) =>
  describeOperation({ tag: "Admin", ...operation, errors: [...keyed, ...(operation.errors ?? [])] });
const inPath = ["scope", "period"].map((name) => ({ name, in: "path", required: true, schema: { type: "string" } }));
const fifty = { dollars: { summary: "50 dollars", value: { dollars: 50 } } };

/** What is said of a route that takes a sum for one budget, and returns the budget. */
const sumOfOne = {
  parameters: inPath,
  body: { schema: Dollars, examples: fifty },
  response: { schema: Budget },
  errors: [404, ...writing],
};

export const budgetRoutes: readonly Route[] = [
  {
    method: "GET",
    path: base,
    area: "admin",
    detail: describe({
      operationId: "adminListBudgets",
      summary: "Budgets, with what is spent, reserved and left of each",
      parameters: listParameters(["scope"], 1000, 100),
      response: { schema: pageSchema(Budget) },
      errors: [400, 404],
    }),
    run: async (services, context) => {
      await admitAdmin(services, context);
      const query = new Query(context);
      await needsStorage(() => services.budgets.load());
      const { rules } = services.budgets;
      const scope = query.text("scope");
      const wanted = scope === undefined ? rules.all() : rules.ofScope(scope);
      const { data, ...rest } = pageOf(
        wanted.map((rule) => ({ ...rule, id: `${rule.scope}/${rule.period}` })),
        query.text("after"),
        query.limit(100, 1000),
      );
      return jsonAnswer({ ...rest, data: await budgetsJson(services, data) });
    },
  },
  {
    method: "PUT",
    path: `${base}/:scope/:period`,
    area: "admin",
    detail: describe({
      operationId: "adminSetBudget",
      summary: "Sets a budget, from the next call on; what was spent stays spent",
      ...sumOfOne,
    }),
    run: givingSum("budget.set", ({ store, clock }, name, limit, isNew) =>
      store.budgets.set({ ...name, limit, updatedAt: clock.now() }, isNew),
    ),
  },
  {
    method: "POST",
    path: `${base}/:scope/:period/top-up`,
    area: "admin",
    detail: describe({
      operationId: "adminTopUpBudget",
      summary: "Raises a budget that was set by so many dollars",
      ...sumOfOne,
    }),
    run: givingSum("budget.top-up", async ({ store, clock }, name, amount) => {
      const limit = await store.budgets.add(name, amount, clock.now());
      if (limit === undefined) throw ApiError.notFound("No such budget was set: set it first.", "scope");
    }),
  },
  {
    method: "DELETE",
    path: `${base}/:scope/:period`,
    area: "admin",
    detail: describe({
      operationId: "adminRemoveBudget",
      summary: "Removes a budget that was set; one of the configuration then applies again",
      parameters: inPath,
      response: {
        schema: Type.Object({ object: Type.Literal("budget.deleted"), id: Type.String(), deleted: Type.Literal(true) }),
      },
      errors: [400, 404],
    }),
    run: async (services, context) => {
      const actor = await admitAdmin(services, context);
      const { id } = await changed(services, context, actor, "budget.remove", async (name) => {
        if (!(await services.store.budgets.remove(name))) throw ApiError.notFound("No such budget was set.", "scope");
      });
      return jsonAnswer({ object: "budget.deleted", id, deleted: true });
    },
  },
];
