/**
 * Lists of models as Gemini's clients read them.
 * Source: https://ai.google.dev/api/models
 */
import { type Static, Type } from "@sinclair/typebox";
import { Open, titled } from "../../lib/json/schemas.ts";
import { ApiError } from "../errors.ts";
import type { Model } from "../models.ts";

export const ModelEntry = Open({
  name: Type.String({ description: "models/<id>" }),
  version: Type.String(),
  displayName: Type.String(),
  description: Type.Optional(Type.String()),
  inputTokenLimit: Type.Optional(Type.Integer()),
  outputTokenLimit: Type.Optional(Type.Integer()),
  supportedGenerationMethods: Type.Array(Type.String()),
});
export type ModelEntry = Static<typeof ModelEntry>;

export const ModelEntryPage = Type.Object({
  models: Type.Array(ModelEntry),
  nextPageToken: Type.Optional(Type.String()),
});

titled({ GeminiModel: ModelEntry, GeminiModelPage: ModelEntryPage });

export function modelEntry({ id, name, description, context_length, max_output_tokens }: Model): ModelEntry {
  return {
    name: `models/${id}`,
    version: "1",
    displayName: name,
    ...(description !== undefined && { description }),
    ...(context_length !== undefined && { inputTokenLimit: context_length }),
    ...(max_output_tokens !== undefined && { outputTokenLimit: max_output_tokens }),
    supportedGenerationMethods: ["generateContent", "countTokens"],
  };
}

const maxPageSize = 1000;
const pageSizeByDefault = 50;

/** @throws ApiError invalid_value for a page that there is none of */
export function modelEntryPage(models: readonly Model[], query: URLSearchParams): Static<typeof ModelEntryPage> {
  const size = pageSizeIn(query);
  const token = query.get("pageToken") ?? query.get("page_token") ?? "";
  const last = Buffer.from(token, "base64url").toString();
  const before = models.findIndex(({ id }) => id === last);
  if (token !== "" && before < 0) throw ApiError.invalidValue("pageToken", "pageToken is none of an earlier page.");
  const page = models.slice(before + 1, before + 1 + size);
  const isLast = before + 1 + size >= models.length;
  return {
    models: page.map(modelEntry),
    ...(!isLast && { nextPageToken: Buffer.from(page.at(-1)!.id).toString("base64url") }),
  };
}

function pageSizeIn(query: URLSearchParams): number {
  const given = query.get("pageSize") ?? query.get("page_size") ?? "";
  const size = given === "" ? pageSizeByDefault : Number(given);
  if (!Number.isInteger(size) || size < 0) {
    throw ApiError.invalidValue("pageSize", `pageSize must be an integer of 0 to ${maxPageSize}.`);
  }
  return size === 0 ? pageSizeByDefault : Math.min(size, maxPageSize);
}
