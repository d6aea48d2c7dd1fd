/**
 * Lists of models as Anthropic's clients read them.
 * Source: https://platform.claude.com/docs/en/api/models/list
 */
import { type Static, Type } from "@sinclair/typebox";
import { titled } from "../../lib/json/schemas.ts";
import { ApiError } from "../errors.ts";
import type { Model } from "../models.ts";

const nothing = Type.Null({ description: "Not known here." });

export const ModelInfo = Type.Object({
  type: Type.Literal("model"),
  id: Type.String(),
  display_name: Type.String(),
  created_at: Type.String({ format: "date-time" }),
  lifecycle: Type.Union([Type.Literal("active"), Type.Literal("deprecated")]),
  deprecated_at: nothing,
  retires_at: Type.Union([Type.String({ format: "date-time" }), Type.Null()]),
  line: nothing,
  capabilities: nothing,
  max_input_tokens: Type.Union([Type.Integer(), Type.Null()]),
  max_tokens: Type.Union([Type.Integer(), Type.Null()]),
});
export type ModelInfo = Static<typeof ModelInfo>;

const id = Type.Union([Type.String(), Type.Null()]);
export const ModelPage = Type.Object({
  data: Type.Array(ModelInfo),
  has_more: Type.Boolean(),
  first_id: id,
  last_id: id,
});

titled({ MessagesModel: ModelInfo, MessagesModelPage: ModelPage });
export type ModelPage = Static<typeof ModelPage>;

export function modelInfo(model: Model): ModelInfo {
  const { id, name, created, shutdown_date: ends, context_length, max_output_tokens } = model;
  return {
    type: "model",
    id,
    display_name: name,
    created_at: new Date(created * 1000).toISOString(),
    lifecycle: ends === undefined && model.deprecated === undefined ? "active" : "deprecated",
    deprecated_at: null,
    retires_at: ends === undefined ? null : `${ends}T00:00:00Z`,
    line: null,
    capabilities: null,
    max_input_tokens: context_length ?? null,
    max_tokens: max_output_tokens ?? null,
  };
}

const maxLimit = 1000;
const defaultLimit = "20";

/**
 * One page, by `limit` and either `after_id` or `before_id`.
 * @throws ApiError invalid_value
 */
export function modelPage(models: readonly Model[], query: URLSearchParams): ModelPage {
  const text = query.get("limit") ?? defaultLimit;
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > maxLimit) {
    throw ApiError.invalidValue("limit", `limit must be a whole number from 1 to ${maxLimit}.`);
  }
  const after = place(models, query, "after_id");
  const before = place(models, query, "before_id");
  const from = before === undefined ? (after ?? -1) + 1 : Math.max(0, before - limit);
  const to = before ?? from + limit;
  const data = models.slice(from, to).map(modelInfo);
  return {
    data,
    has_more: before === undefined ? to < models.length : from > 0,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  };
}

/** @returns where the model stands that the query names; undefined where it names none */
function place(models: readonly Model[], query: URLSearchParams, name: string): number | undefined {
  const wanted = query.get(name);
  if (wanted === null) return undefined;
  const at = models.findIndex((model) => model.id === wanted);
  if (at < 0) throw ApiError.invalidValue(name, `${name} names no model of this list.`);
  return at;
}
