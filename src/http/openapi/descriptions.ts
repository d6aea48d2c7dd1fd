/** What the API's description says of the surfaces' own routes. */
import { type TSchema, Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { AssistantMessage, ChatRequestBody, Message } from "../../protocols/chat/schema.ts";
import { doneData } from "../../protocols/chat/stream.ts";
import { providers } from "../../providers/registry.ts";
import { describeOperation, errorSchema } from "./describe.ts";

export const tags: Record<SurfaceName, string> = { orchestrator: "Orchestrator", gateway: "Gateway" };
export const exampleModel: Record<SurfaceName, string> = { orchestrator: "troupe/guide", gateway: "builtin/echo" };
export const keyed = [401, 429, 503];

const Completion = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal("chat.completion"),
    created: Type.Integer(),
    model: Type.String(),
    choices: Type.Array(
      Type.Object(
        {
          index: Type.Integer(),
          message: Type.Object(
            { role: Type.Literal("assistant"), content: Type.Union([Type.String(), Type.Null()]) },
            { additionalProperties: true },
          ),
          finish_reason: Type.String(),
        },
        { additionalProperties: true },
      ),
    ),
    usage: Type.Object(
      { prompt_tokens: Type.Integer(), completion_tokens: Type.Integer(), total_tokens: Type.Integer() },
      { additionalProperties: true },
    ),
    metadata: Type.Optional(Type.Record(Type.String(), Type.String())),
  },
  { additionalProperties: true },
);

/** What a stored completion shows beside the answer itself. */
const StoredCompletion = Type.Intersect([
  Completion,
  Type.Object({ request_id: Type.String(), metadata: Type.Record(Type.String(), Type.String()) }),
]);
const StoredMessage = Type.Object(
  { id: Type.String(), role: Type.String(), content: Type.Union([Type.String(), Type.Null()]) },
  { additionalProperties: true },
);
const id = Type.Union([Type.String(), Type.Null()]);
export const pageOf = (item: TSchema) =>
  Type.Object({
    object: Type.Literal("list"),
    data: Type.Array(item),
    first_id: id,
    last_id: id,
    has_more: Type.Boolean(),
  });

/** An option of one family in the schema of all: the others ignore it, whatever it is. */
const ofOneFamily = (option: TSchema): TSchema =>
  Type.Optional(
    Type.Union([option, Type.Unknown({ description: "Providers that do not know the option ignore it." })], {
      ...(option.description === undefined ? {} : { description: option.description }),
    }),
  );

function familyOptions(): Record<string, TSchema> {
  const all = Object.assign({}, ...providers.map(({ extras }) => extras.properties)) as Record<string, TSchema>;
  const own = Object.entries(all).filter(([name]) => !Object.hasOwn(ChatRequestBody.properties, name));
  return Object.fromEntries(own.map(([name, option]) => [name, ofOneFamily(option)]));
}

const nullable = (schema: TSchema) => Type.Optional(Type.Union([schema, Type.Null()]));

export const variables = nullable(
  Type.Record(Type.String(), Type.String(), {
    description: "Values for the variables that the persona declares; they may stand in extra_body too.",
  }),
);
const extraBody = nullable(
  Type.Object(
    {},
    {
      additionalProperties: true,
      description: "Options that a client library can't put at the top level, where they would mean the same.",
    },
  ),
);

/** Rules between fields. */
const either = (one: TSchema, other: TSchema) => Type.Union([one, other]);
const absent = (name: string) => Type.Object({ [name]: Type.Optional(Type.Null()) });
const together = [
  either(Type.Object({ stream: Type.Literal(true) }), absent("stream_options")),
  either(Type.Object({ logprobs: Type.Literal(true) }), absent("top_logprobs")),
];

/** What an assistant's message must say, one way or another. Members that are empty say nothing. */
const { content, refusal, function_call, tool_calls } = AssistantMessage.properties;
const AssistantSpeaks = {
  ...AssistantMessage,
  anyOf: [
    Type.Object({ content: content.anyOf[0] }),
    Type.Object({ refusal: refusal.anyOf[0] }),
    Type.Object({ audio: Type.Object({ id: Type.String({ minLength: 1 }) }) }),
    Type.Object({ function_call: function_call.anyOf[0] }),
    Type.Object({ tool_calls: { ...tool_calls.anyOf[0], minItems: 1 } }),
  ],
};
const messages = Type.Array(
  Type.Union(Message.anyOf.map((one) => (one === AssistantMessage ? AssistantSpeaks : one)) as TSchema[]),
  { minItems: 1 },
);

function requestSchema(surface: SurfaceName): TSchema {
  const body = Type.Object(
    {
      ...ChatRequestBody.properties,
      messages,
      ...familyOptions(),
      ...(surface === "orchestrator" ? { variables } : {}),
      extra_body: extraBody,
    },
    { additionalProperties: true },
  );
  return { ...body, allOf: together } as TSchema;
}

const streamed = {
  example: `data: {"id":"chatcmpl-…","object":"chat.completion.chunk","created":1,"model":"troupe/guide","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}\n\ndata: ${doneData}\n\n`,
};

const requestId = {
  in: "header",
  schema: { type: "string", minLength: 1, maxLength: 255, pattern: "^[!-~]+$" },
};

