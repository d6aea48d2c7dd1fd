/**
 * Clouds whose addresses hold the customer's account: what each does differently, and where it says so. Their lists of models, where they have
 * one, are of another format.
 */
import { Type } from "@sinclair/typebox";
import type { Account } from "../../provider.ts";
import { openAiCompatible } from "../openai-compatible.ts";
import { openModels, platformFields } from "./fields.ts";
import { databricksEndpoints, snowflakeEndpoints } from "./native-endpoints.ts";

/** An option as a part of a path. */
const part = ({ options }: Account, name: string) => encodeURIComponent(String(options[name] ?? ""));

const accountId = Type.String({ minLength: 1, description: "The account's id, a part of its addresses." });

/**
 * https://developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility (models `@cf/…`), and for those of other makers, which
 * pass AI Gateway: https://developers.cloudflare.com/changelog/post/2026-05-21-rest-api/
 */
export const cloudflare = openAiCompatible({
  name: "cloudflare",
  baseUrl: "https://api.cloudflare.com/client/v4",
  environment: {
    keys: ["CLOUDFLARE_AI_API_KEY", "CLOUDFLARE_API_TOKEN"],
    // Deployments are done with it: https://developers.cloudflare.com/workers/wrangler/system-environment-variables/
    shared: ["CLOUDFLARE_API_TOKEN"],
    baseUrl: ["CLOUDFLARE_AI_BASE_URL"],
    options: { CLOUDFLARE_ACCOUNT_ID: "account_id" },
  },
  options: Type.Object({ account_id: accountId }),
  url: (operation, _model, account) => `${account.baseUrl}/accounts/${part(account, "account_id")}/ai/v1/${operation}`,
  modelList: null,
  quirks: { dropped: platformFields },
  modelRules: [{ match: "@cf/*", ...openModels }],
});

/** https://developers.cloudflare.com/ai-gateway/chat-completion/: the key is that of the maker, where the gateway has not stored it. */
export const cloudflareGateway = openAiCompatible({
  name: "cloudflare-gateway",
  baseUrl: "https://gateway.ai.cloudflare.com/v1",
  environment: {
    keys: ["CLOUDFLARE_GATEWAY_API_KEY"],
    baseUrl: ["CLOUDFLARE_GATEWAY_BASE_URL"],
    options: { CLOUDFLARE_ACCOUNT_ID: "account_id", CLOUDFLARE_GATEWAY_ID: "gateway_id" },
  },
  options: Type.Object({
    account_id: accountId,
    gateway_id: Type.String({ minLength: 1, description: "The gateway's id." }),
  }),
  url: (operation, _model, account) =>
    `${account.baseUrl}/${part(account, "account_id")}/${part(account, "gateway_id")}/compat/${operation}`,
  modelList: null,
  quirks: { dropped: platformFields },
});

/** https://docs.databricks.com/aws/en/machine-learning/foundation-model-apis/api-reference */
export const databricks = openAiCompatible({
  name: "databricks",
  // Every workspace has its own: https://<workspace>.cloud.databricks.com
  baseUrl: "",
  environment: {
    keys: ["DATABRICKS_API_KEY", "DATABRICKS_TOKEN"],
    baseUrl: ["DATABRICKS_BASE_URL", "DATABRICKS_HOST"],
    // All its tools read them: https://docs.databricks.com/aws/en/dev-tools/auth/env-vars
    shared: ["DATABRICKS_TOKEN", "DATABRICKS_HOST"],
  },
  url: (operation, _model, { baseUrl }) =>
    `${baseUrl.replace(/\/serving-endpoints$/, "")}/serving-endpoints/${operation}`,
  modelList: null,
  nativeEndpoints: databricksEndpoints,
  quirks: {
    // https://github.com/OpenHands/software-agent-sdk/pull/2128
    max_tokens_field: "max_tokens",
    dropped: platformFields,
    developer_role: "system",
    // `json: unknown field "stream_options"`: https://github.com/continuedev/continue/issues/12936
    stream_usage: false,
    // https://docs.databricks.com/aws/en/machine-learning/model-serving/query-reason-models
    options: ["thinking"],
  },
});

/** https://docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api: the key is a programmatic access token, or a JWT. */
export const snowflake = openAiCompatible({
  name: "snowflake",
  // Every account has its own: https://<account-identifier>.snowflakecomputing.com
  baseUrl: "",
  environment: {
    keys: ["SNOWFLAKE_API_KEY", "SNOWFLAKE_PAT"],
    // Snowflake's own examples name it so: https://docs.snowflake.com/user-guide/snowflake-cortex/cortex-agent-sdk/authentication
    shared: ["SNOWFLAKE_PAT"],
    baseUrl: ["SNOWFLAKE_BASE_URL"],
  },
  url: (operation, _model, { baseUrl }) =>
    `${baseUrl.replace(/\/api\/v2\/cortex\/v1$/, "")}/api/v2/cortex/v1/${operation}`,
  modelList: null,
  nativeEndpoints: snowflakeEndpoints,
  quirks: {
    // https://github.com/anomalyco/opencode/blob/dev/packages/opencode/src/plugin/snowflake-cortex.ts
    max_tokens_field: "max_completion_tokens",
    dropped: platformFields,
  },
});
