/** The words and schemas of the API's description, put beside each route. */
import type { TSchema } from "@sinclair/typebox";

type Operation = {
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly operationId?: string;
  /** No key needed. */
  readonly open?: boolean;
  readonly media?: string;
  readonly body?: { schema: TSchema; examples: Record<string, { summary: string; value: unknown }> };
  readonly response?: { description?: string; schema: TSchema; example?: unknown };
  /** What else it may be answered in. */
  readonly also?: Readonly<Record<string, { readonly schema: unknown }>>;
  /** Also as an event stream. */
  readonly streams?: boolean;
  readonly parameters?: readonly Record<string, unknown>[];
  readonly errors?: readonly number[];
};

const errorWords: Record<number, string> = {
  400: "The request is wrong; `param` names the field.",
  401: "The API key is missing or invalid.",
  403: "The API key may not do this.",
  404: "There is no such thing, or the key may not see it.",
  408: "The body took too long to arrive.",
  413: "The body is too large.",
  415: "The body is not JSON.",
  422: "The service-request-id was used with another request.",
  429: "The rate limit is exceeded; `Retry-After` says when to come back.",
  500: "Server error.",
  503: "Temporarily unavailable; `Retry-After` says when to come back.",
  504: "The upstream took too long.",
};

const streamWords =
  "One `data:` event for each chunk, then `data: [DONE]`. A stream that breaks has an event with `error` as its first key, and no `choices`, before that.";

const rateHeaders = Object.fromEntries(
  [
    ["X-RateLimit-Limit", "Requests that may be made in any 60 seconds."],
    ["X-RateLimit-Remaining", "Requests that may still be made now."],
    ["X-RateLimit-Reset", "Unix seconds: when Remaining next grows."],
  ].map(([name, description]) => [name, { description, schema: { type: "integer" } }]),
);

/** One operation in OpenAPI's form. */
export function describeOperation(operation: Operation): Record<string, unknown> {
  const media = operation.media ?? "application/json";
  const content: Record<string, unknown> = {
    [media]: {
      schema: operation.response?.schema ?? { type: media === "application/json" ? "object" : "string" },
      ...(operation.response?.example === undefined ? {} : { example: operation.response.example }),
    },
  };
  Object.assign(content, operation.also);
  if (operation.streams === true) {
    content["text/event-stream"] = {
      schema: { type: "string", description: streamWords },
      example:
        'data: {"id":"chatcmpl-…","object":"chat.completion.chunk","created":1,"model":"troupe/guide","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}\n\ndata: [DONE]\n\n',
    };
  }
  const errors = operation.errors ?? [];
  return {
    tags: [operation.tag],
    summary: operation.summary,
    ...(operation.description === undefined ? {} : { description: operation.description }),
    ...(operation.operationId === undefined ? {} : { operationId: operation.operationId }),
    ...(operation.parameters === undefined ? {} : { parameters: operation.parameters }),
    security: operation.open === true ? [] : [{ apiKey: [] }],
    ...(operation.body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: { "application/json": { schema: operation.body.schema, examples: operation.body.examples } },
          },
        }),
    responses: {
      200: { description: operation.response?.description ?? operation.summary, headers: rateHeaders, content },
      ...Object.fromEntries(
        errors.map((status) => [
          status,
          {
            description: errorWords[status] ?? "Error.",
            headers: rateHeaders,
            content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
          },
        ]),
      ),
    },
  };
}
