/** Makers of models that serve them by chat completions: what each does differently, and where it says so. */
import { listedModels } from "../../../facts/facts.ts";
import { openAiCompatible } from "../openai-compatible.ts";
import { allRoles, platformFields, platformFieldsBut, strictMessageKeys } from "./fields.ts";
import { deepseekEndpoints, minimaxEndpoints, moonshotEndpoints, zaiEndpoints } from "./native-endpoints.ts";

/** https://docs.mistral.ai/api/#tag/chat: unknown fields are answered with 422. */
export const mistral = openAiCompatible({
  name: "mistral",
  baseUrl: "https://api.mistral.ai/v1",
  environment: { keys: ["MISTRAL_API_KEY"], baseUrl: ["MISTRAL_BASE_URL"] },
  models: listedModels("mistral"),
  lacks: ["images/generations", "images/edits", "images/variations", "audio/translations", "rerank"],
  // https://docs.mistral.ai/api/#tag/embeddings
  operationFields: (operation) =>
    operation === "embeddings" ? { dimensions: "output_dimension", user: null } : undefined,
  quirks: {
    max_tokens_field: "max_tokens",
    renamed: { seed: "random_seed" },
    dropped: [...platformFieldsBut("prediction"), "user"],
    dropped_when_neutral: ["logprobs", "logit_bias", "modalities"],
    developer_role: "system",
    message_keys: [...strictMessageKeys, "name", "prefix"],
    // https://github.com/mistralai/mistral-common: ids of other lengths are refused
    tool_call_ids: "nine_alphanumerics",
    // "Assistant message must have either content or tool_calls, but not none.": https://github.com/mistralai/mistral-common
    empty_answers: false,
    // "Unexpected role 'user' after role 'tool'"
    answer_after_tools: true,
    // "Expected last role User or Tool (or Assistant with prefix True) for serving"
    prefill_field: "prefix",
    reasoning_replay: "thinking_part",
    stream_usage: false,
    efforts: { minimal: "low", xhigh: "high", max: "high" },
  },
});

/** https://api-docs.deepseek.com/guides/thinking_mode, https://api-docs.deepseek.com/guides/json_mode */
export const deepseek = openAiCompatible({
  name: "deepseek",
  baseUrl: "https://api.deepseek.com",
  environment: { keys: ["DEEPSEEK_API_KEY"], baseUrl: ["DEEPSEEK_BASE_URL"] },
  models: listedModels("deepseek"),
  nativeEndpoints: deepseekEndpoints,
  quirks: {
    max_tokens_field: "max_tokens",
    dropped: platformFields,
    developer_role: "system",
    text_roles: allRoles,
    reasoning_replay: "reasoning_content",
    reasoning_beside_calls: true,
    thinking_field: true,
    // The other values are mapped by the upstream itself.
    efforts: { none: null },
    json_schema_as_object: true,
  },
});

/** https://platform.moonshot.ai/docs/api/chat, https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model */
export const moonshot = openAiCompatible({
  name: "moonshot",
  baseUrl: "https://api.moonshot.ai/v1",
  environment: { keys: ["MOONSHOT_API_KEY"], baseUrl: ["MOONSHOT_BASE_URL"] },
  models: listedModels("moonshot"),
  nativeEndpoints: moonshotEndpoints,
  quirks: {
    max_tokens_field: "max_tokens",
    dropped: platformFieldsBut("prompt_cache_key", "safety_identifier"),
    developer_role: "system",
    reasoning_replay: "reasoning_content",
    reasoning_beside_calls: true,
    thinking_field: true,
    efforts: { "*": null },
    // https://platform.moonshot.ai/docs/api/partial
    prefill_field: "partial",
    // https://platform.moonshot.ai/docs/guide/use-kimi-vision-model: base64 only
    inline_images: true,
    // The flavour of schemas that it checks: https://github.com/MoonshotAI/walle, as @ai-sdk/moonshotai 3.0 writes it
    typed_variants: true,
  },
});

