/** Gateways to the models of many makers: what each does differently, and where it says so. */
import { openAiCompatible } from "../openai-compatible.ts";

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
