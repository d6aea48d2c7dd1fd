/** OpenAPI operations of Gemini's format. */
import { Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { Open, titled } from "../../lib/json/schemas.ts";
import { ModelEntry, ModelEntryPage } from "../../protocols/generate-content/models.ts";
import { BatchEmbedBody, EmbedContentBody, GenerateContentBody } from "../../protocols/generate-content/schema.ts";
import { type DescribedCall, describeCall, describeCount, type ErrorForm, exampleModel } from "./calls.ts";
import { describeOperation, keyed, tags } from "./describe.ts";

const ErrorBody = Open({
  error: Open(
    {
      code: Type.Integer({ examples: [400] }),
      message: Type.String(),
      status: Type.String({ examples: ["INVALID_ARGUMENT"] }),
      details: Type.Optional(Type.Array(Open({ "@type": Type.String() }))),
    },
    { description: "The message names the field at fault; details too." },
  ),
});

const Answer = Open({
  candidates: Type.Optional(
    Type.Array(
      Open({
        content: Open({ role: Type.String(), parts: Type.Array(Open({})) }),
        finishReason: Type.Optional(Type.String()),
      }),
    ),
  ),
  usageMetadata: Type.Optional(Open({})),
  modelVersion: Type.String(),
  responseId: Type.String(),
});

titled({ GeminiError: ErrorBody, GenerateContentResponse: Answer });

export const errorForm: ErrorForm = {
  body: ErrorBody,
  upstream:
    "An error of the provider: byte for byte from Google, else its status, and its message in this format's form.",
};
const errorContent = { "application/json": { schema: ErrorBody } };

const partial =
  '{"candidates":[{"content":{"parts":[{"text":"Hel"}],"role":"model"},"index":0}],"modelVersion":"…","responseId":"…"}';

const modelPlace = {
  name: "id",
  in: "path",
  required: true,
  schema: { type: "string", minLength: 1 },
  description: "The model's name, whose slashes may also be written as %2F.",
};
const inQuery = (name: string, description: string, schema: object = { type: "string" }) => ({
  name,
  in: "query",
  schema,
  description,
});
const keyInQuery = inQuery("key", "An API key, where no header has one.");
const parameters = [modelPlace, keyInQuery];

const Vector = Open({ values: Type.Array(Type.Number()) });

/** The operations of each surface, by what their path ends in. */
export function endingsOf(surface: SurfaceName): Record<string, Record<string, unknown>> {
  const isGateway = surface === "gateway";
  const whom = isGateway ? "the provider that the model names" : "the persona that the model names";
  const below = `The same below /v1. For example with the model ${exampleModel[surface]}.`;
  const value = { contents: [{ role: "user", parts: [{ text: "Hello!" }] }] };
  const question = {
    body: GenerateContentBody,
    examples: { plain: { summary: "A question", value } },
  };
  const embeds = `To Google the body goes as it came; other providers embed the texts by their own models. ${below}`;
  const call = (own: Omit<DescribedCall, "errorForm">) => describeCall(surface, { parameters, errorForm, ...own });
  return {
    generateContent: call({
      ...question,
      name: "GenerateContent",
      summary: "An answer in Gemini's format, as one JSON",
      description: `Calls ${whom}. To Google the body goes as it came. ${below}`,
      response: Answer,
    }),
    streamGenerateContent: call({
      ...question,
      name: "StreamGenerateContent",
      summary: "An answer in Gemini's format, as a stream",
      description: `Calls ${whom}. With alt=sse it is an event stream, else one JSON list that grows. ${below}`,
      response: Type.Array(Answer),
      parameters: [...parameters, inQuery("alt", "sse: an event stream.", { type: "string", enum: ["sse"] })],
      streamed: `data: ${partial}\n\n`,
    }),
    countTokens: describeCount(
      surface,
      {
        ...question,
        operationId: `${surface}CountTokens`,
        summary: "The number of tokens that a prompt has, in Gemini's format",
        response: Type.Object({ totalTokens: Type.Integer({ minimum: 0 }) }),
        parameters,
      },
      errorForm,
    ),
    // A persona has no embeddings: that is refused, and so not among what works.
    ...(isGateway && {
      embedContent: call({
        name: "EmbedContent",
        summary: "The embedding of a text, in Gemini's format",
        description: embeds,
        body: EmbedContentBody,
        response: Open({ embedding: Vector }),
      }),
      batchEmbedContents: call({
        name: "BatchEmbedContents",
        summary: "The embeddings of texts, in Gemini's format",
        description: embeds,
        body: BatchEmbedBody,
        response: Open({ embeddings: Type.Array(Vector) }),
      }),
    }),
  };
}

export function describeModelEntries(surface: SurfaceName): Record<string, unknown> {
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}ListModelsForGemini`,
    summary: "The models that this key may use, in Gemini's form",
    parameters: [
      keyInQuery,
      inQuery("pageSize", "The most models of a page.", { type: "integer", minimum: 0, maximum: 1000, default: 50 }),
      inQuery("pageToken", "nextPageToken of the page before."),
    ],
    response: ModelEntryPage,
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
    response: ModelEntry,
    errors: [...keyed, 400, 404],
    errorContent,
  });
}
