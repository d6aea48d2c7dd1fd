/**
 * Writes the price list that is compiled in: the rates of `@pydantic/genai-prices` (MIT, https://github.com/pydantic/genai-prices) for
 * the providers that calls may go to, without its code, which takes 100 ms to load. Run it after an update of that package, and set
 * the date of its release below.
 */
import { findProvider } from "@pydantic/genai-prices";

/** When the package's version was released. */
const released = "2026-09-23";
const wanted = [
  ...["anthropic", "aws", "azure", "cerebras", "cohere", "deepseek", "fireworks", "google", "groq", "mistral"],
  ...["moonshotai", "openai", "openrouter", "perplexity", "together", "voyageai", "x-ai", "zai"],
];

export function priceListText(): string {
  const providers = wanted.map((id) => {
    const { api_pattern, fallback_model_providers, models } = findProvider({ providerId: id })!;
    const listed = models.map(({ id: model, match, prices }) => ({ id: model, match, prices }));
    return { id, api: api_pattern, fallbacks: fallback_model_providers ?? [], models: listed };
  });
  return `${JSON.stringify({ date: released, providers })}\n`;
}

export const priceListPath = `${import.meta.dir}/../../src/usage/prices/list.txt`;

if (import.meta.main) await Bun.write(priceListPath, priceListText());
