/**
 * Claude by the Messages API of Anthropic.
 * Source: https://platform.claude.com/docs/en/api/messages
 */

import { Type } from "@sinclair/typebox";
import { listedModels } from "../../facts/facts.ts";
import { AnthropicRules } from "../../facts/vocabulary/claude.ts";
import { Words } from "../../lib/json/schemas.ts";
import { anthropicModelList } from "../model-lists.ts";
import type { RemoteProvider } from "../provider.ts";
import { asksForThoughts } from "../thinking-options.ts";
import { countPrompt, native } from "./native.ts";
import { encodeRequest } from "./request.ts";
import { AnthropicStream, decodeAnswer } from "./stream.ts";
import { ThinkingExtras } from "./thinking.ts";

const extras = Type.Object({
  system_cache_control: Type.Optional(
    Type.Object(
      {
        type: Type.Literal("ephemeral"),
        ttl: Type.Optional(Words(["5m", "1h"], { description: "Default 5m." })),
      },
      { description: "Caches the tools and the system text: repeated calls within the cache time cost less." },
    ),
  ),
  ...ThinkingExtras,
});

export const anthropic: RemoteProvider = {
  kind: "remote",
  format: "messages",
  name: "anthropic",
  baseUrl: "https://api.anthropic.com",
  environment: {
    keys: ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
    tokens: ["ANTHROPIC_AUTH_TOKEN"],
    baseUrl: ["ANTHROPIC_BASE_URL"],
  },
  keyOptional: false,
  options: Type.Object({
    bearer: Type.Optional(Type.Boolean({ description: "The key is an access token, sent as Authorization: Bearer." })),
  }),
  extras,
  modelRules: Type.Partial(AnthropicRules),
  models: listedModels("anthropic"),
  wantsThoughts: asksForThoughts,
  modelList: anthropicModelList,
  keyPlace: {
    header: "x-api-key",
    // Access tokens of an account are no API keys: https://platform.claude.com/docs/en/api/overview#authentication
    tokens: { begin: "sk-ant-oat", headers: { "anthropic-beta": "oauth-2025-04-20" } },
  },
  encode: encodeRequest,
  decode: decodeAnswer,
  streamDecoder: (call) => new AnthropicStream(call),
  counter: countPrompt,
  native: (format) => (format === "messages" ? native : undefined),
};
