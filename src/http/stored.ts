/** The stored chat completions routes: list, get, update metadata, delete, list messages. */
import type { SurfaceName } from "../config/config.ts";
import type { Filter } from "../conversations/conversations.ts";
import type { Paging } from "../conversations/pages.ts";
import type { Metadata } from "../protocols/chat/schema.ts";
import { checked } from "../protocols/checked.ts";
import { ApiError } from "../protocols/errors.ts";
import { admit } from "./authenticate.ts";
import type { RequestContext } from "./context.ts";
import { holderOf } from "./conversation.ts";
import { describeStored, MetadataUpdate } from "./openapi/descriptions.ts";
import { checkMetadata, plainQuery } from "./plain-values.ts";
import { readJson } from "./request-body.ts";
import { jsonAnswer } from "./respond.ts";
import { type Route, restOfPath } from "./routes.ts";
import type { Services } from "./services.ts";

const collection = "/v1/chat/completions";

export function storedRoutes(surface: SurfaceName): Route[] {
  const admitted = async (services: Services, context: RequestContext) =>
    holderOf(await admit(services, context, surface), surface);
  return [
    {
      method: "GET",
      path: collection,
      area: surface,
      detail: describeStored(surface, "list"),
      run: async (services, context) => {
        const holder = await admitted(services, context);
        return jsonAnswer(await services.conversations.list(holder, filterOf(plainQuery(context))));
      },
    },
    {
      method: "GET",
      path: `${collection}/:id`,
      area: surface,
      detail: describeStored(surface, "get"),
      run: async (services, context) => {
        const holder = await admitted(services, context);
        return jsonAnswer(await services.conversations.get(holder, idOf(context)));
      },
    },
    {
      method: "POST",
      path: `${collection}/:id`,
      area: surface,
      detail: describeStored(surface, "update"),
      run: async (services, context) => {
        const holder = await admitted(services, context);
        const metadata = await readMetadata(services, context);
        return jsonAnswer(await services.conversations.update(holder, idOf(context), metadata));
      },
    },
    {
      method: "DELETE",
      path: `${collection}/:id`,
      area: surface,
      detail: describeStored(surface, "delete"),
      run: async (services, context) => {
        const holder = await admitted(services, context);
        const id = idOf(context);
        const upstream = await services.conversations.delete(holder, id);
        if (upstream !== undefined) void services.forgetUpstream(upstream);
        return jsonAnswer({ object: "chat.completion.deleted", id, deleted: true });
      },
    },
    {
      method: "GET",
      path: `${collection}/:id/messages`,
      area: surface,
      detail: describeStored(surface, "messages"),
      run: async (services, context) => {
        const holder = await admitted(services, context);
        return jsonAnswer(await services.conversations.messages(holder, idOf(context), pagingOf(plainQuery(context))));
      },
    },
  ];
}

function idOf(context: RequestContext): string {
  return restOfPath(context, `${collection}/`).replace(/\/messages$/, "");
}

export function pagingOf(query: URLSearchParams): Paging {
  const limit = query.get("limit");
  const order = query.get("order");
  if (order !== null && order !== "asc" && order !== "desc") {
    throw ApiError.invalidValue("order", 'order must be "asc" or "desc".');
  }
  return {
    after: query.get("after") ?? undefined,
    // Digits only: Number() accepts 1e1 and 0x1 too.
    limit: limit === null ? undefined : Number(/^\d+$/.test(limit) ? limit : Number.NaN),
    order: order ?? undefined,
  };
}

function filterOf(query: URLSearchParams): Filter {
  const metadata = [...query].flatMap(([name, value]) => {
    const key = /^metadata\[([^[\]]+)\]$/.exec(name)?.[1];
    if (key === undefined && /^metadata(?:\[|$)/.test(name)) {
      throw ApiError.invalidValue("metadata", "metadata must be given as metadata[<key>]=<value>.");
    }
    return key === undefined ? [] : [[key, value] as const];
  });
  return { ...pagingOf(query), model: query.get("model") ?? undefined, metadata: Object.fromEntries(metadata) };
}

async function readMetadata(services: Services, context: RequestContext): Promise<Metadata> {
  const { parsed: body } = await readJson(context, services.live.config.limits);
  const metadata = checked(MetadataUpdate, body).metadata ?? {};
  checkMetadata(metadata);
  return metadata;
}
