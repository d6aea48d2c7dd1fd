/** Hosts of open models: what each does differently, and where it says so. */
import { listedModels } from "../../../facts/facts.ts";
import { openAiCompatible } from "../openai-compatible.ts";
import { allRoles, openModels, platformFields, platformFieldsBut, strictMessageKeys } from "./fields.ts";
import { groqEndpoints, ollamaEndpoints } from "./native-endpoints.ts";

/** https://console.groq.com/docs/openai, https://console.groq.com/docs/reasoning */
export const groq = openAiCompatible({
  name: "groq",
  baseUrl: "https://api.groq.com/openai/v1",
  environment: { keys: ["GROQ_API_KEY"], baseUrl: ["GROQ_BASE_URL"] },
  models: listedModels("groq"),
  nativeEndpoints: groqEndpoints,
  quirks: {
    dropped: platformFieldsBut("service_tier"),
    dropped_when_neutral: ["n", "logprobs", "logit_bias", "modalities"],
    developer_role: "system",
    message_keys: [...strictMessageKeys, "reasoning"],
    text_roles: allRoles,
    think_tags: true,
  },
});

/** https://docs.together.ai/reference/chat-completions-1 */
export const together = openAiCompatible({
  name: "together",
  baseUrl: "https://api.together.xyz/v1",
  environment: { keys: ["TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"], baseUrl: ["TOGETHER_BASE_URL"] },
  models: listedModels("together"),
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
  models: listedModels("fireworks"),
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

/** https://inference-docs.cerebras.ai/resources/openai, https://inference-docs.cerebras.ai/capabilities/reasoning */
export const cerebras = openAiCompatible({
  name: "cerebras",
  baseUrl: "https://api.cerebras.ai/v1",
  environment: { keys: ["CEREBRAS_API_KEY"], baseUrl: ["CEREBRAS_BASE_URL"] },
  models: listedModels("cerebras"),
  quirks: {
    dropped: [...platformFields, "presence_penalty", "frequency_penalty"],
    dropped_when_neutral: ["n", "logit_bias", "modalities"],
    developer_role: "system",
    message_keys: [...strictMessageKeys, "name", "reasoning"],
    text_roles: allRoles,
    reasoning_replay: "reasoning",
    think_tags: true,
  },
});

/** https://docs.api.nvidia.com/nim/reference/llm-apis */
export const nvidia = openAiCompatible({
  name: "nvidia",
  baseUrl: "https://integrate.api.nvidia.com/v1",
  environment: { keys: ["NVIDIA_API_KEY"], baseUrl: ["NVIDIA_BASE_URL"] },
  // Lists of texts are refused: https://strandsagents.com/latest/documentation/docs/community/model-providers/nvidia-nim
  quirks: { ...openModels, text_roles: allRoles },
});

/** https://docs.sambanova.ai/docs/en/features/openai-compatibility, https://docs.pipecat.ai/server/services/llm/sambanova (the address) */
export const sambanova = openAiCompatible({
  name: "sambanova",
  baseUrl: "https://api.sambanova.ai/v1",
  environment: { keys: ["SAMBANOVA_API_KEY"], baseUrl: ["SAMBANOVA_BASE_URL"] },
  quirks: openModels,
});

/** https://docs.tokenfactory.nebius.com/api-reference/introduction */
export const nebius = openAiCompatible({
  name: "nebius",
  baseUrl: "https://api.tokenfactory.nebius.com/v1",
  environment: { keys: ["NEBIUS_API_KEY"], baseUrl: ["NEBIUS_BASE_URL"] },
  quirks: openModels,
});

/** https://docs.deepinfra.com/chat/overview */
export const deepinfra = openAiCompatible({
  name: "deepinfra",
  baseUrl: "https://api.deepinfra.com/v1/openai",
  environment: { keys: ["DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN"], baseUrl: ["DEEPINFRA_BASE_URL"] },
  quirks: {
    ...openModels,
    // https://docs.deepinfra.com/chat/overview#service-tier, https://docs.deepinfra.com/api-reference/openai-chat-completions-1
    dropped: platformFieldsBut("service_tier", "prompt_cache_key"),
    // https://docs.deepinfra.com/api-reference/openai-chat-completions-1
    top_k: true,
    // https://docs.deepinfra.com/apis/completions
    completions: true,
    // https://docs.deepinfra.com/chat/reasoning: none, low, medium and high
    efforts: { minimal: "low", xhigh: "high", max: "high" },
  },
});

/** https://docs.ollama.com/api/authentication, https://docs.ollama.com/api/introduction */
export const ollamaCloud = openAiCompatible({
  name: "ollama-cloud",
  baseUrl: "https://ollama.com/v1",
  environment: {
    keys: ["OLLAMA_CLOUD_API_KEY", "OLLAMA_API_KEY"],
    // The local server's row has it too.
    shared: ["OLLAMA_API_KEY"],
    baseUrl: ["OLLAMA_CLOUD_BASE_URL"],
  },
  nativeEndpoints: ollamaEndpoints,
  quirks: { ...openModels, inline_images: true, reasoning_replay: "reasoning" },
});
