/**
 * Lists of models as providers give them. Every member but the id is optional: what an upstream leaves out, or writes in a form that is
 * not documented, is unknown and costs the list nothing.
 */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../lib/json/json.ts";
import { InvalidAnswer } from "../protocols/errors.ts";
import type { ListedModel, ModelListFormat } from "./provider.ts";

/**
 * OpenAI's list, and those of upstreams that follow it with members of their own:
 * https://developers.openai.com/api/reference/resources/models/methods/list (shutdown_date),
 * https://openrouter.ai/docs/api-reference/list-available-models (context_length, architecture, top_provider, pricing, expiration_date),
 * https://docs.mistral.ai/api/#tag/models (capabilities, max_context_length, deprecation),
 * https://console.groq.com/docs/api-reference#models-list (active, context_window, max_completion_tokens),
 * https://docs.together.ai/reference/models-1 (a bare array; context_length, pricing in dollars per million),
 * https://platform.moonshot.ai/docs/api/list-models (context_length, supports_image_in, supports_video_in),
 * https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html (max_model_len).
 */
export const chatModelList: ModelListFormat = {
  request: ({ baseUrl }) => ({ method: "GET", url: `${baseUrl}/models` }),
  page: (body) => ({ models: rowsIn(Array.isArray(body) ? body : objectOf(body)?.["data"], chatModel) }),
};

/** https://docs.x.ai/docs/api-reference#list-language-models: prices in cents per 100 million tokens */
export const xaiModelList: ModelListFormat = {
  request: ({ baseUrl }) => ({ method: "GET", url: `${baseUrl}/language-models` }),
  page: (body) => ({
    models: rowsIn(objectOf(body)?.["models"], (row) => {
      const price = (name: string) => scaled(row[name], 1e-4);
      return {
        ...chatModel(row)!,
        price: priceOf(price("prompt_text_token_price"), price("completion_text_token_price")),
      };
    }),
  }),
};

const pageSize = 1000;

/** https://platform.claude.com/docs/en/api/models/list */
export const anthropicModelList: ModelListFormat = {
  request: ({ baseUrl }, after) => ({
    method: "GET",
    url: `${baseUrl.endsWith("/v1") ? baseUrl : `${baseUrl}/v1`}/models?limit=${pageSize}${after === undefined ? "" : `&after_id=${encodeURIComponent(after)}`}`,
    headers: { "anthropic-version": "2023-06-01" },
  }),
  page(body) {
    const page = objectOf(body);
    const next = page?.["has_more"] === true ? textOf(page["last_id"]) : undefined;
    return { models: rowsIn(page?.["data"], anthropicModel), next };
  },
};

/** https://ai.google.dev/api/models */
export const googleModelList: ModelListFormat = {
  request: ({ baseUrl }, after) => {
    // As for calls: Google's own libraries take a base URL without the version.
    const root = /^https?:\/\/[^/]+$/.test(baseUrl) ? `${baseUrl}/v1beta` : baseUrl;
    const token = after === undefined ? "" : `&pageToken=${encodeURIComponent(after)}`;
    return { method: "GET", url: `${root}/models?pageSize=${pageSize}${token}` };
  },
  page(body) {
    const page = objectOf(body);
    return { models: rowsIn(page?.["models"], googleModel), next: textOf(page?.["nextPageToken"]) || undefined };
  },
};

/** @throws InvalidAnswer where there is no list */
function rowsIn(rows: unknown, read: (row: JsonObject) => ListedModel | undefined): ListedModel[] {
  if (!Array.isArray(rows)) throw new InvalidAnswer("it is no list of models");
  return rows.flatMap((row) => {
    const id = isObject(row) ? (row["id"] ?? row["name"]) : undefined;
    return typeof id === "string" ? (read(row as JsonObject) ?? []) : [];
  });
}

