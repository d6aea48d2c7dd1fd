/** Upstreams that speak chat completions with an accent: what each does differently, and where it says so. */
import { openAiCompatible } from "./openai-compatible.ts";
import type { Quirks } from "./quirks.ts";

/** Fields that only OpenAI's own platform knows, without which the answer is the same. */
export const platformFields = [
  "store",
  "metadata",
  "service_tier",
  "prediction",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_retention",
  "verbosity",
];
const platformFieldsBut = (...kept: string[]) => platformFields.filter((name) => !kept.includes(name));

const strictMessageKeys = ["role", "content", "tool_calls", "tool_call_id"];
const allRoles = ["system", "developer", "user", "assistant", "tool"];

/** https://docs.mistral.ai/api/#tag/chat: unknown fields are answered with 422. */
export const mistral = openAiCompatible({
  name: "mistral",
  baseUrl: "https://api.mistral.ai/v1",
  environment: { keys: ["MISTRAL_API_KEY"], baseUrl: ["MISTRAL_BASE_URL"] },
  models: ["mistral-large-latest", "mistral-medium-latest", "mistral-small-latest", "codestral-latest"],
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
    // "Unexpected role 'user' after role 'tool'"
    answer_after_tools: true,
    // "Expected last role User or Tool (or Assistant with prefix True) for serving"
    prefill_field: "prefix",
    reasoning_replay: "thinking_part",
    stream_usage: false,
    efforts: { minimal: "low", xhigh: "high", max: "high" },
  },
  modelRules: [
    // https://docs.mistral.ai/inference/conversations/reasoning
    { match: "magistral*", efforts: { "*": null } },
    // "Ministral doesn't support reasoning": https://github.com/tontinton/maki/pull/396
    { match: "ministral*", efforts: { "*": null } },
    { match: "mistral-small*", efforts: { none: "none", "*": "high" } },
    { match: "mistral-medium*", efforts: { none: "none", "*": "high" } },
  ],
});

/** https://console.groq.com/docs/openai, https://console.groq.com/docs/reasoning */
export const groq = openAiCompatible({
  name: "groq",
  baseUrl: "https://api.groq.com/openai/v1",
  environment: { keys: ["GROQ_API_KEY"], baseUrl: ["GROQ_BASE_URL"] },
  models: ["openai/gpt-oss-120b", "openai/gpt-oss-20b", "qwen/qwen3-32b"],
  quirks: {
    dropped: platformFieldsBut("service_tier"),
    dropped_when_neutral: ["n", "logprobs", "logit_bias", "modalities"],
    developer_role: "system",
    message_keys: [...strictMessageKeys, "reasoning"],
    text_roles: allRoles,
    think_tags: true,
  },
  modelRules: [
    {
      match: "openai/gpt-oss*",
      reasoning_replay: "reasoning",
      efforts: { none: "low", minimal: "low", xhigh: "high", max: "high" },
    },
    { match: "qwen/qwen3*", reasoning_replay: "reasoning", efforts: { none: "none", "*": "default" } },
  ],
});

