/** OpenAPI operations, made of what stands beside each route. Plain text throughout: not every reader renders more. */
import { type TObject, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { Closed, titled, Words } from "../../lib/json/schemas.ts";
import { doneData } from "../../protocols/chat/stream.ts";
import { keyHeaders } from "../../protocols/credentials.ts";

type Media = Readonly<
  Record<string, { readonly schema?: unknown; readonly example?: unknown; readonly examples?: unknown }>
>;
type Answer = { readonly description: string; readonly headers?: object; readonly content?: Media };

/** One operation: what a route takes and answers. */
export type DescribedOperation = {
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly operationId?: string;
  /** A page of ours alone asks for it, and the API's description leaves it out. */
  readonly hide?: boolean;
  /** No key needed. */
  readonly open?: boolean;
  readonly params?: TObject;
  /** Members that are objects are asked for as `name[key]=value`. */
  readonly query?: TObject;
  readonly body?: TSchema;
  /** True where a request without a body is taken as one with `{}`. */
  readonly bodyIsOptional?: boolean;
  readonly examples?: Readonly<Record<string, { readonly summary: string; readonly value: unknown }>>;
  /** Parameters in headers, and those that no schema of the route checks, in OpenAPI's form. */
  readonly parameters?: readonly Record<string, unknown>[];
  readonly response?: TSchema;
  readonly responseDescription?: string;
  readonly media?: string;
  /** Headers of the answer beside those that every answer may have. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Other media that it may be answered in. */
  readonly also?: Media;
  /** Links from an answer's parts, in OpenAPI's form. */
  readonly links?: Readonly<Record<string, unknown>>;
  /** Statuses of its own errors, beside those that any route may answer with. */
  readonly errors?: readonly number[];
  /** Media that errors may come in. Default: our own form alone. */
  readonly errorContent?: Media;
  /** Answers that are no error of the usual form, by their status. */
  readonly others?: Readonly<Record<string, Answer>>;
};

const errorWords: Record<number, string> = {
  400: "The request is wrong; param names the field.",
  401: "The API key is missing or invalid.",
  403: "The API key may not do this, or the server was called by a name that is not its own.",
  404: "There is no such thing, or the key may not see it.",
  405: "The path takes other methods.",
  408: "The body took too long to arrive.",
  413: "The body is too large.",
  415: "The body is not JSON.",
  422: "The service-request-id was used with another request.",
  429: "The rate limit is exceeded.",
  500: "Server error.",
  501: "Not over a WebSocket.",
  503: "Temporarily unavailable.",
  504: "The upstream took too long.",
};

const text = (description: string, required = false) => ({ description, required, schema: { type: "string" } });
const integer = (description: string) => ({ description, schema: { type: "integer" } });

/** On every answer. The limit's are missing where there is none, as on the gateway by default. */
const everyHeader = {
  "X-Request-Id": text("Names this request, here and in the server's log.", true),
  "X-RateLimit-Limit": integer("Requests that may be made in any 60 seconds."),
  "X-RateLimit-Remaining": integer("Requests that may still be made now."),
  "X-RateLimit-Reset": integer("Unix seconds: when Remaining next grows."),
};
/** On every answer that a call may get. The budget's are missing where the call is held to none. */
const commonHeaders = {
  ...everyHeader,
  "X-Troupe-Budget": text("Of a call held to budgets: the one with the least left, as /v1/usage lists it."),
  "X-Troupe-Budget-Remaining": integer("Micro-dollars that it has left, without what calls under way may cost."),
};

const retryAfter = { "Retry-After": integer("Seconds after which to try again.") };
const errorHeaders: Record<number, object> = {
  401: { "WWW-Authenticate": text("Bearer", true) },
  405: { Allow: text("The methods that the path takes.", true) },
  422: { "X-Should-Retry": text("false: another try would be answered alike.") },
  429: retryAfter,
  503: retryAfter,
};

/** One of them will do; the description has it once, for all operations that say nothing else. */
export const anyKey = ["apiKey", ...keyHeaders].map((name) => ({ [name]: [] }));

/** The reference to the form of our own errors. */
export const errorSchema = { $ref: "#/components/schemas/Error" };

/** Whatever is asked: by another name, by another method, or by what nobody foresaw. */
const anyErrors = [403, 405, 500];

const ownErrors: Media = { "application/json": { schema: errorSchema } };

const errorAnswer = (status: number, content: Media): Answer => ({
  description: errorWords[status] ?? "Error.",
  headers: { ...commonHeaders, ...errorHeaders[status] },
  content,
});

/** An event stream, as readers of event streams give it: event by event. */
const ServerSentEvent = Type.Object({
  event: Type.Optional(Type.String({ description: "What kind it is, in formats whose events have names." })),
  data: Type.String({ description: `JSON, but for the end of chat completions: ${doneData}.` }),
});
titled({ ServerSentEvent });

/** @param text an example of the stream */
export function eventStream(text = ""): Media {
  const events = text.split("\n\n").flatMap((event) => {
    const [, name, data] = /^(?:event: (.*)\n)?data: (.*)$/.exec(event) ?? [];
    return data === undefined ? [] : [{ value: { ...(name !== undefined && { event: name }), data } }];
  });
  const examples = Object.fromEntries(events.map((event, at) => [`event${at + 1}`, event]));
  return {
    "text/event-stream": { schema: ServerSentEvent, ...(events.length > 0 && { examples }) },
  };
}

/** One operation in OpenAPI's form. */
export function describeOperation(operation: DescribedOperation): Record<string, unknown> {
  if (operation.hide === true) return { hide: true };
  const { tag, summary, description, operationId, params, query, body, examples = {} } = operation;
  const parameters = [...inPlace("path", params), ...inPlace("query", query), ...(operation.parameters ?? [])];
  return {
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    ...(operationId !== undefined && { operationId }),
    ...(parameters.length > 0 && { parameters }),
    ...(operation.open === true && { security: [] }),
    ...(body !== undefined && {
      requestBody: {
        required: operation.bodyIsOptional !== true,
        content: { "application/json": { schema: namedBy(operationId, "Request", body), examples } },
      },
    }),
    responses: answersOf(operation),
  };
}

/** An operation's own shape has its name, where it has none itself. The surfaces share it. Generators have uses of their own for names in Response. */
function namedBy(operationId: string | undefined, end: "Request" | "Result", schema: TSchema): TSchema {
  const isShape = schema["type"] === "object" || schema["anyOf"] !== undefined || schema["allOf"] !== undefined;
  if (!isShape || operationId === undefined || schema.title !== undefined) return schema;
  return {
    ...schema,
    title: `${operationId.replace(/^(?:gateway|orchestrator)/, "").replace(/^./, (first) => first.toUpperCase())}${end}`,
  };
}

/** The members of a schema as parameters. */
function inPlace(place: "path" | "query", schema?: TObject): Record<string, unknown>[] {
  return Object.entries(schema?.properties ?? {}).map(([name, { description, ...member }]) => ({
    name,
    in: place,
    ...(place === "path" && { required: true }),
    ...(description !== undefined && { description }),
    ...(member["type"] === "object" && { style: "deepObject", explode: true }),
    schema: member,
  }));
}

function answersOf(operation: DescribedOperation): Record<string, Answer> {
  const media = operation.media ?? "application/json";
  const { others = {}, errorContent = ownErrors } = operation;
  const usual = { type: media === "application/json" ? "object" : "string" };
  const answered = operation.response ? namedBy(operation.operationId, "Result", operation.response) : usual;
  const errors = [...new Set([...anyErrors, ...(operation.errors ?? [])])].sort();
  // What only reads, or is an operator's, is held to no budget.
  const usualHeaders = operation.body === undefined || !isOfSurface(operation.tag) ? everyHeader : commonHeaders;
  return {
    200: {
      description: operation.responseDescription ?? operation.summary,
      headers: { ...usualHeaders, ...mapped(operation.headers ?? {}) },
      content: {
        ...(media === "text/event-stream" ? eventStream() : { [media]: { schema: answered } }),
        ...operation.also,
      },
      ...(operation.links === undefined ? {} : { links: operation.links }),
    },
    ...Object.fromEntries(errors.map((status) => [status, errorAnswer(status, errorContent)])),
    ...Object.fromEntries(
      Object.entries(others).map(([status, answer]) => [
        status,
        { ...answer, headers: { ...usualHeaders, ...answer.headers } },
      ]),
    ),
  };
}

const mapped = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).map(([name, description]) => [name, text(description)]));

