/** What the API's description says of legacy completions. */
import { Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { doneData } from "../../protocols/chat/stream.ts";
import { CompletionsBody } from "../../protocols/completions/schema.ts";
import { describeOperation, errorSchema } from "./describe.ts";
import { callHeaders, exampleModel, keyed, tags, upstreamError } from "./descriptions.ts";

const open = { additionalProperties: true };

const TextCompletion = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal("text_completion"),
    created: Type.Integer(),
    model: Type.String(),
    choices: Type.Array(
      Type.Object(
        { text: Type.String(), index: Type.Integer(), finish_reason: Type.Union([Type.String(), Type.Null()]) },
        open,
      ),
    ),
    usage: Type.Optional(Type.Object({ prompt_tokens: Type.Integer(), completion_tokens: Type.Integer() }, open)),
  },
  open,
);

const streamed = {
  example: `data: {"id":"cmpl-…","object":"text_completion","created":1,"model":"builtin/echo","choices":[{"text":"Hel","index":0,"logprobs":null,"finish_reason":null}]}\n\ndata: ${doneData}\n\n`,
};

const anything = {
  "application/json": { schema: { anyOf: [errorSchema, { description: "A provider's own error, as it came." }] } },
  "*/*": {},
};

/** `stream_options` go with a stream alone. */
const streamRule = Type.Union([
  Type.Object({ stream: Type.Literal(true) }),
  Type.Object({ stream_options: Type.Optional(Type.Null()) }),
]);

export function describeTextCompletion(surface: SurfaceName): Record<string, unknown> {
  const value = { model: exampleModel[surface], prompt: "Hello!" };
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}CreateCompletion`,
    summary: "A legacy completion, as one JSON or as a stream",
    description:
      "Passes as it is to an upstream that has this route; elsewhere, and for personas, the prompt becomes the user's message.",
    body: {
      schema: { ...CompletionsBody, allOf: [streamRule] } as typeof CompletionsBody,
      examples: {
        plain: { summary: "One JSON", value },
        stream: { summary: "A stream", value: { ...value, stream: true } },
        echo: { summary: "Behind its prompt", value: { ...value, echo: true } },
      },
    },
    parameters: callHeaders,
    headers: {
      "Idempotent-Replayed": "true: this is the answer of an earlier request with the same service-request-id.",
      "Service-Request-Id": "The request's own, said back.",
    },
    response: {
      description: "The answer: one JSON, or with stream: true one event for each chunk.",
      schema: TextCompletion,
    },
    also: { "text/event-stream": streamed },
    errors: [400, ...keyed, 404, 408, 413, 415, 422, 504],
    ...(surface === "gateway" ? { others: { default: upstreamError }, errorContent: anything } : {}),
  });
}
