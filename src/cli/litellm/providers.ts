/**
 * Names of LiteLLM for what is set up here under another one.
 * Source: https://docs.litellm.ai/docs/providers, where each page says with what a model's name begins.
 */

/** By the part of a model's name before its first slash. */
const dialects: Readonly<Record<string, string>> = {
  ...{ openai: "openai", "text-completion-openai": "openai", custom_openai: "openai", openai_like: "openai" },
  ...{ azure: "azure", anthropic: "anthropic", gemini: "google", vertex_ai: "vertex", bedrock: "bedrock" },
  ...{ mistral: "mistral", groq: "groq", deepseek: "deepseek", together_ai: "together", fireworks_ai: "fireworks" },
  ...{ openrouter: "openrouter", perplexity: "perplexity", cerebras: "cerebras", moonshot: "moonshot", zai: "zai" },
  ...{ xai: "xai", dashscope: "alibaba", minimax: "minimax", volcengine: "volcengine", nvidia_nim: "nvidia" },
  ...{ sambanova: "sambanova", nebius: "nebius", deepinfra: "deepinfra", huggingface: "huggingface" },
  ...{ vercel_ai_gateway: "vercel" },
  ...{ databricks: "databricks", snowflake: "snowflake", ollama: "ollama", ollama_chat: "ollama" },
  ...{ hosted_vllm: "vllm", lm_studio: "lmstudio", docker_model_runner: "docker", litellm_proxy: "litellm" },
};

/** Names without a provider that LiteLLM knows. */
const bare: readonly (readonly [RegExp, string])[] = [
  [/^claude-/, "anthropic"],
  [/^(?:gpt-|chatgpt-|o\d|text-embedding-|dall-e-|whisper-|tts-)/, "openai"],
];

/** Paths of LiteLLM within a provider, in front of the model's own name. Source: https://docs.litellm.ai/docs/providers/bedrock */
const routes: Readonly<Record<string, RegExp>> = {
  bedrock: /^(?:converse|invoke|converse_like)\//,
  openai: /^responses\//,
  azure: /^responses\//,
};

/** @returns the dialect and the upstream's own name of a model; undefined where there is none like it */
export function upstreamOf(model: string): { readonly dialect: string; readonly name: string } | undefined {
  const slash = model.indexOf("/");
  const prefix = slash < 0 ? "" : model.slice(0, slash);
  const named = Object.hasOwn(dialects, prefix) ? dialects[prefix] : undefined;
  if (named !== undefined) return { dialect: named, name: model.slice(slash + 1).replace(routes[named] ?? /^$/, "") };
  const found = slash < 0 ? bare.find(([pattern]) => pattern.test(model)) : undefined;
  return found && { dialect: found[1], name: model };
}

/** Options of a dialect by LiteLLM's parameters. */
export const optionNames: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  azure: { api_version: "api_version" },
  vertex: { vertex_project: "project", vertex_location: "location", vertex_credentials: "credentials_file" },
  bedrock: { aws_region_name: "region", aws_profile_name: "profile" },
};

/** LiteLLM's addresses of these are without the path of OpenAI's format. */
const withVersion = new Set(["ollama"]);

/** @returns the address as it is written here */
export const baseUrlOf = (dialect: string, address: string): string =>
  withVersion.has(dialect) && !address.startsWith("$") && !/\/v1\/?$/.test(address)
    ? `${address.replace(/\/+$/, "")}/v1`
    : address;

/** Source: https://docs.litellm.ai/docs/proxy/load_balancing */
export const strategiesOf: Readonly<Record<string, string>> = {
  "simple-shuffle": "weighted",
  "least-busy": "least_busy",
  "usage-based-routing": "least_busy",
  "usage-based-routing-v2": "least_busy",
  "latency-based-routing": "fastest",
};
