/** `GET /v1/usage`: what a key's own calls used and cost, by the ledger. */
import type { SurfaceName } from "../config/config.ts";
import { ApiError } from "../protocols/errors.ts";
import { needsStorage } from "../store/require-storage.ts";
import { parseUsageQuestion, reportUsage, type UsageQuery, UsageQueryError, usageJson } from "../usage/report.ts";
import { admit } from "./authenticate.ts";
import { describeUsage } from "./openapi/usage.ts";
import { jsonAnswer } from "./respond.ts";
import type { Route } from "./routes.ts";

/** A key sees its own calls alone, those on the other surface too. */
export function usageRoutes(surface: SurfaceName): Route[] {
  return [
    {
      method: "GET",
      path: "/v1/usage",
      area: surface,
      detail: describeUsage(surface),
      run: async (services, context) => {
        const caller = await admit(services, context, surface);
        const query = questionOf(context.query, caller.keyId, services.clock.now());
        // The last half second too.
        await services.ledger.flush();
        return jsonAnswer(usageJson(await needsStorage(() => reportUsage(services.store.ledger, query))));
      },
    },
  ];
}

const names = ["by", "since", "until", "tag", "model", "persona", "provider", "limit"] as const;

/** @throws ApiError invalid_value */
function questionOf(query: URLSearchParams, key: string, now: number): UsageQuery {
  const given = Object.fromEntries(names.map((name) => [name, query.get(name) ?? undefined]));
  try {
    return parseUsageQuestion({ ...given, key }, now);
  } catch (error) {
    if (error instanceof UsageQueryError) throw ApiError.invalidValue(error.param, error.message);
    throw error;
  }
}
