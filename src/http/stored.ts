/** The stored chat completions routes: list, get, update metadata, delete, list messages. */
import { type TSchema, Type } from "@sinclair/typebox";
import { admit } from "../call/admit/admit.ts";
import type { Host, RequestContext } from "../call/context.ts";
import { keyHolderOf } from "../call/plan/conversation.ts";
import { checkMetadata } from "../call/read/plain-values.ts";
import type { Services } from "../call/services.ts";
import type { SurfaceName } from "../config/config.ts";
import { Open, titled } from "../lib/json/schemas.ts";
import { ChatRequestBody } from "../protocols/chat/schema.ts";
import { checkedRoutes, documented } from "./checked-routes.ts";
import { Completion } from "./openapi/chat.ts";
import { Id, keyed, MetadataFilter, paging, queryOf, storedPage, tags, writing } from "./openapi/describe.ts";

/** A completion with what is shown of a stored one beside the answer itself, which is answered as it was kept. */
const StoredCompletion: TSchema = Type.Intersect([
  Completion,
  Type.Object({ request_id: Type.String(), metadata: Type.Record(Type.String(), Type.String()) }),
]);
const StoredMessage = Open({
  id: Type.String(),
  role: Type.String(),
  content: Type.Union([Type.String(), Type.Null()]),
});

titled({ StoredCompletion, StoredMessage });
const MetadataUpdate = Type.Required(Type.Object({ metadata: ChatRequestBody.properties.metadata }));

/** Finds who asks for what is stored: a key on one surface. */
export const admitKeyHolder = (surface: SurfaceName) => async (services: Services, context: RequestContext) =>
  keyHolderOf(await admit(services, context, surface), surface);

export function storedRoutes(host: Host, surface: SurfaceName, prefix: string) {
  const shared = { tag: tags[surface] };
  const idOf = (what: string) => `${surface}StoredCompletion${what}`;
  return checkedRoutes(host, { area: surface, prefix }, admitKeyHolder(surface))
    .get(
      "/v1/chat/completions",
      ({ services, caller, query }) => services.conversations.list(caller, query),
      documented({
        ...shared,
        operationId: idOf("List"),
        summary: "Stored completions, a page at a time",
        query: queryOf({
          ...paging("asc"),
          model: Type.Optional(Type.String({ description: "Only those of that model." })),
          metadata: MetadataFilter,
        }),
        response: storedPage(StoredCompletion),
        errors: [400, 404, ...keyed],
      }),
    )
    .get(
      "/v1/chat/completions/:id",
      ({ services, caller, params }) => services.conversations.get(caller, params.id),
      documented({
        ...shared,
        operationId: idOf("Get"),
        summary: "One stored completion",
        params: Id,
        response: StoredCompletion,
        errors: [404, ...keyed],
      }),
    )
    .post(
      "/v1/chat/completions/:id",
      ({ services, caller, params, body: { metadata } }) => {
        if (metadata !== null) checkMetadata(metadata);
        return services.conversations.update(caller, params.id, metadata ?? {});
      },
      documented({
        ...shared,
        operationId: idOf("Update"),
        summary: "Replaces the metadata of a stored completion",
        params: Id,
        body: MetadataUpdate,
        examples: { label: { summary: "A label", value: { metadata: { project: "atlas" } } } },
        response: StoredCompletion,
        errors: [404, ...writing, ...keyed],
      }),
    )
    .delete(
      "/v1/chat/completions/:id",
      async ({ services, caller, params: { id } }) => {
        const upstream = await services.conversations.delete(caller, id);
        if (upstream !== undefined) void services.forgetUpstream(upstream);
        return { object: "chat.completion.deleted", id, deleted: true };
      },
      documented({
        ...shared,
        operationId: idOf("Delete"),
        summary: "Deletes a stored completion; it can no longer be read or continued",
        params: Id,
        response: Type.Object({
          object: Type.Literal("chat.completion.deleted"),
          id: Type.String(),
          deleted: Type.Literal(true),
        }),
        errors: [404, ...keyed],
      }),
    )
    .get(
      "/v1/chat/completions/:id/messages",
      ({ services, caller, params, query }) => services.conversations.messages(caller, params.id, query),
      documented({
        ...shared,
        operationId: idOf("Messages"),
        summary: "The messages a stored completion was made from",
        params: Id,
        query: queryOf(paging("asc")),
        response: storedPage(StoredMessage),
        errors: [400, 404, ...keyed],
      }),
    );
}
