/** Every provider that is compiled in: one line each, and the name is the namespace left of a model's slash. */
import { anthropic } from "./anthropic/anthropic.ts";
import { bedrock } from "./bedrock/bedrock.ts";
import { builtin } from "./builtin/builtin.ts";
import { google } from "./google/google.ts";
import { azure } from "./openai-compatible/azure.ts";
import { openai } from "./openai-compatible/openai.ts";
import { openrouter } from "./openai-compatible/upstreams/gateways.ts";
import { cerebras, fireworks, groq, together } from "./openai-compatible/upstreams/hosts.ts";
import { deepseek, mistral, moonshot, perplexity, zai } from "./openai-compatible/upstreams/makers.ts";
import { llamacpp, lmstudio, ollama, vllm } from "./openai-compatible/upstreams/own-servers.ts";
import { xai } from "./openai-compatible/xai.ts";
import type { Provider } from "./provider.ts";
import { vertex } from "./vertex/vertex.ts";

export const providers: readonly Provider[] = [
  openai,
  anthropic,
  google,
  xai,
  azure,
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
  ollama,
  vllm,
  llamacpp,
  lmstudio,
  builtin,
];
