/** Servers on one's own machine: what each does differently, and where it says so. */

import type { Quirks } from "../../../facts/vocabulary/chat.ts";
import { openAiCompatible } from "../openai-compatible.ts";
import { platformFields } from "./fields.ts";
import { llamacppEndpoints, lmstudioEndpoints, ollamaEndpoints, vllmEndpoints } from "./native-endpoints.ts";

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
  nativeEndpoints: ollamaEndpoints,
  quirks: { ...ownServer, inline_images: true, reasoning_replay: "reasoning" },
});

/** https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html */
export const vllm = openAiCompatible({
  name: "vllm",
  baseUrl: "http://localhost:8000/v1",
  environment: { keys: ["VLLM_API_KEY"], baseUrl: ["VLLM_BASE_URL"] },
  keyOptional: true,
  nativeEndpoints: vllmEndpoints,
  quirks: {
    completions: true,
    top_k: true,
    developer_role: "system",
    dropped: platformFields,
    reasoning_replay: "reasoning",
    think_tags: true,
  },
});

/**
 * https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md; a whole answer begins with the prefill:
 * https://github.com/ggml-org/llama.cpp/pull/13174
 */
export const llamacpp = openAiCompatible({
  name: "llamacpp",
  baseUrl: "http://127.0.0.1:8080/v1",
  environment: { keys: ["LLAMACPP_API_KEY"], baseUrl: ["LLAMACPP_BASE_URL"] },
  keyOptional: true,
  nativeEndpoints: llamacppEndpoints,
  quirks: { ...ownServer, reasoning_replay: "reasoning_content", repeats_prefill: true },
});

/** https://lmstudio.ai/docs/app/api/endpoints/openai */
export const lmstudio = openAiCompatible({
  name: "lmstudio",
  baseUrl: "http://localhost:1234/v1",
  environment: { keys: ["LM_STUDIO_API_KEY"], baseUrl: ["LM_STUDIO_BASE_URL"] },
  keyOptional: true,
  nativeEndpoints: lmstudioEndpoints,
  quirks: { ...ownServer, inline_images: true, json_object_as_schema: true },
});

/**
 * https://docs.sglang.io/docs/basic_usage/openai_api_completions, https://docs.sglang.io/docs/advanced_features/separate_reasoning; thoughts are taken back:
 * https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/protocol.py
 */
export const sglang = openAiCompatible({
  name: "sglang",
  baseUrl: "http://localhost:30000/v1",
  environment: { keys: ["SGLANG_API_KEY"], baseUrl: ["SGLANG_BASE_URL"] },
  keyOptional: true,
  quirks: { ...ownServer, reasoning_replay: "reasoning_content" },
});

/** https://docs.docker.com/ai/model-runner/api-reference; its engine is llama.cpp's server if nothing else is chosen, whose row is above. */
export const docker = openAiCompatible({
  name: "docker",
  baseUrl: "http://localhost:12434/engines/v1",
  environment: { keys: ["DOCKER_MODEL_RUNNER_API_KEY"], baseUrl: ["DOCKER_MODEL_RUNNER_BASE_URL"] },
  keyOptional: true,
  quirks: { ...ownServer, reasoning_replay: "reasoning_content", repeats_prefill: true },
});
