/** The routes of stored responses: get, follow, delete, cancel, list the input. */
import { type TSchema, Type } from "@sinclair/typebox";
import { idleTimeoutOf } from "../call/call.ts";
import type { Host, RequestContext } from "../call/context.ts";
import { respondStream } from "../call/relay/relay.ts";
import { followEvents } from "../call/relay/stored-events.ts";
import type { Services } from "../call/services.ts";
import type { SurfaceName } from "../config/config.ts";
import type { KeyHolder } from "../conversations/conversations.ts";
import { Open } from "../lib/json/schemas.ts";
import { ApiError } from "../protocols/errors.ts";
import { responses } from "../protocols/responses/responses.ts";
import { errorEvent, itemsOfMessages } from "../protocols/responses/stored.ts";
import { checkedRoutes, documented } from "./checked-routes.ts";
import { eventStream, Id, keyed, paging, queryOf, storedPage, tags } from "./openapi/describe.ts";
import { ResponseObject } from "./openapi/responses.ts";
import { admitKeyHolder } from "./stored.ts";

const format = responses.name;

/** Answered as it was kept. */
const StoredResponse: TSchema = ResponseObject;
const InputItem = Open({ id: Type.String(), type: Type.String() });

/** Named, as the official clients send it. */
const include = Type.Optional(
  Type.Array(Type.String(), { description: "Asks for nothing more: all that was kept is there." }),
);

export function responseRoutes(host: Host, surface: SurfaceName, prefix: string) {
  const shared = { tag: tags[surface] };
  const idOf = (what: string) => `${surface}StoredResponse${what}`;
  return checkedRoutes(host, { area: surface, prefix, protocol: responses }, admitKeyHolder(surface))
    .get(
      "/v1/responses/:id",
      async ({ services, context, caller, params: { id }, query: { stream, starting_after } }) => {
        if (stream) return follow(services, context, caller, id, starting_after);
        if (starting_after !== undefined)
          throw ApiError.invalidValue("starting_after", "starting_after is only allowed with stream=true.");
        const { state, answer } = await services.background.get(caller, id, format);
        return state === "running" ? { ...answer, status: "in_progress" } : answer;
      },
      documented({
        ...shared,
        operationId: idOf("Get"),
        summary: "One stored response, or its events",
        params: Id,
        query: queryOf({
          stream: Type.Optional(
            Type.Boolean({
              default: false,
              description: "true: its events, live while it is made in the background.",
            }),
          ),
          starting_after: Type.Optional(
            Type.Integer({
              minimum: 0,
              description: "With stream=true: only the events behind the one with this sequence_number.",
            }),
          ),
          include,
        }),
        response: StoredResponse,
        also: eventStream(),
        errors: [400, 404, ...keyed],
      }),
    )
    .delete(
      "/v1/responses/:id",
      async ({ services, caller, params: { id } }) => {
        const upstream = await services.conversations.delete(caller, id, format);
        services.background.stop(caller, id);
        if (upstream !== undefined) void services.forgetUpstream(upstream);
        return { id, object: "response.deleted", deleted: true };
      },
      documented({
        ...shared,
        operationId: idOf("Delete"),
        summary: "Deletes a stored response; it can no longer be read or continued",
        params: Id,
        response: Type.Object({
          id: Type.String(),
          object: Type.Literal("response.deleted"),
          deleted: Type.Literal(true),
        }),
        errors: [404, ...keyed],
      }),
    )
    .post(
      "/v1/responses/:id/cancel",
      async ({ services, caller, params: { id } }) => {
        const { answer } = await services.background.get(caller, id, format);
        if (answer["background"] !== true)
          throw ApiError.invalidValue(
            "background",
            "Only responses that were created with background: true can be cancelled.",
          );
        return (await services.background.cancel(caller, id, format)).answer;
      },
      documented({
        ...shared,
        operationId: idOf("Cancel"),
        summary: "Ends a response that is made in the background",
        params: Id,
        response: StoredResponse,
        errors: [400, 404, ...keyed],
      }),
    )
    .get(
      "/v1/responses/:id/input_items",
      ({ services, caller, params, query }) =>
        services.conversations.items(caller, params.id, format, query, itemsOfMessages),
      documented({
        ...shared,
        operationId: idOf("Items"),
        summary: "The input of a stored response, a page at a time",
        params: Id,
        query: queryOf({ ...paging("desc"), include }),
        response: storedPage(InputItem),
        errors: [400, 404, ...keyed],
      }),
    );
}

function follow(services: Services, context: RequestContext, keyHolder: KeyHolder, id: string, after?: number) {
  context.logFields["stream"] = true;
  const disconnected = new AbortController();
  const { keepAliveSeconds } = services.live.config.streams;
  context.setIdleTimeout(idleTimeoutOf(keepAliveSeconds));
  const rules = {
    keepAliveMs: keepAliveSeconds * 1000,
    keepAlive: responses.keepAlive,
    lateFault: (failure: { readonly error?: object } | ApiError) => [
      errorEvent(failure instanceof ApiError ? failure.fields() : { ...failure.error }),
    ],
    onDisconnect: () => disconnected.abort(),
  };
  const following = followEvents(services, { keyHolder, id, format }, disconnected.signal, after);
  return respondStream(services, context, following, rules);
}
