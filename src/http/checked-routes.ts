/**
 * Plugins whose routes are checked by their schemas: those of what is stored, of the admin API and of operations. Calls of models are
 * not among them, as their bodies are read within bounds that no parser of a framework has.
 */
import type { TObject, TSchema, TUnsafe } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { Elysia, NotFoundError } from "elysia";
import type { Answer } from "../api/shape.ts";
import type { Area, Host, RequestContext, ServedRoute } from "../call/context.ts";
import { plainQuery } from "../call/read/plain-values.ts";
import { readWhole } from "../call/read/request-body.ts";
import { jsonAnswer, respondWhole } from "../call/relay/relay.ts";
import type { Services } from "../call/services.ts";
import { checked } from "../protocols/body/checked.ts";
import { chat } from "../protocols/chat/chat.ts";
import type { Protocol } from "../protocols/protocol.ts";
import type { WholeAnswer } from "../upstream/answer.ts";
import { type DescribedOperation, describeOperation } from "./openapi/describe.ts";
import { unknownParameter } from "./query-check.ts";
import { checkRequest, isRouted, openContext } from "./serve.ts";

/** Settings that keep Elysia and Bun from answering, reading or sharing anything on their own. */
export const elysiaSettings = {
  normalize: false,
  strictPath: true,
  handler: { standardHostname: false },
} as const;

/**
 * A plugin that opens each request's context and finds who asks before it reads a query or a body, and writes as JSON what a handler returns.
 * @param protocol whose errors and credentials apply; absent: those of chat completions
 * @param admit finds the caller, or throws
 */
export function checkedRoutes<Caller>(
  host: Host,
  { area, prefix, protocol }: { readonly area: Area; readonly prefix: string; readonly protocol?: Protocol },
  admit: (services: Services, context: RequestContext) => Caller | Promise<Caller>,
) {
  const { services } = host;
  const served = new Map<string, ServedRoute>();
  const servedAt = (path: string): ServedRoute => {
    const route = served.get(path) ?? {
      area,
      path,
      protocol: protocol ?? chat,
      ...(protocol && { format: protocol.name }),
    };
    served.set(path, route);
    return route;
  };
  return (
    new Elysia({ ...elysiaSettings, prefix })
      // Elysia reads no body: a route with a schema for one reads it within our bounds, once it is known who asks.
      .onParse(() => null)
      .derive(({ request, route }) => {
        if (!isRouted(request)) throw new NotFoundError();
        return { services, context: openContext(host, { request, server: host.server }, servedAt(route)) };
      })
      .derive(async ({ context }) => {
        await checkRequest(host, context);
        return { caller: await admit(services, context) };
      })
      .mapResponse(({ context, responseValue }) => {
        if (responseValue instanceof Response) return responseValue;
        return respondWhole(context, isWhole(responseValue) ? responseValue : jsonAnswer(responseValue));
      })
  );
}

const isWhole = (value: unknown): value is WholeAnswer => (value as Partial<WholeAnswer> | null)?.kind === "whole";

type Schemas = {
  readonly params?: TObject | undefined;
  readonly query?: TObject | undefined;
  readonly body?: TSchema | undefined;
};

/** What the compiler holds the handler's answer to. */
type Answered<O extends DescribedOperation> = O extends { readonly response: infer S extends TSchema }
  ? { readonly response: TUnsafe<Answer<S> | WholeAnswer> }
  : unknown;

type Opened = {
  readonly services: Services;
  readonly context: RequestContext;
  readonly params: unknown;
};

/**
 * An operation's OpenAPI description, and the check of its requests, both made of its schemas. Elysia gets none of them: to describe what it
 * refuses it makes text of the value, which throws where that is an object with a `toString` of its own.
 */
export function documented<const O extends DescribedOperation>(operation: O) {
  const { params, query, body } = operation;
  const transform = async ({ services, context, params: given }: Opened) => {
    if (params !== undefined) checked(params, given);
    return {
      ...(query !== undefined && { query: checkedQuery(query, typedQuery(context, query)) }),
      ...(body !== undefined && {
        body: checked(body, Value.Default(body, await readBody(services, context, operation.bodyIsOptional === true))),
      }),
    };
  };
  return { transform, detail: { describe: () => describeOperation(operation) } } as unknown as Pick<
    O,
    Extract<keyof O, keyof Schemas>
  > &
    Answered<O> & {
      readonly transform: (opened: Opened) => Promise<void>;
      readonly detail: object;
    };
}

/** @throws ApiError as any body does */
async function readBody(services: Services, context: RequestContext, isOptional: boolean): Promise<unknown> {
  const { headers } = context.request;
  const isEmpty = (headers.get("content-length") ?? "0") === "0" && !headers.has("transfer-encoding");
  if (isOptional && isEmpty) return {};
  return (await readWhole(context, services.live.config.limits)).parsed;
}

/**
 * A query's parameters as the schema has them: numbers and booleans out of texts, and what is asked for as `metadata[team]=a` or
 * `include[]=b` below one name. What the schema does not take is left as it came, for the check that follows.
 */
function typedQuery(context: RequestContext, schema: TObject): Record<string, unknown> {
  const typed: Record<string, unknown> = {};
  for (const [given, value] of plainQuery(context)) {
    const [, name = given, key] = /^([^[]+)\[(.*)\]$/s.exec(given) ?? [];
    const type = schema.properties[name]?.["type"];
    if (type === "array") typed[name] = [...((typed[name] as unknown[] | undefined) ?? []), value];
    else if (type === "object" && key !== undefined)
      typed[name] = /^[^[\]]+$/.test(key) ? { ...(typed[name] as object | undefined), [key]: value } : value;
    else typed[given] = asTyped(type, value);
  }
  return typed;
}

/** Digits only, as `Number()` takes 1e1 and 0x1 too. */
function asTyped(type: unknown, text: string): unknown {
  if (type === "integer" && /^\d{1,16}$/.test(text)) return Number(text);
  if (type === "boolean" && /^(?:true|false)$/.test(text)) return text === "true";
  return text;
}

/** @returns the values, and the defaults of what is absent @throws ApiError that names the parameter */
function checkedQuery(schema: TObject, values: Record<string, unknown>): Record<string, unknown> {
  const unknown = Object.keys(values).find((name) => !Object.hasOwn(schema.properties, name));
  if (unknown === undefined || schema.additionalProperties !== false)
    return checked(schema, Value.Default(schema, values)) as Record<string, unknown>;
  const known = Object.entries(schema.properties).map(([one, { type }]) => (type === "object" ? `${one}[…]` : one));
  throw unknownParameter(unknown, known);
}
