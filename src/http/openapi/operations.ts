/** OpenAPI operations of the gateway's routes beside completions. */
import { type TSchema, Type } from "@sinclair/typebox";
import { Open } from "../../lib/json/schemas.ts";
import { EmbeddingsRequestBody } from "../../protocols/embeddings.ts";
import type { Operation } from "../../providers/provider.ts";
import { callHeaders, ownOrUpstreams, upstreamError } from "./calls.ts";
import { describeOperation } from "./describe.ts";

const summaries: Record<Operation, string> = {
  embeddings: "Embeddings of texts",
  "images/generations": "Images made from a prompt",
  "images/edits": "Images made from images and a prompt",
  "images/variations": "Variations of an image",
  "audio/speech": "Speech made from a text",
  "audio/transcriptions": "The text of a recording",
  "audio/translations": "The text of a recording, in English",
  moderations: "Whether texts or images are harmful",
  rerank: "Documents in the order in which they fit a query",
};

const Named = Open({ model: Type.String({ minLength: 1, description: "<provider>/<model>" }) });

const binary = Type.String({ format: "binary" });

/** A form names its model too, and has a recording, or an image. */
function formOf(operation: Operation): TSchema {
  const upload = operation.startsWith("audio/") ? { file: binary } : { image: binary };
  const prompt = operation === "images/edits" ? { prompt: Type.Optional(Type.String()) } : {};
  return Open({ ...Named.properties, ...upload, ...prompt }, { title: `${nameOf(operation)}Form` });
}

const nameOf = (operation: Operation) =>
  operation.replaceAll(/(?:^|\/)(\w)/g, (_, letter: string) => letter.toUpperCase());

export function describeOperationRoute(operation: Operation, isForm: boolean): Record<string, unknown> {
  const described = describeOperation({
    tag: "Gateway",
    operationId: `gateway${nameOf(operation)}`,
    summary: summaries[operation],
    description:
      "Passed on to the provider that the model names, with the model's name there; its answer and its errors come back as they are.",
    body: operation === "embeddings" ? EmbeddingsRequestBody : Named,
    parameters: isForm ? [] : callHeaders,
    responseDescription: "The provider's answer.",
    response: Type.Unknown(),
    also: { "*/*": {} },
    errors: [400, 401, 404, 408, 413, 415, 422, 429, 503, 504],
    others: { default: upstreamError() },
    errorContent: ownOrUpstreams,
  }) as { requestBody: { content: Record<string, unknown> } };
  if (!isForm) return described;
  // First, as clients that know one form of a body take the first.
  const content = { "multipart/form-data": { schema: formOf(operation) }, ...described.requestBody.content };
  return { ...described, requestBody: { ...described.requestBody, content } };
}

const place = { in: "path", required: true, schema: { type: "string", minLength: 1 } };

export function describeRaw(method: string): Record<string, unknown> {
  const described = describeOperation({
    tag: "Gateway",
    operationId: `gatewayProvider${method[0]}${method.slice(1).toLowerCase()}`,
    summary: "A provider's own API, as it is",
    description:
      "The method, path, query and body go to the provider, with its key in place of yours; the answer comes as it is, streamed. Only for keys with raw among their surfaces: what the provider keeps for one key is there for each of them.",
    parameters: [
      { ...place, name: "name", description: "The provider's name here." },
      { ...place, name: "id", description: "The path at the provider; it may hold slashes." },
    ],
    responseDescription: "The provider's answer.",
    response: Type.Unknown(),
    also: { "*/*": {} },
    errors: [400, 401, 403, 404, 408, 413, 415, 429, 503, 504],
    others: { default: upstreamError() },
    errorContent: ownOrUpstreams,
  });
  if (method === "GET" || method === "DELETE") return described;
  return { ...described, requestBody: { content: { "*/*": {} } } };
}
