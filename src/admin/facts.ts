/** The admin API's routes of facts: which count, what they do not know, newer ones and those before. */
import { Facts, ReconciliationList } from "../api/facts.ts";
import type { Services } from "../call/services.ts";
import { writing } from "../http/openapi/describe.ts";
import { namedModels } from "../operate/checks/named-models.ts";
import { doubtsOf, factsState, rollBackFacts, updateFacts } from "../operate/facts.ts";
import { lastReconciled } from "../operate/reconciliations.ts";
import { ApiError } from "../protocols/errors.ts";
import { modelEndOf } from "../upstream/model-lists.ts";
import { calledModels } from "../usage/prices/concerns.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation } from "./pages.ts";

async function factsJson(services: Services): Promise<Facts> {
  const { clock, facts, live, modelLists, personas, store } = services;
  const { accounts, config, prices } = live;
  const now = clock.now();
  const called = await calledModels(store.ledger, now);
  const ids = [...new Set([...namedModels(personas.list(), config), ...called])];
  const known = { state: facts.state, settings: config.facts, keys: facts.keys, pricesAsOf: prices.list.asOf, now };
  const listedEnd = (account: string, model: string) => {
    const bound = accounts.find(account);
    return bound && modelEndOf(bound, model, modelLists.find(bound, model));
  };
  return {
    object: "facts",
    ...factsState(known),
    models_in_use: ids.length,
    models: doubtsOf(ids, { accounts, prices, now, endOf: listedEnd }),
  };
}

export const factsRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/facts",
      ({ services }) => factsJson(services),
      adminOperation({
        operationId: "adminGetFacts",
        summary: "Which facts of models and prices count, how old they are, and what is not known of the models in use",
        response: Facts,
      }),
    )
    .get(
      "/v1/reconciliations",
      async ({ services: { store } }) => ({
        object: "list" as const,
        data: await lastReconciled(store.audit),
      }),
      adminOperation({
        operationId: "adminListReconciliations",
        summary: "How the ledger last compared with each vendor's own reports, by 'troupe reconcile'",
        response: ReconciliationList,
      }),
    )
    .post(
      "/v1/facts/update",
      async ({ services, operator }) => {
        const { from } = services.live.config.facts;
        if (from === undefined)
          throw ApiError.invalidValue(
            "facts.from",
            "The configuration does not say where newer facts are: facts.from.",
          );
        await updateFacts(operator, async () => {
          const failure = await services.facts.lookNow(from);
          if (failure !== undefined) throw ApiError.invalidValue("facts.from", failure);
        });
        return factsJson(services);
      },
      adminOperation({
        operationId: "adminUpdateFacts",
        summary:
          "Looks for newer facts where facts.from says, and takes those that are proved and that nothing speaks against",
        response: Facts,
        errors: writing,
      }),
    )
    .post(
      "/v1/facts/rollback",
      async ({ services, operator }) => {
        const gone = await rollBackFacts(operator);
        if (gone === undefined)
          throw ApiError.notFound("The facts in the executable count: there are none to go back from.", "");
        return factsJson(services);
      },
      adminOperation({
        operationId: "adminRollBackFacts",
        summary: "Has the facts count that did before; those gone back from are not taken again by themselves",
        response: Facts,
        errors: [404, ...writing],
      }),
    );
