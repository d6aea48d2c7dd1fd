/** The OpenAPI operation of a key's own usage. */
import { Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { describeOperation } from "./describe.ts";
import { keyed, tags } from "./descriptions.ts";

const Totals = {
  calls: Type.Integer({ description: "Attempts, however they ended." }),
  ended: Type.Record(Type.String(), Type.Integer()),
  tokens: Type.Record(Type.String(), Type.Integer()),
  cost_micro_dollars: Type.Integer({ description: "Millionths of a dollar, of the calls whose cost is known." }),
  costs_micro_dollars: Type.Record(Type.String(), Type.Integer()),
  unknown_cost_calls: Type.Integer({ description: "How many calls the cost leaves out." }),
  estimated_calls: Type.Integer({ description: "How many calls have estimated counts." }),
};

const Usage = Type.Object({
  object: Type.Literal("usage"),
  since: Type.String(),
  until: Type.String(),
  by: Type.Array(Type.String()),
  data: Type.Array(Type.Object(Totals, { description: "With a member for each group, such as day." })),
  total: Type.Object(Totals),
});

const parameter = (name: string, description: string) => ({
  name,
  in: "query",
  schema: { type: "string" },
  description,
});

export function describeUsage(surface: SurfaceName): Record<string, unknown> {
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}Usage`,
    summary: "What the key's calls used and cost",
    description: "By the ledger; on both surfaces together.",
    errors: [400, 403, ...keyed],
    response: { schema: Usage },
    parameters: [
      parameter(
        "by",
        "1 to 3 of day, key, tag, surface, format, model, persona, provider, upstream_model. Default: day.",
      ),
      parameter("since", "A day (2026-11-22), a time, or a span (7d, 24h). Default: 30 days."),
      parameter("until", "Likewise. Default: the end of today in UTC."),
      parameter("tag", "Only calls with that tag."),
      parameter("model", "Only calls that asked for that model."),
      parameter("persona", "Only calls of that persona."),
      parameter("provider", "Only calls to that provider."),
      {
        name: "limit",
        in: "query",
        schema: { type: "integer", minimum: 1, maximum: 10_000 },
        description: "The most rows.",
      },
    ],
  });
}
