/** `GET /v1/usage`: what a key's own calls used and cost, by the ledger; and what the admin API's route of that name shares with it. */
import type { SurfaceName } from "../config/config.ts";
import { ApiError } from "../protocols/errors.ts";
import { needsStorage } from "../store/require-storage.ts";
import type { LedgerFilter } from "../store/usage.ts";
import { budgetStates, heldBudgetJson } from "../usage/budget-states.ts";
import {
  type KeyNames,
  parseFilter,
  parseUsageQuestion,
  UsageQueryError,
  type UsageQuestion,
  usagePage,
} from "../usage/report.ts";
import { admit } from "./authenticate.ts";
import type { RequestContext } from "./context.ts";
import { describeUsage } from "./openapi/usage.ts";
import { plainQuery } from "./plain-values.ts";
import { jsonAnswer } from "./respond.ts";
import type { Route } from "./routes.ts";
import type { Services } from "./services.ts";

/** A key sees its own calls alone, those on the other surface too. */
export function usageRoutes(surface: SurfaceName): Route[] {
  return [
    {
      method: "GET",
      path: "/v1/usage",
      area: surface,
      detail: describeUsage(surface),
      run: async (services, context) => {
        const { keyId, tier } = await admit(services, context, surface);
        const question = { ...questionOf(context), key: keyId };
        const page = await usageJson(services, context, question, async () => {
          const { name } = await needsStorage(() => services.keys.show(keyId));
          return new Map([[keyId, name]]);
        });
        const rules = services.budgets.rules.of({ keyId, tier, tags: context.tags });
        const { store, clock } = services;
        const budgets = await needsStorage(() => budgetStates(store.budgets, rules, clock.now()));
        return jsonAnswer({ ...page, budgets: budgets.map(heldBudgetJson) });
      },
    },
  ];
}

/** A page of usage. @throws ApiError invalid_value, storage_unavailable */
export async function usageJson(
  services: Services,
  context: RequestContext,
  question: UsageQuestion,
  keyNames: () => Promise<KeyNames>,
): Promise<Record<string, unknown>> {
  const query = asked(() => parseUsageQuestion(question, services.clock.now(), metadataOf(services)));
  // The last half second too.
  await services.ledger.flush();
  const names = query.by.includes("key") ? await keyNames() : new Map<string, string>();
  return needsStorage(() => usagePage(services.store.ledger, query, names, context.request.signal));
}

/** What a request's query chooses of the ledger. @param days how far back without a beginning. @throws ApiError invalid_value */
export const filterOf = (services: Services, context: RequestContext, days: number): LedgerFilter =>
  asked(() => parseFilter(questionOf(context), services.clock.now(), days, metadataOf(services)));

const metadataOf = ({ live }: Services) => live.config.usage.metadata;

/** The query as a question: `metadata[team]` asks for `metadata.team`. */
export function questionOf(context: RequestContext): UsageQuestion {
  return Object.fromEntries(
    [...plainQuery(context)].map(([name, value]) => [name.replace(/^metadata\[(.+)\]$/, "metadata.$1"), value]),
  );
}

/** @throws ApiError invalid_value */
function asked<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof UsageQueryError) throw ApiError.invalidValue(error.param, error.message);
    throw error;
  }
}
