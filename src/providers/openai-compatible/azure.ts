/**
 * Azure OpenAI: the model is the name of a deployment, the key goes into a header of its own.
 * Source: https://learn.microsoft.com/azure/ai-foundry/openai/reference
 */

import { Type } from "@sinclair/typebox";
import { entraOptions } from "../entra.ts";
import type { Account, RemoteProvider } from "../provider.ts";
import { azureResponses } from "../responses/quirks.ts";
import type { ResponsesAddress } from "../responses/responses.ts";

import { openAiQuirks } from "./openai.ts";
import { openAiCompatible } from "./openai-compatible.ts";

/** Versions of the v1 API: https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle */
const undated = new Set<unknown>(["latest", "preview"]);

/** Here the deployment is named by the body: https://learn.microsoft.com/azure/ai-foundry/openai/how-to/responses */
const responsesAddress: ResponsesAddress = (path, account) => addressOf(account, path, path);

const chat = openAiCompatible({
  name: "azure",
  // Every resource has its own: https://<resource>.openai.azure.com
  baseUrl: "",
  // The variables of the official library: https://github.com/openai/openai-python#microsoft-azure-openai
  environment: {
    keys: ["AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"],
    tokens: ["AZURE_OPENAI_AD_TOKEN"],
    baseUrl: ["AZURE_OPENAI_ENDPOINT"],
    options: { OPENAI_API_VERSION: "api_version" },
  },
  // A resource lists the models that could be deployed, not its deployments: those are named by Azure's management API alone.
  // https://learn.microsoft.com/azure/ai-foundry/openai/reference (models - list)
  modelList: null,
  // https://learn.microsoft.com/azure/ai-foundry/openai/quotas-limits (maximum number of tools)
  maxTools: 128,
  quirks: { ...openAiQuirks, max_tokens_field: "max_completion_tokens" },
  options: Type.Object({
    api_version: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          "Addresses deployments by this dated version, e.g. 2024-12-01-preview; absent, v1, latest or preview: the v1 API.",
      }),
    ),
    ...entraOptions,
  }),
  url: (operation, model, account) =>
    addressOf(account, operation, `deployments/${encodeURIComponent(model)}/${operation}`),
  keyPlace: { header: "api-key" },
  responses: azureResponses,
  responsesAddress,
  // By the model's name, which is a deployment's unless another was chosen for it.
  maker: "openai",
});

/** Source: https://learn.microsoft.com/azure/ai-foundry/openai/how-to/managed-identity */
const auth = { kind: "entra", scope: "https://cognitiveservices.azure.com/.default", isChosen: true } as const;

export const azure: RemoteProvider = { ...chat, auth };

/** @param path below the v1 API @param datedPath where the account names a dated version */
function addressOf({ baseUrl, options }: Account, path: string, datedPath: string): string {
  const resource = baseUrl.replace(/\/openai(\/v1)?$/, "");
  const { api_version: version } = options;
  const query = typeof version === "string" && version !== "v1" ? `?api-version=${encodeURIComponent(version)}` : "";
  const isUndated = query === "" || undated.has(version);
  return isUndated ? `${resource}/openai/v1/${path}${query}` : `${resource}/openai/${datedPath}${query}`;
}
