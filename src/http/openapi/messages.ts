/** OpenAPI operations of Anthropic's format. */
import { Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { Open, Tagged, titled } from "../../lib/json/schemas.ts";
import { CountBody, MessagesBody } from "../../protocols/messages/schema.ts";
import { describeCall, describeCount, type ErrorForm, exampleModel, header } from "./calls.ts";

const ErrorBody = Tagged("error", {
  error: Open(
    { type: Type.String({ examples: ["invalid_request_error"] }), message: Type.String() },
    { description: "The message names the field at fault." },
  ),
  request_id: Type.Optional(Type.Union([Type.String(), Type.Null()])),
});

const Message = Open({
  id: Type.String(),
  type: Type.Literal("message"),
  role: Type.Literal("assistant"),
  model: Type.String(),
  content: Type.Array(Open({ type: Type.String() })),
  stop_reason: Type.Union([Type.String(), Type.Null()]),
  stop_sequence: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  usage: Open({ input_tokens: Type.Integer(), output_tokens: Type.Integer() }),
});

titled({ MessagesError: ErrorBody, MessagesMessage: Message });

export const errorForm: ErrorForm = {
  body: ErrorBody,
  upstream:
    "An error of the provider: byte for byte from Anthropic, else its status, and its message in this format's form.",
};

const streamed =
  'event: message_start\ndata: {"type":"message_start","message":{…}}\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\nevent: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}\n\n…\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n';

const versionHeaders = [
  header("anthropic-version", "As Anthropic's clients send it; passed on to Anthropic, and of no meaning elsewhere."),
  header("anthropic-beta", "A list, likewise."),
];

export function describeMessages(surface: SurfaceName): Record<string, unknown> {
  const value = { model: exampleModel[surface], max_tokens: 1024, messages: [{ role: "user", content: "Hello!" }] };
  return describeCall(surface, {
    name: "CreateMessage",
    summary: "A message in Anthropic's format, as one JSON or as a stream",
    description:
      surface === "gateway"
        ? "Calls the provider that the model names, whatever format it speaks. To Anthropic the body goes as it came."
        : "Calls the persona that the model names.",
    body: MessagesBody,
    examples: {
      plain: { summary: "One JSON", value },
      stream: { summary: "A stream", value: { ...value, stream: true } },
      system: { summary: "With a system text", value: { ...value, system: "Be brief." } },
    },
    parameters: versionHeaders,
    responseDescription: "The answer: one JSON, or with stream: true the events from message_start to message_stop.",
    response: Message,
    streamed,
    errorForm,
  });
}

export function describeCountTokens(surface: SurfaceName): Record<string, unknown> {
  const value = { model: exampleModel[surface], messages: [{ role: "user", content: "Hello!" }] };
  const operation = {
    operationId: `${surface}CountMessageTokens`,
    summary: "The number of tokens that a message's prompt has, in Anthropic's format",
    body: CountBody,
    examples: { plain: { summary: "A question", value } },
    parameters: versionHeaders,
    response: Type.Object({ input_tokens: Type.Integer({ minimum: 0 }) }),
  };
  return describeCount(surface, operation, errorForm);
}