export const callHeaders = [
  {
    ...requestId,
    name: "service-request-id",
    description: "Makes a retry safe: the same id and body are answered with the same bytes, and called once.",
  },
  { ...requestId, name: "Idempotency-Key", description: "Another name for service-request-id, which wins." },
  {
    name: "Last-Event-ID",
    in: "header",
    schema: { type: "string" },
    description:
      "With a service-request-id: the id of the last event that arrived. The stream goes on behind it; from its beginning where the id is of another stream.",
  },
];

export const ownOrUpstreams = {
  "application/json": { schema: { anyOf: [errorSchema, { description: "A provider's own error, as it came." }] } },
  "*/*": {},
};

/** Of a provider, on the gateway: any status, any form. */
export const upstreamError = {
  description: "An error of the provider, byte for byte.",
  headers: { "X-Troupe-Error-Source": { description: "upstream", schema: { type: "string" } } },
};

export function describeCompletion(surface: SurfaceName): Record<string, unknown> {
  const messages = [{ role: "user", content: "Hello!" }];
  const model = exampleModel[surface];
  const isGateway = surface === "gateway";
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}CreateChatCompletion`,
    summary: "A chat completion, as one JSON or as a stream",
    description: isGateway
      ? "Calls the provider that the model names. A provider's error comes back byte for byte, with x-troupe-error-source: upstream."
      : "Calls the persona that the model names.",
    body: {
      schema: requestSchema(surface),
      examples: {
        plain: { summary: "One JSON", value: { model, messages } },
        stream: {
          summary: "A stream",
          value: { model, messages, stream: true, stream_options: { include_usage: true } },
        },
        stored: { summary: "Kept, to be read and continued", value: { model, messages, store: true } },
        ...(isGateway ? {} : { variables: { summary: "With a variable", value: { ...withVariables, messages } } }),
      },
    },
    parameters: callHeaders,
    headers: {
      "Idempotent-Replayed": "true: this is the answer of an earlier request with the same service-request-id.",
      "Service-Request-Id": "The request's own, said back.",
    },
    response: {
      description: `The answer: one JSON, or with stream: true one event for each chunk and then data: ${doneData}.`,
      schema: Completion,
    },
    also: { "text/event-stream": streamed },
    links: linksFrom(surface),
    errors: [400, ...keyed, 404, 408, 413, 415, 422, 504],
    ...(isGateway ? { others: { default: upstreamError }, errorContent: ownOrUpstreams } : {}),
  });
}

/** What can be done with an answer that was stored. */
const linksFrom = (surface: SurfaceName) =>
  Object.fromEntries(
    ["Get", "Update", "Messages", "Delete"].map((what) => [
      `stored${what}`,
      {
        operationId: `${surface}StoredCompletion${what}`,
        parameters: { id: "$response.body#/id" },
        description: "With store: true in the request.",
      },
    ]),
  );

export const withVariables = { model: "troupe/translator", variables: { language: "French" } };

const stored = {
  list: {
    summary: "Stored completions, a page at a time",
    errors: [400, 404, ...keyed],
    schema: pageOf(StoredCompletion),
  },
  get: { summary: "One stored completion", errors: [404, ...keyed], schema: StoredCompletion },
  update: {
    summary: "Replaces the metadata of a stored completion",
    errors: [400, 404, 408, 413, 415, ...keyed],
    schema: StoredCompletion,
  },
  delete: {
    summary: "Deletes a stored completion; it can no longer be read or continued",
    errors: [404, ...keyed],
    schema: Type.Object({
      object: Type.Literal("chat.completion.deleted"),
      id: Type.String(),
      deleted: Type.Literal(true),
    }),
  },
  messages: {
    summary: "The messages a stored completion was made from",
    errors: [400, 404, ...keyed],
    schema: pageOf(StoredMessage),
  },
} as const;

export const paging = [
  { name: "after", in: "query", schema: { type: "string" }, description: "The last_id of the page before." },
  { name: "limit", in: "query", schema: { type: "integer", minimum: 1, maximum: 100, default: 20 } },
  { name: "order", in: "query", schema: { type: "string", enum: ["asc", "desc"], default: "asc" } },
];
export const metadataFilter: Record<string, unknown> = {
  name: "metadata",
  in: "query",
  style: "deepObject",
  explode: true,
  schema: {
    type: "object",
    propertyNames: { pattern: "^[^\\[\\]]+$" },
    additionalProperties: { type: "string" },
  },
  description: "Only those with these metadata: metadata[project]=atlas.",
};
const filters = [
  { name: "model", in: "query", schema: { type: "string" }, description: "Only those of that model." },
  metadataFilter,
];
export const byId = { name: "id", in: "path", required: true, schema: { type: "string" } };

/** What replaces a stored completion's metadata. */
export const MetadataUpdate = Type.Required(Type.Object({ metadata: ChatRequestBody.properties.metadata }));

export function describeStored(surface: SurfaceName, what: keyof typeof stored): Record<string, unknown> {
  const { summary, errors, schema } = stored[what];
  const one = what === "list" ? [] : [byId];
  const pages = what === "list" ? [...paging, ...filters] : what === "messages" ? paging : [];
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}StoredCompletion${what[0]!.toUpperCase()}${what.slice(1)}`,
    summary,
    errors,
    response: { schema },
    parameters: [...one, ...pages],
    ...(what === "update"
      ? {
          body: {
            schema: MetadataUpdate,
            examples: { label: { summary: "A label", value: { metadata: { project: "atlas" } } } },
          },
        }
      : {}),
  });
}
