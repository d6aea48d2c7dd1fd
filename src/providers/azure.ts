/**
 * Azure OpenAI: the model is the name of a deployment, the key goes into a header of its own.
 * Source: https://learn.microsoft.com/azure/ai-foundry/openai/reference
 */
import { Type } from "@sinclair/typebox";
import { openAiQuirks } from "./openai.ts";
import { openAiCompatible } from "./openai-compatible.ts";
import type { Account, Call } from "./provider.ts";

export const azure = openAiCompatible({
  name: "azure",
  // Every resource has its own: https://<resource>.openai.azure.com
  baseUrl: "",
  environment: { apiKey: ["AZURE_OPENAI_API_KEY"], baseUrl: ["AZURE_OPENAI_ENDPOINT"] },
  quirks: { ...openAiQuirks, max_tokens_field: "max_completion_tokens" },
  options: Type.Object({
    api_version: Type.Optional(
      Type.String({
        minLength: 1,
        description: "Addresses deployments by this dated version, e.g. 2024-12-01-preview; absent: the v1 API.",
      }),
    ),
  }),
  url: ({ model, account }: Call) => {
    const resource = account.baseUrl.replace(/\/openai(\/v1)?$/, "");
    const version = account.options["api_version"];
    return typeof version === "string"
      ? `${resource}/openai/deployments/${encodeURIComponent(model)}/chat/completions?api-version=${encodeURIComponent(version)}`
      : `${resource}/openai/v1/chat/completions`;
  },
  // A token of Entra ID comes by the account's own headers instead of a key.
  headers: ({ apiKey }: Account): Record<string, string> => (apiKey === undefined ? {} : { "api-key": apiKey }),
});
