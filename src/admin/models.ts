/** The admin API's list of providers' models: what is known of each, when it ends, and which lists of providers that comes from. */
import { Type } from "@sinclair/typebox";
import { ModelEnding, ModelPage } from "../api/models.ts";
import { pageSchema } from "../api/shape.ts";
import type { Services } from "../call/services.ts";
import { endState } from "../facts/endings.ts";
import { havingAll } from "../http/models/model-facts.ts";
import { gatewayModels } from "../http/models/models.ts";
import { queryOf } from "../http/openapi/describe.ts";
import { dayMs } from "../lib/time/duration.ts";
import { formatModelId } from "../protocols/model-id.ts";
import { capabilityNames } from "../protocols/models.ts";
import { modelEndOf } from "../upstream/model-lists.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, pageOf, pageParameters, text } from "./pages.ts";

/** What refusals taught the process that answers. */
const learnedOf = ({ learned }: Services) =>
  learned.list().map(({ until, ...fact }) => ({ ...fact, until: new Date(until).toISOString() }));

/** Providers that have a list, as the process knows it that answers. */
function listsOf({ live, modelLists }: Services) {
  return live.accounts.list().flatMap((bound) => {
    if (bound.provider.kind === "local" || bound.provider.modelList === undefined) return [];
    const list = modelLists.of(bound);
    return {
      provider: bound.account.name,
      listed_at: list === undefined ? null : new Date(list.at).toISOString(),
      models: list?.models.size ?? 0,
      failure: modelLists.failureOf(bound) ?? null,
    };
  });
}

const usedMs = 7 * dayMs;
/** Of one question; models that nobody serves fall away. */
const maxUsed = 10_000;

/** Models that were called of late and have an end, whether a list of their provider's has them or not. */
async function endingModels({ store, live, modelLists, clock }: Services) {
  const now = clock.now();
  const period = { since: Math.floor((now - usedMs) / dayMs) * dayMs, until: now + dayMs };
  const sums = await store.ledger.sums(period, ["provider", "upstream_model"], { limit: maxUsed });
  const found = sums.flatMap(({ group: [provider = "", model = ""], calls }) => {
    const bound = live.accounts.find(provider);
    const ends = bound && modelEndOf(bound, model, modelLists.find(bound, model));
    if (ends === undefined) return [];
    const id = formatModelId({ namespace: provider, name: model });
    return {
      object: "model.ending" as const,
      id,
      provider,
      model,
      shutdown_date: ends,
      end_state: endState(ends, now),
      calls,
    };
  });
  return found.sort((a, b) => Date.parse(a.shutdown_date) - Date.parse(b.shutdown_date));
}

export const modelRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/models/ending",
      async ({ services, query: { after, limit } }) => pageOf(await endingModels(services), after, limit),
      adminOperation({
        operationId: "adminListEndingModels",
        summary: "Models that were called in the last seven days and whose end is announced, the first to end first",
        query: queryOf(pageParameters(1000, 100)),
        response: pageSchema(ModelEnding),
        errors: [400, 404],
      }),
    )
    .get(
      "/v1/models",
      ({ services, query: { provider, ending, has, after, limit } }) => {
        const isWanted = has === undefined ? undefined : havingAll(has);
        const now = services.clock.now();
        const all = gatewayModels(services).flatMap((model) => {
          const { owned_by: owner, shutdown_date: ends } = model;
          const state = ends === undefined ? null : endState(ends, now);
          if (isWanted?.(model) === false) return [];
          if (provider !== undefined && owner !== provider) return [];
          if (ending === "true" && (state === null || state === "later")) return [];
          return { ...model, end_state: state };
        });
        return { ...pageOf(all, after, limit), lists: listsOf(services), learned: learnedOf(services) };
      },
      adminOperation({
        operationId: "adminListModels",
        summary: "The providers' models that are known here, and when each ends",
        query: queryOf({
          provider: text("Of that one alone."),
          has: text(
            `Only those that are known to have all of these, with commas between: ${capabilityNames.join(", ")}.`,
          ),
          ending: Type.Optional(
            Type.Union([Type.Literal("true"), Type.Literal("false")], {
              description: "true: only those that have ended, or end within six months.",
            }),
          ),
          ...pageParameters(1000, 100),
        }),
        response: ModelPage,
        errors: [400, 404],
      }),
    );
