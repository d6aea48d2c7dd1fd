/** What the API's description says of the routes of Gemini's format. */
import { type TSchema, Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { ModelEntry, ModelEntryPage } from "../../protocols/generate-content/models.ts";
import { BatchEmbedBody, EmbedContentBody, GenerateContentBody } from "../../protocols/generate-content/schema.ts";
import { describeOperation } from "./describe.ts";
import { callHeaders, exampleModel, keyed, tags } from "./descriptions.ts";

const open = { additionalProperties: true };

export const ErrorBody = Type.Object(
  {
    error: Type.Object(
      {
        code: Type.Integer({ examples: [400] }),
        message: Type.String(),
        status: Type.String({ examples: ["INVALID_ARGUMENT"] }),
        details: Type.Optional(Type.Array(Type.Object({ "@type": Type.String() }, open))),
      },
      { ...open, description: "The message names the field at fault; details too." },
    ),
  },
  open,
);

const Answer = Type.Object(
  {
    candidates: Type.Optional(
      Type.Array(
        Type.Object(
          {
            content: Type.Object({ role: Type.String(), parts: Type.Array(Type.Object({}, open)) }, open),
            finishReason: Type.Optional(Type.String()),
          },
          open,
        ),
      ),
    ),
    usageMetadata: Type.Optional(Type.Object({}, open)),
    modelVersion: Type.String(),
    responseId: Type.String(),
  },
  open,
);

const errorContent = { "application/json": { schema: ErrorBody } };

/** Of a provider, on the gateway: any status, any form. */
const upstreamError = {
  description:
    "An error of the provider: byte for byte from Google, else its status, and its message in this format's form.",
  headers: { "X-Troupe-Error-Source": { description: "upstream", schema: { type: "string" } } },
};

const partial =
  '{"candidates":[{"content":{"parts":[{"text":"Hel"}],"role":"model"},"index":0}],"modelVersion":"…","responseId":"…"}';

const modelPlace = {
  name: "id",
  in: "path",
  required: true,
  schema: { type: "string", minLength: 1 },
  description: "The model's name, whose slashes may also be written as %2F.",
};
const keyInQuery = {
  name: "key",
  in: "query",
  schema: { type: "string" },
  description: "An API key, where no header has one.",
};

type Described = {
  readonly method: string;
  readonly summary: string;
  readonly description: string;
  readonly schema: TSchema;
  readonly answer: TSchema;
  readonly more?: Partial<Parameters<typeof describeOperation>[0]>;
};

const replayHeaders = {
  "Idempotent-Replayed": "true: this is the answer of an earlier request with the same service-request-id.",
  "Service-Request-Id": "The request's own, said back.",
};

const embedding = { parameters: [modelPlace, keyInQuery, ...callHeaders], headers: replayHeaders };

/** The operations of each surface, by what their path ends in. */
export function endingsOf(surface: SurfaceName): Record<string, Record<string, unknown>> {
  const who = surface === "gateway" ? "the provider that the model names" : "the persona that the model names";
  const isGateway = surface === "gateway";
  const embeds = "To Google the body goes as it came; other providers embed the texts by their own models.";
  const Vector = Type.Object({ values: Type.Array(Type.Number()) }, open);
  const all: readonly Described[] = [
    {
      method: "generateContent",
      summary: "An answer in Gemini's format, as one JSON",
      description: `Calls ${who}. To Google the body goes as it came.`,
      schema: GenerateContentBody,
      answer: Answer,
      more: { parameters: [modelPlace, keyInQuery, ...callHeaders], headers: replayHeaders },
    },
    {
      method: "streamGenerateContent",
      summary: "An answer in Gemini's format, as a stream",
      description: `Calls ${who}. With alt=sse it is an event stream, else one JSON list that grows.`,
      schema: GenerateContentBody,
      answer: Type.Array(Answer),
      more: {
        parameters: [
          modelPlace,
          keyInQuery,
          { name: "alt", in: "query", schema: { type: "string", enum: ["sse"] }, description: "sse: an event stream." },
          ...callHeaders,
        ],
        headers: replayHeaders,
        also: { "text/event-stream": { example: `data: ${partial}\n\n` } },
      },
    },
    {
      method: "countTokens",
      summary: "The number of tokens that a prompt has, in Gemini's format",
      description:
        "Counted by the provider where it has a counter; else estimated, and marked by x-troupe-estimated: true.",
      schema: GenerateContentBody,
      answer: Type.Object({ totalTokens: Type.Integer({ minimum: 0 }) }),
      more: { parameters: [modelPlace, keyInQuery], headers: { "X-Troupe-Estimated": "true: no provider counted." } },
    },
    {
      method: "embedContent",
      summary: "The embedding of a text, in Gemini's format",
      description: embeds,
      schema: EmbedContentBody,
      answer: Type.Object({ embedding: Vector }, open),
      more: { ...embedding, body: { schema: EmbedContentBody, examples: {} } },
    },
    {
      method: "batchEmbedContents",
      summary: "The embeddings of texts, in Gemini's format",
      description: embeds,
      schema: BatchEmbedBody,
      answer: Type.Object({ embeddings: Type.Array(Vector) }, open),
      more: { ...embedding, body: { schema: BatchEmbedBody, examples: {} } },
    },
  ];
  // A persona has no embeddings: that is refused, and so not among what works.
  const taken = all.filter(({ method }) => isGateway || !/embedContents?$/i.test(method));
  return Object.fromEntries(taken.map((one) => [one.method, describe(surface, one)]));
}

function describe(surface: SurfaceName, { method, summary, description, schema, answer, more }: Described) {
  const value = { contents: [{ role: "user", parts: [{ text: "Hello!" }] }] };
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}${method[0]!.toUpperCase()}${method.slice(1)}`,
    summary,
    description: `${description} The same below /v1. For example with the model ${exampleModel[surface]}.`,
    body: { schema, examples: { plain: { summary: "A question", value } } },
    response: { schema: answer },
    errors: [400, ...keyed, 404, 408, 413, 415, 422, 504],
    errorContent,
    ...(surface === "gateway" ? { others: { default: upstreamError } } : {}),
    ...more,
  });
}

export function describeModelEntries(surface: SurfaceName): Record<string, unknown> {
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}ListModelsForGemini`,
    summary: "The models that this key may use, in Gemini's form",
    parameters: [
      keyInQuery,
      { name: "pageSize", in: "query", schema: { type: "integer", minimum: 0, maximum: 1000, default: 50 } },
      { name: "pageToken", in: "query", schema: { type: "string" }, description: "nextPageToken of the page before." },
    ],
    response: { schema: ModelEntryPage },
    errors: [400, ...keyed],
    errorContent,
  });
}

export function describeModelEntry(surface: SurfaceName): Record<string, unknown> {
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}GetModelForGemini`,
    summary: "One model by its id, in Gemini's form",
    parameters: [{ ...modelPlace, example: exampleModel[surface] }, keyInQuery],
    response: { schema: ModelEntry },
    errors: [...keyed, 404],
    errorContent,
  });
}
