/** Every provider that is compiled in: one line each, and the name is the namespace left of a model's slash. */
import { anthropic } from "./anthropic/anthropic.ts";
import { builtin } from "./builtin/builtin.ts";
import { google } from "./google/google.ts";
import { azure } from "./openai-compatible/azure.ts";
import { openai } from "./openai-compatible/openai.ts";
import {
  cerebras,
  deepseek,
  fireworks,
  groq,
  llamacpp,
  lmstudio,
  mistral,
  moonshot,
  ollama,
  openrouter,
  perplexity,
  together,
  vllm,
  zai,
} from "./openai-compatible/upstreams.ts";
import { xai } from "./openai-compatible/xai.ts";
import type { Provider } from "./provider.ts";

export const providers: readonly Provider[] = [
  openai,
  anthropic,
  google,
  xai,
  azure,
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
