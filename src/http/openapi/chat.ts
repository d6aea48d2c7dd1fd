/** OpenAPI operations of chat completions. */
import { type TSchema, Type } from "@sinclair/typebox";
import { OrNull } from "../../api/shape.ts";
import type { SurfaceName } from "../../config/config.ts";
import { Open, titled } from "../../lib/json/schemas.ts";
import { AssistantMessage, ChatRequestBody, Message } from "../../protocols/chat/schema.ts";
import { doneData } from "../../protocols/chat/stream.ts";
import { providers } from "../../providers/registry.ts";
import { describeCall, exampleModel, ruled, variables, withVariables } from "./calls.ts";

export const Completion = Open({
  id: Type.String(),
  object: Type.Literal("chat.completion"),
  created: Type.Integer(),
  model: Type.String(),
  choices: Type.Array(
    Open({
      index: Type.Integer(),
      message: Open({ role: Type.Literal("assistant"), content: Type.Union([Type.String(), Type.Null()]) }),
      finish_reason: Type.String(),
    }),
  ),
  usage: Open({ prompt_tokens: Type.Integer(), completion_tokens: Type.Integer(), total_tokens: Type.Integer() }),
  metadata: Type.Optional(Type.Record(Type.String(), Type.String())),
});

titled({ ChatCompletion: Completion });

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

const extraBody = Type.Optional(
  OrNull(
    Type.Object(
      {},
      {
        additionalProperties: true,
        description: "Options that a client library can't put at the top level, where they would mean the same.",
      },
    ),
  ),
);

/** Rules between fields. */
const either = (one: TSchema, other: TSchema) => Type.Union([one, other]);
const absent = (name: string) => Type.Object({ [name]: Type.Optional(Type.Null()) });
const together = [
  either(Type.Object({ stream: Type.Literal(true) }), absent("stream_options")),
  either(Type.Object({ logprobs: Type.Literal(true) }), absent("top_logprobs")),
];

/** Requires that an assistant's message says something, in any of its members. Empty ones say nothing. */
const { content, refusal, function_call, tool_calls } = AssistantMessage.properties;
const AssistantSpeaks = ruled(AssistantMessage, {
  anyOf: [
    Type.Object({ content: content.anyOf[0] }),
    Type.Object({ refusal: refusal.anyOf[0] }),
    Type.Object({ audio: Type.Object({ id: Type.String({ minLength: 1 }) }) }),
    Type.Object({ function_call: function_call.anyOf[0] }),
    Type.Object({ tool_calls: { ...tool_calls.anyOf[0], minItems: 1 } }),
  ],
});
const messages = Type.Array(
  Type.Union(Message.anyOf.map((one) => (one === AssistantMessage ? AssistantSpeaks : one)) as TSchema[], {
    title: "Message",
  }),
  { minItems: 1 },
);

function requestSchema(surface: SurfaceName): TSchema {
  const body = Open({
    ...ChatRequestBody.properties,
    messages,
    ...familyOptions(),
    ...(surface === "orchestrator" ? { variables } : {}),
    extra_body: extraBody,
  });
  return ruled(
    { ...body, title: `${surface === "orchestrator" ? "Persona" : "Gateway"}ChatRequest` },
    { allOf: together },
  );
}

const streamed = `data: {"id":"chatcmpl-…","object":"chat.completion.chunk","created":1,"model":"troupe/guide","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}\n\ndata: ${doneData}\n\n`;

export function describeCompletion(surface: SurfaceName): Record<string, unknown> {
  const messages = [{ role: "user", content: "Hello!" }];
  const model = exampleModel[surface];
  const isGateway = surface === "gateway";
  return describeCall(surface, {
    name: "CreateChatCompletion",
    summary: "A chat completion, as one JSON or as a stream",
    description: isGateway
      ? "Calls the provider that the model names. A provider's error comes back byte for byte, with x-troupe-error-source: upstream."
      : "Calls the persona that the model names.",
    body: requestSchema(surface),
    examples: {
      plain: { summary: "One JSON", value: { model, messages } },
      stream: {
        summary: "A stream",
        value: { model, messages, stream: true, stream_options: { include_usage: true } },
      },
      stored: { summary: "Kept, to be read and continued", value: { model, messages, store: true } },
      ...(isGateway ? {} : { variables: { summary: "With a variable", value: { ...withVariables, messages } } }),
    },
    responseDescription: `The answer: one JSON, or with stream: true one event for each chunk and then data: ${doneData}.`,
    response: Completion,
    streamed,
    links: linksFrom(surface),
  });
}

/** Links to the operations on an answer that was stored. */
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
