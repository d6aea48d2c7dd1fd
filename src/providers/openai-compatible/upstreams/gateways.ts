/** Gateways to the models of many makers: what each does differently, and where it says so. */
import { listedModels } from "../../../facts/facts.ts";
import { openAiCompatible } from "../openai-compatible.ts";
import { openModels } from "./fields.ts";
import { openrouterEndpoints } from "./native-endpoints.ts";

/** https://openrouter.ai/docs/api-reference/parameters, https://openrouter.ai/docs/use-cases/reasoning-tokens */
export const openrouter = openAiCompatible({
  name: "openrouter",
  baseUrl: "https://openrouter.ai/api/v1",
  environment: { keys: ["OPENROUTER_API_KEY"], baseUrl: ["OPENROUTER_BASE_URL"] },
  models: listedModels("openrouter"),
  nativeEndpoints: openrouterEndpoints,
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

/** https://huggingface.co/docs/inference-providers/tasks/chat-completion */
export const huggingface = openAiCompatible({
  name: "huggingface",
  baseUrl: "https://router.huggingface.co/v1",
  environment: {
    keys: ["HUGGINGFACE_API_KEY", "HF_TOKEN"],
    // Downloads of models are done with it: https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
    shared: ["HF_TOKEN"],
    baseUrl: ["HUGGINGFACE_BASE_URL"],
  },
  quirks: openModels,
});

/** https://vercel.com/docs/ai-gateway/sdks-and-apis/openai-chat-completions */
export const vercel = openAiCompatible({
  name: "vercel",
  baseUrl: "https://ai-gateway.vercel.sh/v1",
  environment: { keys: ["AI_GATEWAY_API_KEY"], baseUrl: ["AI_GATEWAY_BASE_URL"] },
  quirks: {
    // https://vercel.com/docs/ai-gateway/sdks-and-apis/openai-chat-completions/reasoning
    reasoning_replay: "reasoning_details",
    // https://vercel.com/docs/ai-gateway/models-and-providers/automatic-caching
    cache_control: true,
  },
});

/** https://docs.litellm.ai/docs/simple_proxy, https://docs.litellm.ai/docs/reasoning_content */
export const litellm = openAiCompatible({
  name: "litellm",
  baseUrl: "http://localhost:4000/v1",
  environment: {
    keys: ["LITELLM_API_KEY", "LITELLM_PROXY_API_KEY"],
    baseUrl: ["LITELLM_BASE_URL", "LITELLM_PROXY_API_BASE"],
  },
  keyOptional: true,
  quirks: {
    reasoning_replay: "thinking_blocks",
    // https://docs.litellm.ai/docs/completion/prompt_caching
    cache_control: true,
    options: ["thinking"],
  },
});
