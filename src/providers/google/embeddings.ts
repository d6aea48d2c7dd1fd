/**
 * Gemini's embeddings, many texts in one request.
 * Source: https://ai.google.dev/api/embeddings#method:-models.batchembedcontents
 */
import { isObject, type JsonObject, listOf, numberOf, objectOf } from "../../lib/json/json.ts";
import { ApiError, InvalidAnswer } from "../../protocols/errors.ts";
import { modelIn } from "../../protocols/generate-content/address.ts";
import type { EmbeddingsCall, EmbeddingsFormat } from "../provider.ts";
import { methodUrl } from "./address.ts";

/** "at most 100 requests can be in one batch" */
const batch = 100;

export const googleEmbeddings: EmbeddingsFormat = {
  batch,
  encode({ account, model: given, texts, dimensions, fields }) {
    const model = modelIn(given);
    const shared = {
      model: `models/${model}`,
      ...(dimensions !== undefined && { outputDimensionality: dimensions }),
      ...optionOf(fields, "task_type", "taskType"),
      ...optionOf(fields, "title", "title"),
    };
    const requests = texts.map((text) => ({ ...shared, content: { parts: [{ text }] } }));
    return {
      url: methodUrl(account, model, "batchEmbedContents"),
      body: JSON.stringify({ requests }),
    };
  },
  decode(body, count) {
    const answer = objectOf(body);
    const vectors = listOf(answer?.["embeddings"]).map((one) => vectorIn(objectOf(one)));
    if (vectors.length !== count) throw new InvalidAnswer(`${vectors.length} embeddings of ${count} texts`);
    const tokens = numberOf(objectOf(answer?.["usageMetadata"])?.["promptTokenCount"]);
    return { vectors, ...(tokens !== undefined && { tokens }) };
  },
};

/** @throws InvalidAnswer */
export function vectorIn(embedding: JsonObject | undefined): number[] {
  const values = embedding?.["values"];
  if (!Array.isArray(values) || !values.every((value) => typeof value === "number"))
    throw new InvalidAnswer("an embedding that is no list of numbers");
  return values;
}

/** Options stand at the top level, under `google` or in a literal `extra_body`, in either spelling; the first counts. */
export function optionOf(fields: EmbeddingsCall["fields"], name: string, theirs: string): Record<string, string> {
  for (const container of [fields, fields["extra_body"], fields["google"]]) {
    if (!isObject(container)) continue;
    const value = container[name] ?? container[theirs];
    if (value == null) continue;
    if (typeof value !== "string") throw ApiError.invalidValue(name, `${name} must be a string.`);
    return { [theirs]: value };
  }
  return {};
}