/** https://docs.z.ai/api-reference/llm/chat-completion, https://docs.z.ai/guides/capabilities/thinking-mode */
export const zai = openAiCompatible({
  name: "zai",
  baseUrl: "https://api.z.ai/api/paas/v4",
  environment: { keys: ["ZAI_API_KEY"], baseUrl: ["ZAI_BASE_URL"] },
  models: listedModels("zai"),
  modelList: null,
  nativeEndpoints: zaiEndpoints,
  quirks: {
    max_tokens_field: "max_tokens",
    dropped: [...platformFields, "user", "parallel_tool_calls"],
    developer_role: "system",
    text_roles: allRoles,
    reasoning_replay: "reasoning_content",
    thinking_field: true,
    efforts: { "*": null },
    stream_usage: false,
  },
});

/** https://docs.perplexity.ai/api-reference/chat-completions-post */
export const perplexity = openAiCompatible({
  name: "perplexity",
  baseUrl: "https://api.perplexity.ai",
  environment: { keys: ["PERPLEXITY_API_KEY", "PPLX_API_KEY"], baseUrl: ["PERPLEXITY_BASE_URL"] },
  models: listedModels("perplexity"),
  modelList: null,
  quirks: {
    max_tokens_field: "max_tokens",
    dropped: [...platformFields, "user", "seed", "parallel_tool_calls"],
    dropped_when_neutral: ["n", "logprobs", "logit_bias", "modalities"],
    developer_role: "system",
    message_keys: strictMessageKeys,
    // "After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s)."
    alternating: true,
    stream_usage: false,
    think_tags: true,
  },
});

/**
 * https://www.alibabacloud.com/help/en/model-studio/base-url names an address for each region, and a key is that of one region: this is
 * Singapore's, for all workspaces.
 */
export const alibaba = openAiCompatible({
  name: "alibaba",
  baseUrl: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
  environment: { keys: ["DASHSCOPE_API_KEY"], baseUrl: ["DASHSCOPE_BASE_URL"] },
  quirks: {
    // "max_tokens" is deprecated: https://www.alibabacloud.com/en/notice/model_studio_notice_of_changes_to_certain_model_fields_724
    max_tokens_field: "max_completion_tokens",
    dropped: platformFields,
    developer_role: "system",
    // https://www.alibabacloud.com/help/en/model-studio/deep-thinking
    thinking_flag: "enable_thinking",
    efforts: { "*": null },
    options: ["thinking_budget"],
  },
});

/** https://platform.minimax.io/docs/api-reference/text-openai-api */
export const minimax = openAiCompatible({
  name: "minimax",
  baseUrl: "https://api.minimax.io/v1",
  environment: { keys: ["MINIMAX_API_KEY"], baseUrl: ["MINIMAX_BASE_URL"] },
  nativeEndpoints: minimaxEndpoints,
  quirks: {
    // "max_tokens" is deprecated: https://java.agentscope.io/v2/en/integration/model/minimax
    max_tokens_field: "max_completion_tokens",
    dropped: platformFields,
    developer_role: "system",
    // The text holds the thoughts between tags, and has to come back with them.
    think_tags: true,
    reasoning_replay: "think_tags",
    efforts: { "*": null },
    options: ["thinking"],
  },
});

/** https://www.volcengine.com/docs/82379/1494384, and for its address abroad https://docs.byteplus.com/en/docs/ModelArk/1494384 */
export const volcengine = openAiCompatible({
  name: "volcengine",
  baseUrl: "https://ark.cn-beijing.volces.com/api/v3",
  environment: { keys: ["ARK_API_KEY"], baseUrl: ["ARK_BASE_URL"] },
  modelList: null,
  quirks: {
    dropped: platformFieldsBut("service_tier"),
    developer_role: "system",
    reasoning_replay: "reasoning_content",
    thinking_field: true,
    // "minimal" is thinking switched off, which the other field says.
    efforts: { none: null, minimal: "low", xhigh: "high", max: "high" },
  },
});
