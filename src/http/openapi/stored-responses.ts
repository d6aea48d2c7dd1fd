/** What the API's description says of stored responses. */
import { Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { describeOperation } from "./describe.ts";
import { byId, exampleModel, keyed, pageOf, paging, tags } from "./descriptions.ts";
import { ResponseObject, requestSchema } from "./responses.ts";

const item = Type.Object({ id: Type.String(), type: Type.String() }, { additionalProperties: true });

const events = [
  {
    name: "stream",
    in: "query",
    schema: { type: "boolean", default: false },
    description: "true: its events, live while it is made in the background.",
  },
  {
    name: "starting_after",
    in: "query",
    schema: { type: "integer", minimum: 0 },
    description: "With stream=true: only the events behind the one with this sequence_number.",
  },
];

/** Named, as the official clients send it. */
const include = {
  name: "include",
  in: "query",
  schema: { type: "array", items: { type: "string" } },
  description: "Asks for nothing more: all that was kept is there.",
};

const operations = {
  get: {
    summary: "One stored response, or its events",
    errors: [400, 404, ...keyed],
    schema: ResponseObject,
    parameters: [byId, ...events, include],
    also: { "text/event-stream": {} },
  },
  delete: {
    summary: "Deletes a stored response; it can no longer be read or continued",
    errors: [404, ...keyed],
    schema: Type.Object({
      id: Type.String(),
      object: Type.Literal("response.deleted"),
      deleted: Type.Literal(true),
    }),
    parameters: [byId],
  },
  cancel: {
    summary: "Ends a response that is made in the background",
    errors: [400, 404, ...keyed],
    schema: ResponseObject,
    parameters: [byId],
  },
  items: {
    summary: "The input of a stored response, a page at a time",
    errors: [400, 404, ...keyed],
    schema: pageOf(item),
    parameters: [
      byId,
      ...paging.map((one) => (one.name === "order" ? { ...one, schema: { ...one.schema, default: "desc" } } : one)),
      include,
    ],
  },
} as const;

/** The operation that counts the tokens of a request's input. */
export function describeInputTokens(surface: SurfaceName): Record<string, unknown> {
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}CountInputTokens`,
    summary: "The number of tokens that a request's input has",
    description:
      "Counted by the provider where it has a counter; else estimated, and marked by x-troupe-estimated: true, or length.",
    body: {
      schema: requestSchema(surface),
      examples: { plain: { summary: "A question", value: { model: exampleModel[surface], input: "Hello!" } } },
    },
    headers: { "X-Troupe-Estimated": "true: no provider counted." },
    response: {
      schema: Type.Object({
        object: Type.Literal("response.input_tokens"),
        input_tokens: Type.Integer({ minimum: 0 }),
      }),
    },
    errors: [400, ...keyed, 404, 408, 413, 415],
  });
}

export function describeResponse(surface: SurfaceName, what: keyof typeof operations): Record<string, unknown> {
  const { schema, parameters, ...operation } = operations[what];
  return describeOperation({
    ...operation,
    tag: tags[surface],
    operationId: `${surface}StoredResponse${what[0]!.toUpperCase()}${what.slice(1)}`,
    response: { schema },
    parameters: [...parameters],
  });
}
