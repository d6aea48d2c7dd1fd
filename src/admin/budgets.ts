/** The admin API's routes of budgets. */
import { type Static, Type } from "@sinclair/typebox";
import { Budget, scopeWords } from "../api/budgets.ts";
import { pageSchema } from "../api/shape.ts";
import { healths, periods } from "../api/words.ts";
import { isTag } from "../auth/key-spec.ts";
import type { Services } from "../call/services.ts";
import { faultOfBudgetModel } from "../http/models/model-patterns.ts";
import { oneOf, queryOf, writing } from "../http/openapi/describe.ts";
import { Closed } from "../lib/json/schemas.ts";
import { isoTime } from "../lib/time/clock.ts";
import { ApiError } from "../protocols/errors.ts";
import { tiers } from "../protocols/tiers.ts";
import type { Act } from "../store/audit.ts";
import { partsOfScope } from "../store/charges.ts";
import { needsStorage } from "../store/require-storage.ts";
import { healthOf, kindOf, nameOf, recentSpending, runsOutAt } from "../usage/budgets/forecast.ts";
import type { Rule } from "../usage/budgets/rules.ts";
import { budgetJson, budgetStates } from "../usage/budgets/states.ts";
import { microsFrom } from "../usage/spans.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, pageOf, pageParameters, text } from "./pages.ts";
import { keyNames } from "./usage.ts";

const maxDollars = 1_000_000_000;
const Dollars = Closed({ dollars: Type.Number({ minimum: 0, maximum: maxDollars }) });
const Named = Type.Object({ scope: Type.String(), period: oneOf(periods) });
type Named = Static<typeof Named>;

/** Reads what is spent, reserved and left of each, and how long it will last. */
export async function budgetsJson(services: Services, rules: readonly Rule[]): Promise<Budget[]> {
  const { store, clock } = services;
  const now = clock.now();
  const states = await needsStorage(() => budgetStates(store.budgets, rules, now));
  const recent = await needsStorage(() => recentSpending(store.ledger, rules, now));
  const names = states.some(({ scope }) => isOfKey(scope)) ? await keyNames(services) : new Map<string, string>();
  return states.map((state) => ({
    object: "budget" as const,
    ...budgetJson(state, isOfKey(state.scope) ? (names.get(nameOf(state.scope)) ?? null) : null),
    state: healthOf(state),
    runs_out_at: isoTime(runsOutAt(state, now, recent)),
  }));
}

type Ending = Pick<Budget, "state" | "runs_out_at">;

/** Spent ones, then those that run out, the first to do so first, then those that are low and last. */
function endingFirst<T extends Ending>(all: readonly T[]): T[] {
  const urgency = ({ state, runs_out_at: at }: Ending) =>
    state === "spent" ? 0 : at === null ? Number.POSITIVE_INFINITY : Date.parse(at);
  return all
    .filter(({ state, runs_out_at: at }) => state !== "ok" || at !== null)
    .sort((a, b) => (urgency(a) === urgency(b) ? 0 : urgency(a) - urgency(b)));
}

const isOfKey = (scope: string) => kindOf(scope) === "key";

/** @throws ApiError invalid_value, not_found where it is the budget of no key */
async function checkScope({ keys, live }: Services, scope: string): Promise<void> {
  const [kind, name] = [kindOf(scope), nameOf(scope)];
  const { whose, model } = partsOfScope(scope);
  const isScope =
    whose === "all" ||
    (kind === "tag" && isTag(name)) ||
    (kind === "tier" && (tiers as readonly string[]).includes(name)) ||
    (kind === "key" && name !== "");
  if (!isScope) throw ApiError.invalidValue("scope", `scope must be ${scopeWords}`);
  const fault = model === undefined ? undefined : faultOfBudgetModel(model, live.config);
  if (fault !== undefined) throw ApiError.invalidValue("scope", `scope: ${fault}`);
  if (kind === "key" && (await needsStorage(() => keys.named(name))) === undefined)
    throw ApiError.notFound("There is no such key.", "scope");
}

async function find(services: Services, { scope, period }: Named) {
  await needsStorage(() => services.budgets.load());
  const rule = services.budgets.rules.ofScope(scope).find((one) => one.period === period);
  return rule && (await budgetsJson(services, [rule]))[0];
}

type Acting = {
  readonly services: Services;
  readonly params: Named;
  readonly record: (act: Act) => Promise<void>;
};

/**
 * Makes a change, and the line that records it.
 * @param change rejects where there is nothing to change; `isNew`: no such budget was known
 * @returns the budget as it is now: undefined where there is none any more
 */
async function changed({ services, params, record }: Acting, act: string, change: (isNew: boolean) => Promise<void>) {
  await checkScope(services, params.scope);
  const before = await find(services, params);
  await needsStorage(() => change(before === undefined));
  const after = await find(services, params);
  await record({ act, subject: `${params.scope}/${params.period}`, before, after });
  return after;
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
      async ({ services, query: { scope, kind, period, state, ending, after, limit } }) => {
        await needsStorage(() => services.budgets.load());
        const { rules } = services.budgets;
        const wanted = (scope === undefined ? rules.all() : rules.ofAnyModel(scope)).filter(
          (rule) =>
            (kind === undefined || kindOf(rule.scope) === kind) && (period === undefined || rule.period === period),
        );
        if (state !== undefined || ending === "true") {
          const all = await budgetsJson(services, wanted);
          const chosen = all.filter((budget) => state === undefined || budget.state === state);
          return pageOf(ending === "true" ? endingFirst(chosen) : chosen, after, limit);
        }
        const named = wanted.map((rule) => ({ ...rule, id: `${rule.scope}/${rule.period}` }));
        const { data, ...rest } = pageOf(named, after, limit);
        return { ...rest, data: await budgetsJson(services, data) };
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
      async ({ services, params, body, record }) =>
        (await changed({ services, params, record }, "budget.set", (isNew) =>
          services.store.budgets.set(
            { ...params, limit: microsFrom(body.dollars), updatedAt: services.clock.now() },
            isNew,
          ),
        ))!,
      adminOperation({
        operationId: "adminSetBudget",
        summary: "Sets a budget, from the next call on; what was spent stays spent",
        ...sumOfOne,
      }),
    )
    .post(
      "/v1/budgets/:scope/:period/top-up",
      async ({ services, params, body, record }) =>
        (await changed({ services, params, record }, "budget.top-up", async () => {
          const limit = await services.store.budgets.add(params, microsFrom(body.dollars), services.clock.now());
          if (limit === undefined) throw ApiError.notFound("No such budget was set: set it first.", "scope");
        }))!,
      adminOperation({
        operationId: "adminTopUpBudget",
        summary: "Raises a budget that was set by so many dollars",
        ...sumOfOne,
      }),
    )
    .delete(
      "/v1/budgets/:scope/:period",
      async ({ services, params, record }) => {
        await changed({ services, params, record }, "budget.remove", async () => {
          if (!(await services.store.budgets.remove(params)))
            throw ApiError.notFound("No such budget was set.", "scope");
        });
        return { object: "budget.deleted", id: `${params.scope}/${params.period}`, deleted: true };
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