function chatModel(row: JsonObject): ListedModel | undefined {
  // Groq lists what it no longer serves, too.
  if (row["active"] === false) return undefined;
  const architecture = objectOf(row["architecture"]) ?? {};
  const deprecated = dayOf(row["deprecation"]);
  return {
    id: String(row["id"] ?? row["name"]),
    created: wholeOf(row["created"]),
    contextLength: firstWhole(row, ["context_length", "context_window", "max_context_length", "max_model_len"]),
    maxOutputTokens: wholeOf(objectOf(row["top_provider"])?.["max_completion_tokens"] ?? row["max_completion_tokens"]),
    inputModalities: wordsOf(row["input_modalities"] ?? architecture["input_modalities"]) ?? inputsByFlags(row),
    outputModalities: wordsOf(row["output_modalities"] ?? architecture["output_modalities"]),
    price: pricing(objectOf(row["pricing"])),
    endsOn: dayOf(row["shutdown_date"]) ?? dayOf(row["expiration_date"]) ?? deprecated,
    isDeprecated: deprecated === undefined ? undefined : true,
  };
}

/** Mistral's `capabilities`, and Moonshot's `supports_image_in`. */
function inputsByFlags(row: JsonObject): string[] | undefined {
  const { vision, audio } = objectOf(row["capabilities"]) ?? {};
  const image = vision ?? row["supports_image_in"];
  if (typeof image !== "boolean") return undefined;
  const has = { image, audio, video: row["supports_video_in"] };
  return ["text", ...Object.entries(has).flatMap(([name, is]) => (is === true ? [name] : []))];
}

/** Dollars per token as texts, or per million as numbers. */
function pricing(prices: JsonObject | undefined): ListedModel["price"] {
  if (prices === undefined) return undefined;
  return (
    priceOf(scaled(prices["prompt"], 1e6), scaled(prices["completion"], 1e6)) ??
    priceOf(scaled(prices["input"], 1), scaled(prices["output"], 1))
  );
}

function anthropicModel(row: JsonObject): ListedModel {
  const capabilities = objectOf(row["capabilities"]);
  const can = (name: string) => objectOf(capabilities?.[name])?.["supported"] === true;
  const created = Date.parse(textOf(row["created_at"]) ?? "");
  return {
    id: String(row["id"]),
    created: Number.isNaN(created) ? undefined : wholeOf(created / 1000),
    contextLength: wholeOf(row["max_input_tokens"]),
    maxOutputTokens: wholeOf(row["max_tokens"]),
    inputModalities: capabilities && [
      "text",
      ...(can("image_input") ? ["image"] : []),
      ...(can("pdf_input") ? ["file"] : []),
    ],
    outputModalities: capabilities && ["text"],
    endsOn: dayOf(row["retires_at"]),
    isDeprecated: row["lifecycle"] === "deprecated" || row["lifecycle"] === "retired" ? true : undefined,
  };
}

const googleModel = (row: JsonObject): ListedModel => ({
  id: String(row["name"]).replace(/^models\//, ""),
  contextLength: wholeOf(row["inputTokenLimit"]),
  maxOutputTokens: wholeOf(row["outputTokenLimit"]),
});

const wholeOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) && value >= 1 && value <= 1e12 ? Math.floor(value) : undefined;

function firstWhole(row: JsonObject, names: readonly string[]): number | undefined {
  for (const name of names) {
    const found = wholeOf(row[name]);
    if (found !== undefined) return found;
  }
  return undefined;
}

const maxWords = 16;

function wordsOf(value: unknown): string[] | undefined {
  const words = listOf(value).filter((word): word is string => typeof word === "string" && /^[a-z_]{1,32}$/.test(word));
  return words.length === 0 ? undefined : words.slice(0, maxWords);
}

/** A negative price is none: OpenRouter's of a router that chooses the model. */
function scaled(value: unknown, factor: number): number | undefined {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  if (typeof number !== "number" || !(number >= 0)) return undefined;
  const dollars = Number((number * factor).toPrecision(12));
  return dollars <= 1e6 ? dollars : undefined;
}

const priceOf = (input: number | undefined, output: number | undefined): ListedModel["price"] =>
  input === undefined || output === undefined ? undefined : { input, output };

/** The day of a date or a time; undefined where it is neither. */
function dayOf(value: unknown): string | undefined {
  const [day] = (typeof value === "string" && /^\d{4}-\d\d-\d\d(?=T|$)/.exec(value)) || [];
  return day === undefined || Number.isNaN(Date.parse(day)) ? undefined : day;
}
