/**
 * Amazon Bedrock: Claude by its Messages API, OpenAI's own models by chat completions and Responses, and all others by Converse.
 * Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html,
 * https://docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html,
 * https://docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html
 */

import { Type } from "@sinclair/typebox";
import { cloudOf } from "../../facts/clouds.ts";
import { listedModels } from "../../facts/facts.ts";
import { BedrockRules } from "../../facts/vocabulary/bedrock.ts";
import { KeyedRecord, keyOfLength } from "../../lib/json/keyed-record.ts";
import { Closed, Words } from "../../lib/json/schemas.ts";
import { tierHeaders } from "../../protocols/billed/places.ts";
import { anthropic } from "../anthropic/anthropic.ts";
import { fitted } from "../anthropic/fit.ts";
import { messagesRoute, native as ownMessages } from "../anthropic/native.ts";
import { asOldest, onCloud } from "../anthropic/on-cloud.ts";
import { encodeBody, upstreamRequest } from "../anthropic/request.ts";
import { AnthropicStream, decodeAnswer } from "../anthropic/stream.ts";
import { nativeRoutes } from "../native-endpoints.ts";
import { openAiQuirks } from "../openai-compatible/openai.ts";
import { openAiCompatible } from "../openai-compatible/openai-compatible.ts";
import type { Account, AnsweredCall, Call, NativeRoute, RemoteProvider, UpstreamRequest } from "../provider.ts";
import { bedrockResponses } from "../responses/quirks.ts";
import { asksForThoughts } from "../thinking-options.ts";
import { withToolNames } from "../tool-names.ts";
import { baseOf, converseUrl, isMantle, openAiBase, usualBase } from "./address.ts";
import { ConverseStream, decodeConverse } from "./answer.ts";
import { converseBody } from "./body.ts";
import { remoteMedia } from "./parts.ts";
import { bedrockRules, rowsAt, takesNewVersions, withRules } from "./rules.ts";

const guardrail = Closed({
  guardrailIdentifier: Type.String({ minLength: 1 }),
  guardrailVersion: Type.String({ minLength: 1 }),
  trace: Type.Optional(Words(["enabled", "disabled", "enabled_full"])),
  streamProcessingMode: Type.Optional(Words(["sync", "async"])),
});

const extras = Type.Object({
  ...anthropic.extras.properties,
  guardrail_config: Type.Optional({ ...guardrail, description: "Converse's guardrailConfig." }),
  performance_config: Type.Optional(
    Type.Object({ latency: Words(["standard", "optimized"]) }, { description: "Converse's performanceConfig." }),
  ),
  request_metadata: Type.Optional(
    // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html: keys of at most 256 characters
    KeyedRecord(keyOfLength(256), Type.String(), { description: "Converse's requestMetadata, for invocation logs." }),
  ),
  additional_model_request_fields: Type.Optional(
    KeyedRecord(keyOfLength(256), Type.Unknown(), {
      description: "Fields of the model's own, as Converse passes them on.",
    }),
  ),
});

/** Region and key as AWS's own libraries find them: https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html */
const environment = {
  keys: ["AWS_BEARER_TOKEN_BEDROCK"],
  baseUrl: ["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"],
  options: { AWS_DEFAULT_REGION: "region", AWS_REGION: "region" },
};

const chat = openAiCompatible({
  name: "bedrock",
  baseUrl: usualBase,
  environment,
  quirks: { ...openAiQuirks, max_tokens_field: "max_completion_tokens" },
  maker: "openai",
  responses: bedrockResponses,
  responsesAddress: (path, account, model = "") => `${openAiBase(account, model)}/${path}`,
  url: (operation, model, account) => `${openAiBase(account, model)}/${operation}`,
});

/** On `bedrock-mantle` chat completions take the place of Converse. */
function endpointOf(call: Pick<Call, "model" | "account">): BedrockRules["door"] {
  const { door } = bedrockRules(call);
  return door === "converse" && isMantle(call.account) ? "chat" : door;
}

