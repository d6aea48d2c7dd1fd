/** The routes of stored responses: get, follow, delete, cancel, list the input. */
import type { SurfaceName } from "../config/config.ts";
import type { Holder } from "../conversations/conversations.ts";
import type { Paging } from "../conversations/pages.ts";
import { ApiError } from "../protocols/errors.ts";
import { responses } from "../protocols/responses/responses.ts";
import { errorEvent, itemsOfMessages } from "../protocols/responses/stored.ts";
import { admit } from "./authenticate.ts";
import type { RequestContext } from "./context.ts";
import { holderOf } from "./conversation.ts";
import { describeResponse } from "./openapi/stored-responses.ts";
import { plainQuery } from "./plain-values.ts";
import { type Finish, jsonAnswer, respondStream, respondWhole } from "./respond.ts";
import { type Route, restOfPath } from "./routes.ts";
import type { Services } from "./services.ts";
import { pagingOf } from "./stored.ts";
import { followEvents } from "./stored-events.ts";

const collection = "/v1/responses";
const format = responses.name;

export function responseRoutes(surface: SurfaceName): Route[] {
  const admitted = async (services: Services, context: RequestContext) =>
    holderOf(await admit(services, context, surface), surface);
  const shared = { area: surface, protocol: responses } as const;
  return [
    {
      ...shared,
      method: "GET",
      path: `${collection}/:id`,
      detail: describeResponse(surface, "get"),
      run: async (services, context, finish) => get(services, context, await admitted(services, context), finish),
    },
    {
      ...shared,
      method: "DELETE",
      path: `${collection}/:id`,
      detail: describeResponse(surface, "delete"),
      run: async (services, context) => {
        const holder = await admitted(services, context);
        const id = idOf(context);
        const upstream = await services.conversations.delete(holder, id, format);
        services.background.stop(holder, id);
        if (upstream !== undefined) void services.forgetUpstream(upstream);
        return jsonAnswer({ id, object: "response.deleted", deleted: true });
      },
    },
    {
      ...shared,
      method: "POST",
      path: `${collection}/:id/cancel`,
      detail: describeResponse(surface, "cancel"),
      run: async (services, context) => {
        const holder = await admitted(services, context);
        const id = idOf(context);
        const { answer } = await services.background.get(holder, id, format);
        if (answer["background"] !== true) {
          throw ApiError.invalidValue(
            "background",
            "Only responses that were created with background: true can be cancelled.",
          );
        }
        return jsonAnswer((await services.background.cancel(holder, id, format)).answer);
      },
    },
    {
      ...shared,
      method: "GET",
      path: `${collection}/:id/input_items`,
      detail: describeResponse(surface, "items"),
      run: async (services, context) => {
        const holder = await admitted(services, context);
        const paging: Paging = { order: "desc", ...defined(pagingOf(plainQuery(context))) };
        return jsonAnswer(await services.conversations.items(holder, idOf(context), format, paging, itemsOfMessages));
      },
    },
  ];
}

const defined = <T extends object>(given: T): Partial<T> =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Partial<T>;

function idOf(context: RequestContext): string {
  return restOfPath(context, `${collection}/`).replace(/\/(?:cancel|input_items)$/, "");
}

async function get(services: Services, context: RequestContext, holder: Holder, finish: Finish): Promise<Response> {
  const id = idOf(context);
  const { isStreamed, after } = wishesOf(plainQuery(context));
  if (!isStreamed) {
    const { state, answer } = await services.background.get(holder, id, format);
    const shown = state === "running" ? { ...answer, status: "in_progress" } : answer;
    return respondWhole(context, jsonAnswer(shown), finish);
  }
  context.logFields["stream"] = true;
  const disconnected = new AbortController();
  const { keepAliveSeconds } = services.live.config.streams;
  context.setIdleTimeout(keepAliveSeconds > 0 ? Math.min(255, Math.max(60, 4 * keepAliveSeconds)) : 0);
  const rules = {
    keepAliveMs: keepAliveSeconds * 1000,
    keepAlive: responses.keepAlive,
    lateFault: (failure: { readonly error?: object } | ApiError) => [
      errorEvent(failure instanceof ApiError ? failure.fields() : { ...failure.error }),
    ],
    onDisconnect: () => disconnected.abort(),
  };
  const following = followEvents(services, holder, id, format, disconnected.signal, after);
  return respondStream(services, context, following, rules, finish);
}

/** @throws ApiError invalid_value */
function wishesOf(query: URLSearchParams): { readonly isStreamed: boolean; readonly after: number } {
  const stream = query.get("stream") ?? "false";
  if (stream !== "true" && stream !== "false") throw ApiError.invalidValue("stream", "stream must be true or false.");
  const after = query.get("starting_after");
  if (after !== null && !/^\d{1,9}$/.test(after)) {
    throw ApiError.invalidValue("starting_after", "starting_after must be the sequence_number of an event.");
  }
  if (after !== null && stream !== "true") {
    throw ApiError.invalidValue("starting_after", "starting_after is only allowed with stream=true.");
  }
  return { isStreamed: stream === "true", after: after === null ? -1 : Number(after) };
}
