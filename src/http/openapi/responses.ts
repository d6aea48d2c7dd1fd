/** OpenAPI operations of OpenAI's Responses. */
import { type TSchema, Type } from "@sinclair/typebox";
import { OrNull } from "../../api/shape.ts";
import type { SurfaceName } from "../../config/config.ts";
import { Open, titled } from "../../lib/json/schemas.ts";
import { ResponsesRequestBody } from "../../protocols/responses/schema.ts";
import { describeCall, describeCount, exampleModel, variables, withVariables } from "./calls.ts";

const some = Open({});

/** A response, in any state of its life. */
export const ResponseObject = Open({
  id: Type.String(),
  object: Type.Literal("response"),
  created_at: Type.Integer(),
  status: Type.String({ description: "queued, in_progress, completed, incomplete, failed or cancelled" }),
  error: OrNull(Open({ code: Type.String(), message: Type.String() })),
  incomplete_details: OrNull(Open({ reason: Type.String() })),
  instructions: OrNull(Type.Unknown()),
  metadata: OrNull(some),
  model: Type.String(),
  output: Type.Array(Open({ type: Type.String() })),
  parallel_tool_calls: Type.Boolean(),
  temperature: OrNull(Type.Number()),
  top_p: OrNull(Type.Number()),
  tool_choice: Type.Unknown(),
  tools: Type.Array(some),
  usage: Type.Optional(
    OrNull(Open({ input_tokens: Type.Integer(), output_tokens: Type.Integer(), total_tokens: Type.Integer() })),
  ),
});

titled({ ResponseObject });

const streamed =
  'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"resp_…","object":"response","status":"in_progress","output":[]}}\n\nevent: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_…","output_index":0,"content_index":0,"delta":"Hel","logprobs":[]}\n\nevent: response.completed\ndata: {"type":"response.completed","sequence_number":9,"response":{"id":"resp_…","object":"response","status":"completed","output":[]}}\n\n';

const prompt = Type.Optional(
  OrNull(
    Open(
      {
        id: Type.String({ description: "A prompt of a persona's prompt_ids, or a persona." }),
        version: Type.Optional(OrNull(Type.String({ description: "Of the prompt; of a persona also a label." }))),
        variables: Type.Optional(
          OrNull(Type.Record(Type.String(), Type.Unknown(), { description: "Texts, or input_text, by name." })),
        ),
      },
      { description: "Names the persona that answers: model and input may be left out then." },
    ),
  ),
);

function requestSchema(surface: SurfaceName): TSchema {
  const own = surface === "orchestrator" ? { prompt, variables } : { prompt };
  return Open(
    { ...ResponsesRequestBody.properties, ...own },
    { title: `${surface === "orchestrator" ? "Persona" : "Gateway"}ResponseRequest` },
  );
}

export function describeResponses(surface: SurfaceName): Record<string, unknown> {
  const model = exampleModel[surface];
  const isGateway = surface === "gateway";
  const input = "Hello!";
  const items = [{ role: "user", content: [{ type: "input_text", text: input }] }];
  return describeCall(surface, {
    name: "CreateResponse",
    summary: "A response in the form of OpenAI's Responses, as one JSON or as a stream",
    description: `${
      isGateway
        ? "Calls the provider that the model names. Providers without this API are asked in their own, and answer in this one."
        : "Calls the persona that the model names."
    } A GET that asks for a WebSocket opens one: each message of the type response.create is such a request, answered with its events, a message each.`,
    body: requestSchema(surface),
    examples: {
      plain: { summary: "One JSON", value: { model, input } },
      stream: { summary: "A stream", value: { model, input, stream: true } },
      items: { summary: "A conversation", value: { model, instructions: "Be brief.", input: items, store: false } },
      ...(isGateway ? {} : { variables: { summary: "With a variable", value: { ...withVariables, input } } }),
    },
    responseDescription: "The answer: one JSON, or with stream: true named events, numbered from 0.",
    response: ResponseObject,
    streamed,
  });
}

/** The operation that makes a conversation shorter. */
export function describeCompaction(surface: SurfaceName): Record<string, unknown> {
  const model = exampleModel[surface];
  const { input, instructions, previous_response_id } = ResponsesRequestBody.properties;
  return describeCall(surface, {
    name: "CompactResponse",
    summary: "A conversation, made short enough to go on",
    description:
      "OpenAI and Azure compact it themselves. Any other model is asked for a summary, which the compaction item holds. Its output is the input of the next turn.",
    body: Open({ model: Type.String(), input, instructions, previous_response_id }),
    examples: { plain: { summary: "A conversation", value: { model, input: [{ role: "user", content: "Hello!" }] } } },
    responseDescription: "The user's messages, and one compaction item in place of all else.",
    response: Open({
      id: Type.String(),
      object: Type.Literal("response.compaction"),
      created_at: Type.Integer(),
      output: Type.Array(Open({ type: Type.String() })),
      usage: OrNull(some),
    }),
  });
}

/** The operation that counts the tokens of a request's input. */
export function describeInputTokens(surface: SurfaceName): Record<string, unknown> {
  return describeCount(surface, {
    operationId: `${surface}CountInputTokens`,
    summary: "The number of tokens that a request's input has",
    body: requestSchema(surface),
    examples: { plain: { summary: "A question", value: { model: exampleModel[surface], input: "Hello!" } } },
    response: Type.Object({
      object: Type.Literal("response.input_tokens"),
      input_tokens: Type.Integer({ minimum: 0 }),
    }),
  });
}
