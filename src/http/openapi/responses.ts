/** What the API's description says of OpenAI's Responses. */
import { type TSchema, Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { ResponsesRequestBody } from "../../protocols/responses/schema.ts";
import { describeOperation } from "./describe.ts";
import {
  callHeaders,
  exampleModel,
  keyed,
  ownOrUpstreams,
  tags,
  upstreamError,
  variables,
  withVariables,
} from "./descriptions.ts";

const nullable = (schema: TSchema) => Type.Union([schema, Type.Null()]);
const open = { additionalProperties: true } as const;
const some = Type.Object({}, open);

/** A response, in any state of its life. */
export const ResponseObject = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal("response"),
    created_at: Type.Integer(),
    status: Type.String({ description: "queued, in_progress, completed, incomplete, failed or cancelled" }),
    error: nullable(Type.Object({ code: Type.String(), message: Type.String() }, open)),
    incomplete_details: nullable(Type.Object({ reason: Type.String() }, open)),
    instructions: nullable(Type.Unknown()),
    metadata: nullable(some),
    model: Type.String(),
    output: Type.Array(Type.Object({ type: Type.String() }, open)),
    parallel_tool_calls: Type.Boolean(),
    temperature: nullable(Type.Number()),
    top_p: nullable(Type.Number()),
    tool_choice: Type.Unknown(),
    tools: Type.Array(some),
    usage: Type.Optional(
      nullable(
        Type.Object(
          { input_tokens: Type.Integer(), output_tokens: Type.Integer(), total_tokens: Type.Integer() },
          open,
        ),
      ),
    ),
  },
  open,
);

const streamed = {
  example:
    'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"resp_…","object":"response","status":"in_progress","output":[]}}\n\nevent: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_…","output_index":0,"content_index":0,"delta":"Hel","logprobs":[]}\n\nevent: response.completed\ndata: {"type":"response.completed","sequence_number":9,"response":{"id":"resp_…","object":"response","status":"completed","output":[]}}\n\n',
};

export function requestSchema(surface: SurfaceName): TSchema {
  return Type.Object(
    { ...ResponsesRequestBody.properties, ...(surface === "orchestrator" ? { variables } : {}) },
    { additionalProperties: true },
  );
}

export function describeResponses(surface: SurfaceName): Record<string, unknown> {
  const model = exampleModel[surface];
  const isGateway = surface === "gateway";
  const input = "Hello!";
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}CreateResponse`,
    summary: "A response in the form of OpenAI's Responses, as one JSON or as a stream",
    description: isGateway
      ? "Calls the provider that the model names. Providers without this API are asked in their own, and answer in this one."
      : "Calls the persona that the model names.",
    body: {
      schema: requestSchema(surface),
      examples: {
        plain: { summary: "One JSON", value: { model, input } },
        stream: { summary: "A stream", value: { model, input, stream: true } },
        items: {
          summary: "A conversation",
          value: {
            model,
            instructions: "Be brief.",
            input: [{ role: "user", content: [{ type: "input_text", text: input }] }],
            store: false,
          },
        },
        ...(isGateway ? {} : { variables: { summary: "With a variable", value: { ...withVariables, input } } }),
      },
    },
    parameters: callHeaders,
    headers: {
      "Idempotent-Replayed": "true: this is the answer of an earlier request with the same service-request-id.",
      "Service-Request-Id": "The request's own, said back.",
    },
    response: {
      description: "The answer: one JSON, or with stream: true named events, numbered from 0.",
      schema: ResponseObject,
    },
    also: { "text/event-stream": streamed },
    errors: [400, ...keyed, 404, 408, 413, 415, 422, 504],
    ...(isGateway ? { others: { default: upstreamError }, errorContent: ownOrUpstreams } : {}),
  });
}