const messagesBase = (account: Account): Pick<Account, "baseUrl"> => ({ baseUrl: `${baseOf(account)}/anthropic` });

function encode(call: Call): UpstreamRequest {
  switch (endpointOf(call)) {
    case "messages": {
      const body = { ...encodeBody(withRules(call)), model: call.model };
      return upstreamRequest(messagesBase(call.account), "", JSON.stringify(body), { betas: [] });
    }
    case "chat":
      return chat.encode(call);
    case "converse":
      return converse.encode(call);
  }
}

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html */
const converse = withToolNames<Pick<RemoteProvider, "encode" | "decode" | "streamDecoder">>(
  {
    encode: (call) => ({ url: converseUrl(call), body: JSON.stringify(converseBody(call)) }),
    decode: decodeConverse,
    streamDecoder: (call) => new ConverseStream(call),
  },
  { legal: /^[a-zA-Z0-9_-]{1,64}$/, maxLength: 64, fitting: (name) => name.replace(/[^a-zA-Z0-9_-]/g, "_") },
);

const { counter: _, ...messages } = messagesRoute(messagesBase);
const claude = onCloud(
  {
    ...messages,
    keepsNothing: true,
    fit: (body, call) => fitted(body, withRules(call)),
    members: (fields, call, headers) => ownMessages.members?.(fields, withRules(call), headers),
  },
  cloudOf("bedrock"),
  (asked, call) => (takesNewVersions(call) ? asked : asOldest(asked, call)),
);

/** Requests are always synchronous here: https://docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html */
const openaiEndpoint = nativeRoutes({
  name: "bedrock",
  baseUrl: usualBase,
  nativeEndpoints: { responses: { takesChanges: true } },
})["responses"]!.route;
const openai: NativeRoute = {
  ...openaiEndpoint,
  encode: (body, call, headers) => ({
    ...openaiEndpoint.encode(body, call, headers),
    url: `${openAiBase(call.account, call.model)}/responses`,
  }),
};

function native(format: string, call: Call): NativeRoute | undefined {
  if (format === "messages" && endpointOf(call) === "messages") return claude;
  return format === "responses" && endpointOf(call) === "chat" ? openai : undefined;
}

export const bedrock: RemoteProvider = {
  kind: "remote",
  servedTier: (header) => header(tierHeaders.bedrock) ?? undefined,
  format: "converse",
  formatOf(call) {
    const door = endpointOf(call);
    return door === "chat" ? chat.formatOf!(call) : door;
  },
  name: "bedrock",
  baseUrl: usualBase,
  environment,
  keyOptional: false,
  auth: { kind: "aws-sigv4", service: "bedrock" },
  options: Closed({
    region: Type.Optional(
      Type.String({ pattern: "^[a-z0-9-]{1,32}$", description: "The region of AWS. Default: us-east-1." }),
    ),
    profile: Type.Optional(Type.String({ minLength: 1, description: "The profile of AWS's shared files." })),
    auth: Type.Optional(
      Words(["aws-sigv4"], { description: "Signs requests even where there is an API key. Without a key: always." }),
    ),
    guardrail: Type.Optional({ ...guardrail, description: "The guardrail of each call by Converse." }),
  }),
  extras,
  modelRules: Type.Partial(BedrockRules),
  rowsFor: (call) => rowsAt(call, endpointOf(call)),
  models: listedModels("bedrock"),
  wantsThoughts: asksForThoughts,
  apiRoot: baseOf,
  remoteMedia: (call) => (endpointOf(call) === "converse" ? remoteMedia(call) : []),
  encode,
  native,
  decode(body, text, call: AnsweredCall) {
    switch (endpointOf(call)) {
      case "messages":
        return decodeAnswer(body, text, withRules(call));
      case "chat":
        return chat.decode(body, text, call);
      case "converse":
        return converse.decode(body, text, call);
    }
  },
  streamDecoder(call) {
    switch (endpointOf(call)) {
      case "messages":
        return new AnthropicStream(withRules(call));
      case "chat":
        return chat.streamDecoder(call);
      case "converse":
        return converse.streamDecoder(call);
    }
  },
};
