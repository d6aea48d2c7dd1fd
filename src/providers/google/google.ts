/**
 * Google's Gemini API in its own format. Its OpenAI-compatible endpoint is not used: thoughts come as parts of their own here,
 * signatures on every part, with the whole split of the counts, and the reasons why a prompt was blocked.
 * Source: https://ai.google.dev/api/generate-content
 */

import { Type } from "@sinclair/typebox";
import { listedModels } from "../../facts/facts.ts";
import { GoogleRules } from "../../facts/vocabulary/gemini.ts";
import { Closed } from "../../lib/json/schemas.ts";
import { tierHeaders } from "../../protocols/billed/places.ts";
import { modelIn } from "../../protocols/generate-content/address.ts";
import { tierOf } from "../../protocols/generate-content/ending.ts";
import { googleModelList } from "../model-lists.ts";
import type { Call, RemoteProvider, TokenCounter } from "../provider.ts";
import { withToolNames } from "../tool-names.ts";
import { apiRoot, methodUrl } from "./address.ts";
import { decodeAnswer, GoogleStreamDecoder } from "./answer.ts";
import { googleEmbeddings } from "./embeddings.ts";
import { remoteMedia } from "./media.ts";
import { answerUrl, counter, native } from "./native.ts";
import { GoogleExtras, requestBody } from "./request.ts";
import { retryAfterSeconds } from "./retry.ts";
import { googleRules, modelName } from "./rules.ts";
import { wantsThoughts } from "./thinking.ts";
import { nameForm } from "./tool-names.ts";

const own: RemoteProvider = {
  kind: "remote",
  format: "generate-content",
  name: "google",
  baseUrl: "https://generativelanguage.googleapis.com/v1beta",
  environment: {
    keys: ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
    baseUrl: ["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
  },
  keyOptional: false,
  extras: GoogleExtras,
  modelRules: Type.Partial(GoogleRules),
  options: Closed({
    bearer: Type.Optional(
      Type.Boolean({ description: "The key is an access token (Vertex AI), sent as Authorization: Bearer." }),
    ),
  }),
  models: listedModels("google"),
  wantsThoughts,
  modelList: googleModelList,
  apiRoot,
  keyPlace: { header: "x-goog-api-key" },
  embeddings: googleEmbeddings,
  remoteMedia,
  encode: (call) => ({
    url: answerUrl(call),
    body: JSON.stringify(requestBody(call, googleRules(call))),
  }),
  counter: countPrompt,
  decode: decodeAnswer,
  streamDecoder: (call) => new GoogleStreamDecoder(call),
  native: (format) => (format === "generate-content" ? native : undefined),
  methodAddress: (format, method, model, account) =>
    format === "generate-content" ? methodUrl(account, modelIn(model), method) : undefined,
  retryAfterSeconds,
  servedTier: (header) => tierOf(header(tierHeaders.google) ?? undefined),
};

export const google = withToolNames(own, nameForm);

/** Estimates what would have to be fetched first. */
function countPrompt(call: Call): TokenCounter | undefined {
  if (remoteMedia(call).length > 0) return undefined;
  const generateContentRequest = { model: `models/${modelName(call)}`, ...requestBody(call, googleRules(call)) };
  return counter(JSON.stringify({ generateContentRequest }), call);
}