/** https://api-docs.deepseek.com/guides/thinking_mode, https://api-docs.deepseek.com/guides/json_mode */
export const deepseek = openAiCompatible({
  name: "deepseek",
  baseUrl: "https://api.deepseek.com",
  environment: { keys: ["DEEPSEEK_API_KEY"], baseUrl: ["DEEPSEEK_BASE_URL"] },
  models: ["deepseek-v4-pro", "deepseek-v4-flash"],
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

/** https://docs.together.ai/reference/chat-completions-1 */
export const together = openAiCompatible({
  name: "together",
  baseUrl: "https://api.together.xyz/v1",
  environment: { keys: ["TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"], baseUrl: ["TOGETHER_BASE_URL"] },
  models: ["openai/gpt-oss-120b", "meta-llama/Llama-3.3-70B-Instruct-Turbo"],
  quirks: {
    top_k: true,
    completions: true,
    max_tokens_field: "max_tokens",
    dropped: [...platformFields, "parallel_tool_calls"],
    developer_role: "system",
    think_tags: true,
  },
});

/** https://docs.fireworks.ai/api-reference/post-chatcompletions */
export const fireworks = openAiCompatible({
  name: "fireworks",
  baseUrl: "https://api.fireworks.ai/inference/v1",
  environment: { keys: ["FIREWORKS_API_KEY"], baseUrl: ["FIREWORKS_BASE_URL"] },
  models: ["accounts/fireworks/models/gpt-oss-120b", "accounts/fireworks/models/llama-v3p3-70b-instruct"],
  quirks: {
    top_k: true,
    completions: true,
    max_tokens_field: "max_tokens",
    dropped: platformFields,
    developer_role: "system",
    reasoning_replay: "reasoning_content",
    think_tags: true,
    options: ["thinking"],
  },
});

/** https://openrouter.ai/docs/api-reference/parameters, https://openrouter.ai/docs/use-cases/reasoning-tokens */
export const openrouter = openAiCompatible({
  name: "openrouter",
  baseUrl: "https://openrouter.ai/api/v1",
  environment: { keys: ["OPENROUTER_API_KEY"], baseUrl: ["OPENROUTER_BASE_URL"] },
  models: ["openrouter/auto"],
  quirks: {
    top_k: true,
    // https://openrouter.ai/docs/use-cases/usage-accounting
    usage_include: true,
    completions: true,
    reasoning_replay: "reasoning_details",
    // https://openrouter.ai/docs/features/prompt-caching
    cache_control: true,
    tool_images: true,
    refusal_parts: true,
    // https://openrouter.ai/docs/features/images-and-pdfs#skip-parsing-costs
    answer_fields: true,
    think_tags: true,
  },
});

/** https://docs.perplexity.ai/api-reference/chat-completions-post */
export const perplexity = openAiCompatible({
  name: "perplexity",
  baseUrl: "https://api.perplexity.ai",
  environment: { keys: ["PERPLEXITY_API_KEY", "PPLX_API_KEY"], baseUrl: ["PERPLEXITY_BASE_URL"] },
  models: ["sonar", "sonar-pro", "sonar-reasoning-pro", "sonar-deep-research"],
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

/** https://inference-docs.cerebras.ai/resources/openai, https://inference-docs.cerebras.ai/capabilities/reasoning */
export const cerebras = openAiCompatible({
  name: "cerebras",
  baseUrl: "https://api.cerebras.ai/v1",
  environment: { keys: ["CEREBRAS_API_KEY"], baseUrl: ["CEREBRAS_BASE_URL"] },
  models: ["gpt-oss-120b", "zai-glm-4.7", "llama-3.3-70b"],
  quirks: {
    dropped: [...platformFields, "presence_penalty", "frequency_penalty"],
    dropped_when_neutral: ["n", "logit_bias", "modalities"],
    developer_role: "system",
    message_keys: [...strictMessageKeys, "name", "reasoning"],
    text_roles: allRoles,
    reasoning_replay: "reasoning",
    think_tags: true,
  },
  modelRules: [
    { match: "gpt-oss*", efforts: { none: "low", minimal: "low", xhigh: "high", max: "high" } },
    // https://inference-docs.cerebras.ai/capabilities/reasoning#reasoning-context-retention
    { match: "zai-glm*", reasoning_replay: "think_tags" },
  ],
});

/** https://platform.moonshot.ai/docs/api/chat, https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model */
export const moonshot = openAiCompatible({
  name: "moonshot",
  baseUrl: "https://api.moonshot.ai/v1",
  environment: { keys: ["MOONSHOT_API_KEY"], baseUrl: ["MOONSHOT_BASE_URL"] },
  models: ["kimi-k2.6", "kimi-k2.5", "moonshot-v1-auto"],
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
  },
});

/** https://docs.z.ai/api-reference/llm/chat-completion, https://docs.z.ai/guides/capabilities/thinking-mode */
export const zai = openAiCompatible({
  name: "zai",
  baseUrl: "https://api.z.ai/api/paas/v4",
  environment: { keys: ["ZAI_API_KEY"], baseUrl: ["ZAI_BASE_URL"] },
  models: ["glm-5.3", "glm-5.2", "glm-4.7", "glm-4.6v"],
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
  modelRules: [
    // From here on it always thinks, in three degrees.
    {
      match: "glm-5.3*",
      thinking_field: false,
      efforts: { none: "low", minimal: "low", medium: "high", xhigh: "max" },
    },
    { match: "glm-5.2*", efforts: { none: null } },
  ],
});

const ownServer: Quirks = {
  completions: true,
  top_k: true,
  max_tokens_field: "max_tokens",
  dropped: platformFields,
  developer_role: "system",
  think_tags: true,
};

/** https://docs.ollama.com/api/openai-compatibility */
export const ollama = openAiCompatible({
  name: "ollama",
  baseUrl: "http://localhost:11434/v1",
  environment: { keys: ["OLLAMA_API_KEY"], baseUrl: ["OLLAMA_BASE_URL", "OLLAMA_HOST"] },
  keyOptional: true,
  // Older versions take images as data URLs only.
  quirks: { ...ownServer, inline_images: true, reasoning_replay: "reasoning" },
});

/** https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html */
export const vllm = openAiCompatible({
  name: "vllm",
  baseUrl: "http://localhost:8000/v1",
  environment: { keys: ["VLLM_API_KEY"], baseUrl: ["VLLM_BASE_URL"] },
  keyOptional: true,
  quirks: {
    completions: true,
    top_k: true,
    developer_role: "system",
    dropped: platformFields,
    reasoning_replay: "reasoning",
    think_tags: true,
  },
});

/** https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md */
export const llamacpp = openAiCompatible({
  name: "llamacpp",
  baseUrl: "http://127.0.0.1:8080/v1",
  environment: { keys: ["LLAMACPP_API_KEY"], baseUrl: ["LLAMACPP_BASE_URL"] },
  keyOptional: true,
  quirks: { ...ownServer, reasoning_replay: "reasoning_content" },
});

/** https://lmstudio.ai/docs/app/api/endpoints/openai */
export const lmstudio = openAiCompatible({
  name: "lmstudio",
  baseUrl: "http://localhost:1234/v1",
  environment: { keys: ["LM_STUDIO_API_KEY"], baseUrl: ["LM_STUDIO_BASE_URL"] },
  keyOptional: true,
  quirks: { ...ownServer, inline_images: true, json_object_as_schema: true },
});
