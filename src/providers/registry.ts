/** Every provider that is compiled in: one line each, and the name is the namespace left of a model's slash. */
import { anthropic } from "./anthropic/anthropic.ts";
import { foundry } from "./anthropic/foundry.ts";
import { bedrock } from "./bedrock/bedrock.ts";
import { builtin } from "./builtin/builtin.ts";
import { google } from "./google/google.ts";
import { azure } from "./openai-compatible/azure.ts";
import { openai } from "./openai-compatible/openai.ts";
import { huggingface, litellm, openrouter, vercel } from "./openai-compatible/upstreams/gateways.ts";
import {
  cerebras,
  deepinfra,
  fireworks,
  groq,
  nebius,
  nvidia,
  ollamaCloud,
  sambanova,
  together,
} from "./openai-compatible/upstreams/hosts.ts";
import {
  alibaba,
  deepseek,
  minimax,
  mistral,
  moonshot,
  perplexity,
  volcengine,
  zai,
} from "./openai-compatible/upstreams/makers.ts";
import { cloudflare, cloudflareGateway, databricks, snowflake } from "./openai-compatible/upstreams/own-addresses.ts";
import { docker, llamacpp, lmstudio, ollama, sglang, vllm } from "./openai-compatible/upstreams/own-servers.ts";
import { xai } from "./openai-compatible/xai.ts";
import type { Provider } from "./provider.ts";
import { vertex } from "./vertex/vertex.ts";

export const providers: readonly Provider[] = [
  openai,
  anthropic,
  google,
  xai,
  azure,
  foundry,
  vertex,
  bedrock,
  mistral,
  groq,
  deepseek,
  together,
  fireworks,
  openrouter,
  perplexity,
  cerebras,
  moonshot,
  zai,
  alibaba,
  minimax,
  volcengine,
  nvidia,
  sambanova,
  nebius,
  deepinfra,
  ollamaCloud,
  huggingface,
  vercel,
  cloudflare,
  cloudflareGateway,
  databricks,
  snowflake,
  ollama,
  vllm,
  llamacpp,
  lmstudio,
  sglang,
  docker,
  litellm,
  builtin,
];
