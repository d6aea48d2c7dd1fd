/** What the API's description says of the routes of Anthropic's format. */
import { Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { CountBody, MessagesBody } from "../../protocols/messages/schema.ts";
import { describeOperation } from "./describe.ts";
import { callHeaders, exampleModel, keyed, tags } from "./descriptions.ts";

const open = { additionalProperties: true };

export const ErrorBody = Type.Object(
  {
    type: Type.Literal("error"),
    error: Type.Object(
      { type: Type.String({ examples: ["invalid_request_error"] }), message: Type.String() },
      { ...open, description: "The message names the field at fault." },
    ),
    request_id: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  },
  open,
);

const Message = Type.Object(
  {
    id: Type.String(),
    type: Type.Literal("message"),
    role: Type.Literal("assistant"),
    model: Type.String(),
    content: Type.Array(Type.Object({ type: Type.String() }, open)),
    stop_reason: Type.Union([Type.String(), Type.Null()]),
    stop_sequence: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    usage: Type.Object({ input_tokens: Type.Integer(), output_tokens: Type.Integer() }, open),
  },
  open,
);

const errorContent = { "application/json": { schema: ErrorBody } };

/** Of a provider, on the gateway: any status, any form. */
const upstreamError = {
  description:
    "An error of the provider: byte for byte from Anthropic, else its status, and its message in this format's form.",
  headers: { "X-Troupe-Error-Source": { description: "upstream", schema: { type: "string" } } },
};

const streamed = {
  example:
    'event: message_start\ndata: {"type":"message_start","message":{…}}\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\nevent: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}\n\n…\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n',
};

const versionHeaders = [
  {
    name: "anthropic-version",
    in: "header",
    schema: { type: "string" },
    description: "As Anthropic's clients send it; passed on to Anthropic, and of no meaning elsewhere.",
  },
  {
    name: "anthropic-beta",
    in: "header",
    schema: { type: "string" },
    description: "A list, likewise.",
  },
];

export function describeMessages(surface: SurfaceName): Record<string, unknown> {
  const isGateway = surface === "gateway";
  const value = { model: exampleModel[surface], max_tokens: 1024, messages: [{ role: "user", content: "Hello!" }] };
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}CreateMessage`,
    summary: "A message in Anthropic's format, as one JSON or as a stream",
    description: isGateway
      ? "Calls the provider that the model names, whatever format it speaks. To Anthropic the body goes as it came."
      : "Calls the persona that the model names.",
    body: {
      schema: MessagesBody,
      examples: {
        plain: { summary: "One JSON", value },
        stream: { summary: "A stream", value: { ...value, stream: true } },
        system: { summary: "With a system text", value: { ...value, system: "Be brief." } },
      },
    },
    parameters: [...callHeaders, ...versionHeaders],
    headers: {
      "Idempotent-Replayed": "true: this is the answer of an earlier request with the same service-request-id.",
      "Service-Request-Id": "The request's own, said back.",
    },
    response: {
      description: "The answer: one JSON, or with stream: true the events from message_start to message_stop.",
      schema: Message,
    },
    also: { "text/event-stream": streamed },
    errors: [400, ...keyed, 404, 408, 413, 415, 422, 504],
    errorContent,
    ...(isGateway ? { others: { default: upstreamError } } : {}),
  });
}

export function describeCountTokens(surface: SurfaceName): Record<string, unknown> {
  const value = { model: exampleModel[surface], messages: [{ role: "user", content: "Hello!" }] };
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}CountMessageTokens`,
    summary: "The number of tokens that a message's prompt has, in Anthropic's format",
    description:
      "Counted by the provider where it has a counter; else estimated, and marked by x-troupe-estimated: true, or length.",
    body: { schema: CountBody, examples: { plain: { summary: "A question", value } } },
    parameters: versionHeaders,
    headers: { "X-Troupe-Estimated": "true: no provider counted." },
    response: { schema: Type.Object({ input_tokens: Type.Integer({ minimum: 0 }) }) },
    errors: [400, ...keyed, 404, 408, 413, 415],
    errorContent,
    ...(surface === "gateway" ? { others: { default: upstreamError } } : {}),
  });
}