export const tags: Record<SurfaceName, string> = { orchestrator: "Orchestrator", gateway: "Gateway" };

const isOfSurface = (tag: string) => Object.values(tags).includes(tag);

/** Errors of every route that needs a key, and of those that take a body. */
export const keyed = [401, 429, 503];
export const writing = [400, 408, 413, 415];

/** The one parameter of paths that end in an id. */
export const Id = Type.Object({ id: Type.String() });

/** A query that has these parameters and no others. */
export const queryOf = <P extends TProperties>(properties: P) => Closed(properties);

export const oneOf = <const T extends string>(values: readonly T[], options: object = {}) => Words(values, options);

/** Parameters of a page whose order can be chosen. */
export const paging = (order: "asc" | "desc") => ({
  after: Type.Optional(Type.String({ description: "The last_id of the page before." })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
  order: Type.Optional(oneOf(["asc", "desc"], { default: order })),
});

export const MetadataFilter = Type.Optional(
  Type.Record(Type.String({ pattern: "^[^\\[\\]]+$" }), Type.String(), {
    description: "Only those with these metadata: metadata[project]=atlas.",
  }),
);

const orNull = Type.Union([Type.String(), Type.Null()]);
/** A page of what is stored, in the form of the public format. */
export const storedPage = (item: TSchema) =>
  Type.Object({
    object: Type.Literal("list"),
    data: Type.Array(item),
    first_id: orNull,
    last_id: orNull,
    has_more: Type.Boolean(),
  });
