/**
 * Embeddings in this format, as OpenAI's and back.
 * Source: https://ai.google.dev/api/embeddings
 */
import { isObject, type JsonObject, listOf, numberOf, objectOf } from "../../lib/json/json.ts";
import { checked } from "../body/checked.ts";
import { ApiError, InvalidAnswer } from "../errors.ts";
import { modelIn } from "./address.ts";
import { canonical } from "./leniency.ts";
import { contentOf } from "./request.ts";
import { BatchEmbedBody, type Content, EmbedContentBody } from "./schema.ts";
import { inOneSpelling } from "./spelling.ts";

/** Texts to be embedded, in the words of OpenAI's format. */
type Embedding = { readonly input: string[]; readonly dimensions?: number };

/** @param body as it was sent @throws ApiError invalid_value, missing_field or unsupported_parameter */
export function embeddingOf(body: JsonObject, isBatch: boolean): Embedding {
  const spelt = inOneSpelling(body);
  const schema = isBatch ? BatchEmbedBody : EmbedContentBody;
  const whole = isBatch ? { ...spelt, requests: listed(spelt["requests"]) } : withContent(spelt);
  const asked = checked(schema, canonical(schema, whole));
  const requests = isBatch ? (asked as { requests: EmbedContentBody[] }).requests : [asked as EmbedContentBody];
  const sizes = new Set(requests.map(({ outputDimensionality }) => outputDimensionality ?? undefined));
  if (sizes.size > 1) {
    const path = "requests[0].outputDimensionality";
    throw ApiError.unsupported(
      path,
      `${path}: this provider embeds all texts of a request with one number of dimensions.`,
    );
  }
  const [dimensions] = sizes;
  const input = requests.map(({ content }, at) => textOf(content, isBatch ? `requests[${at}].content` : "content"));
  return { input, ...(dimensions !== undefined && { dimensions }) };
}

const listed = (requests: unknown): unknown =>
  requests == null ? requests : [requests].flat().map((one) => (isObject(one) ? withContent(one) : one));

const withContent = ({ content, ...rest }: JsonObject): JsonObject => ({
  ...rest,
  ...(content !== undefined && { content: contentOf(content) }),
});

function textOf({ parts }: Content, path: string): string {
  const texts = (parts ?? []).map(({ text }, at) => {
    if (text != null) return text;
    const place = `${path}.parts[${at}]`;
    throw ApiError.unsupported(place, `${place}: this provider embeds texts alone.`);
  });
  return texts.join("\n");
}

/** A body for Google's own models, which batches name once more within. */
export function namedEmbedding(body: JsonObject, model: string): JsonObject {
  const name = `models/${modelIn(model)}`;
  const named = (one: unknown) => (isObject(one) ? { ...one, model: name } : one);
  const { requests } = body;
  if (Array.isArray(requests)) return { ...body, requests: requests.map(named) };
  // Google takes one value for a list of one.
  if (isObject(requests)) return { ...body, requests: named(requests) };
  return body["model"] === undefined ? body : { ...body, model: name };
}

/** @param answer OpenAI's, with vectors of numbers @throws InvalidAnswer where it has not `count` of them */
export function embeddingBody(answer: unknown, count: number, isBatch: boolean): JsonObject {
  const { data, usage } = objectOf(answer) ?? {};
  const vectors = listOf(data).map((one, at) => ({ at: numberOf(objectOf(one)?.["index"]) ?? at, one: objectOf(one) }));
  const embeddings = vectors.toSorted((a, b) => a.at - b.at).map(({ one }) => ({ values: one?.["embedding"] }));
  if (embeddings.length !== count || !embeddings.every(({ values }) => Array.isArray(values))) {
    throw new InvalidAnswer(`${embeddings.length} embeddings of ${count} texts`);
  }
  const tokens = numberOf(objectOf(usage)?.["prompt_tokens"]);
  const counted = tokens === undefined ? {} : { usageMetadata: { promptTokenCount: tokens } };
  return { ...(isBatch ? { embeddings } : { embedding: embeddings[0] }), ...counted };
}
