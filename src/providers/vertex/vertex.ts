/**
 * Google's Vertex AI: Gemini, Claude and open models in one account, each in its maker's own format.
 * Source: https://docs.cloud.google.com/vertex-ai/generative-ai/docs
 */

import { Type } from "@sinclair/typebox";
import type { RowsPlace } from "../../facts/explain.ts";
import { listedModels } from "../../facts/facts.ts";
import { KeyedRecord, keyOfLength } from "../../lib/json/keyed-record.ts";
import { tierHeaders } from "../../protocols/billed/places.ts";
import { tierOf } from "../../protocols/generate-content/ending.ts";
import { anthropic } from "../anthropic/anthropic.ts";
import { GoogleExtras } from "../google/request.ts";
import { retryAfterSeconds } from "../google/retry.ts";
import { openAiCompatible } from "../openai-compatible/openai-compatible.ts";
import type { AnsweredCall, Call, RemoteProvider } from "../provider.ts";
import { openUrl, vertexUrl } from "./address.ts";
import { claude } from "./claude.ts";
import { type Family, type Publisher, placeOf } from "./families.ts";
import { embeddings, gemini } from "./gemini.ts";

const options = Type.Object({
  project: Type.Optional(
    Type.String({
      minLength: 1,
      description:
        "The Google Cloud project. Default: that of a service account's file. Without one only Gemini answers, by a key of express mode.",
    }),
  ),
  location: Type.Optional(
    Type.String({
      pattern: "^[a-z0-9-]+$",
      description: "A region (europe-west4), several (us, eu) or global, which is the default.",
    }),
  ),
  bearer: Type.Optional(Type.Boolean({ description: "The key is an access token, sent as Authorization: Bearer." })),
  credentials_file: Type.Optional(
    Type.String({ description: "Google's credentials as a file. Default: what their client libraries look for." }),
  ),
});

/** Accounts of several kinds have variables of the same meaning; Google's own stand first. */
const environment: RemoteProvider["environment"] = {
  // https://ai-sdk.dev/providers/ai-sdk-providers/google-vertex#express-mode
  keys: ["GOOGLE_VERTEX_API_KEY"],
  baseUrl: ["GOOGLE_VERTEX_BASE_URL"],
  // https://ai-sdk.dev/providers/ai-sdk-providers/google-vertex, https://code.claude.com/docs/en/google-vertex-ai
  presence: ["GOOGLE_VERTEX_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID"],
  // https://googleapis.github.io/js-genai/release_docs/index.html#vertex-ai; the last of those that are set counts
  options: {
    CLOUD_ML_REGION: "location",
    GOOGLE_CLOUD_LOCATION: "location",
    GOOGLE_VERTEX_LOCATION: "location",
    ANTHROPIC_VERTEX_PROJECT_ID: "project",
    GOOGLE_CLOUD_PROJECT: "project",
    GOOGLE_VERTEX_PROJECT: "project",
  },
  // The key file of a service account names its project: https://cloud.google.com/docs/authentication/application-default-credentials
  credentialsFile: {
    option: "credentials_file",
    variable: "GOOGLE_APPLICATION_CREDENTIALS",
    members: { project: "project_id" },
  },
};

const open = openAiCompatible({
  name: "vertex",
  baseUrl: vertexUrl,
  environment,
  options,
  url: (operation, _, account) => openUrl(account, operation),
});

const families: Readonly<Record<string, Family>> = { google: gemini, anthropic: claude, open };

const rowsOf: Readonly<Record<Publisher, readonly RowsPlace[]>> = {
  google: [
    { format: "generate-content", provider: "vertex" },
    { format: "generate-content", provider: "google" },
  ],
  anthropic: [{ format: "messages", provider: "anthropic" }],
  open: [{ format: "chat", provider: "vertex" }],
};

/** A call as its family takes it. */
function placed<C extends Call>(call: C): { readonly family: Family; readonly call: C } {
  const { publisher, model } = placeOf(call.model);
  return { family: families[publisher]!, call: model === call.model ? call : { ...call, model } };
}

const familyOf = (given: Call): Family => placed(given).family;

export const vertex: RemoteProvider = {
  kind: "remote",
  name: "vertex",
  format: gemini.format,
  formatOf: (call) => familyOf(call).format,
  baseUrl: vertexUrl,
  environment,
  // https://docs.cloud.google.com/docs/authentication/application-default-credentials
  keyOptional: false,
  auth: { kind: "google", scope: "https://www.googleapis.com/auth/cloud-platform" },
  keyPlace: { header: "x-goog-api-key" },
  options,
  extras: Type.Object({
    ...open.extras.properties,
    ...anthropic.extras.properties,
    ...GoogleExtras.properties,
    labels: Type.Optional(
      KeyedRecord(keyOfLength(63), Type.String(), {
        description: "Gemini alone: names that the project's bill tells its calls apart by.",
      }),
    ),
  }),
  models: listedModels("vertex"),
  rowsFor: ({ model }) => rowsOf[placeOf(model).publisher],
  embeddings,
  retryAfterSeconds,
  servedTier: (header) => tierOf(header(tierHeaders.google) ?? undefined),
  wantsThoughts: (given) => apply(given, ({ family, call }) => family.wantsThoughts(call)),
  remoteMedia: (given) => apply(given, ({ family, call }) => family.remoteMedia?.(call) ?? []),
  encode: (given) => apply(given, ({ family, call }) => family.encode(call)),
  counter: (given) => apply(given, ({ family, call }) => family.counter?.(call)),
  decode: (body, text, given: AnsweredCall) => apply(given, ({ family, call }) => family.decode(body, text, call)),
  streamDecoder: (given) => apply(given, ({ family, call }) => family.streamDecoder(call)),
  native(format, given) {
    const { family, call } = placed(given);
    const route = family.native?.(format, call);
    if (route === undefined || call === given) return route;
    const { fit, members, counter } = route;
    return {
      ...route,
      encode: (body, own, headers) => route.encode(body, placed(own).call, headers),
      decode: (body, text, own) => route.decode(body, text, placed(own).call),
      streamDecoder: (own) => route.streamDecoder(placed(own).call),
      ...(fit && { fit: (body, own, headers) => fit(body, placed(own).call, headers) }),
      ...(members && { members: (fields, own, headers) => members(fields, placed(own).call, headers) }),
      ...(counter && { counter: (body, own, headers) => counter(body, placed(own).call, headers) }),
    };
  },
};

function apply<C extends Call, T>(given: C, run: (placed: { readonly family: Family; readonly call: C }) => T): T {
  return run(placed(given));
}
