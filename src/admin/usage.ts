/** The admin API's route of sums over the ledger. */
import { Type } from "@sinclair/typebox";
import { describeOperation } from "../http/openapi/describe.ts";
import { jsonAnswer } from "../http/respond.ts";
import type { Route } from "../http/routes.ts";
import { isoTime } from "../lib/clock.ts";
import { snakeCaseNumbered } from "../lib/snake-case.ts";
import { ApiError } from "../protocols/errors.ts";
import { needsStorage } from "../store/require-storage.ts";
import {
  callEnds,
  costKinds,
  type LedgerFilter,
  type LedgerGroup,
  type LedgerSum,
  ledgerGroups,
  tokenKinds,
} from "../store/store.ts";
import { dollarsFrom } from "../usage/spans.ts";
import { admitAdmin } from "./act.ts";
import { Query } from "./bodies.ts";
import { keyed } from "./pages.ts";

/** The same record, its keys as JSON has them. */
export const snakeRecord = <V, W>(
  kinds: readonly string[],
  record: Readonly<Record<string, V>>,
  map: (value: V) => W,
) => Object.fromEntries(kinds.map((kind) => [snakeCaseNumbered(kind), map(record[kind]!)]));

const filterNames: Readonly<Record<string, keyof LedgerFilter>> = {
  key: "keyId",
  tag: "tag",
  surface: "surface",
  model: "model",
  persona: "persona",
  provider: "provider",
  upstream_model: "upstreamModel",
};
export const ledgerFilters = ["since", "until", ...Object.keys(filterNames)];

const dayMs = 86_400_000;

/** @param byDefault days back where the query has no beginning. @throws ApiError invalid_value */
export function filterFrom(query: Query, now: number, byDefault: number): LedgerFilter {
  const since = query.time("since") ?? now - byDefault * dayMs;
  const until = query.time("until") ?? now + 1;
  if (since >= until) throw ApiError.invalidValue("until", "until must be after since.");
  const named = Object.entries(filterNames).flatMap(([name, field]) => {
    const value = query.text(name);
    return value === undefined ? [] : [[field, value]];
  });
  return { since, until, ...Object.fromEntries(named) };
}

/** @throws ApiError invalid_value */
function groupsFrom(query: Query): LedgerGroup[] {
  const text = query.text("group_by");
  if (text === undefined || text === "") return [];
  return text.split(",").map((name) => {
    const group = ledgerGroups.find((one) => snakeCaseNumbered(one) === name);
    if (group !== undefined) return group;
    throw ApiError.invalidValue(
      "group_by",
      `group_by must be a list of ${ledgerGroups.map(snakeCaseNumbered).join(", ")}.`,
    );
  });
}

const sumJson = (groups: readonly LedgerGroup[], sum: LedgerSum) => ({
  ...Object.fromEntries(groups.map((group, at) => [snakeCaseNumbered(group), sum.group[at]])),
  calls: sum.calls,
  ended: snakeRecord(callEnds, sum.ended, (count) => count),
  tokens: snakeRecord(tokenKinds, sum.tokens, (count) => count),
  cost: dollarsFrom(sum.cost),
  costs: snakeRecord(costKinds, sum.costs, dollarsFrom),
  unknown_costs: sum.unknownCosts,
  estimated: sum.estimated,
});

const Sums = Type.Object({
  object: Type.Literal("list"),
  since: Type.String(),
  until: Type.String(),
  group_by: Type.Array(Type.String()),
  data: Type.Array(
    Type.Object(
      {
        calls: Type.Integer(),
        ended: Type.Record(Type.String(), Type.Integer()),
        tokens: Type.Record(Type.String(), Type.Integer()),
        cost: Type.Number({ description: "Dollars, of the calls whose cost is known." }),
        costs: Type.Record(Type.String(), Type.Number()),
        unknown_costs: Type.Integer({ description: "How many calls the cost leaves out." }),
        estimated: Type.Integer({ description: "How many calls have estimated counts." }),
      },
      { additionalProperties: true },
    ),
  ),
});

const known = [...ledgerFilters, "group_by", "limit"];

export const usageRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/usage",
    area: "admin",
    detail: describeOperation({
      tag: "Admin",
      operationId: "adminUsage",
      summary:
        "What all calls used and cost, by day, key, tag, surface, format, model, persona, provider or upstream_model",
      parameters: known.map((name) => ({
        name,
        in: "query",
        schema: { type: name === "limit" ? "integer" : "string" },
      })),
      response: { schema: Sums },
      errors: [400, ...keyed],
    }),
    run: async (services, context) => {
      await admitAdmin(services, context);
      const query = new Query(context, known);
      const filter = filterFrom(query, services.clock.now(), 30);
      const groups = groupsFrom(query);
      const limit = query.limit(100, 1000);
      const sums = await needsStorage(() => services.store.ledger.sums(filter, groups, limit));
      return jsonAnswer({
        object: "list",
        since: isoTime(filter.since),
        until: isoTime(filter.until),
        group_by: groups.map(snakeCaseNumbered),
        data: sums.map((sum) => sumJson(groups, sum)),
      });
    },
  },
];
