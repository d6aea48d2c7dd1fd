/**
 * Writes the price list that is compiled in: the rates of `@pydantic/genai-prices` (MIT, https://github.com/pydantic/genai-prices) for
 * the providers that calls may go to, without its code, which takes 100 ms to load. Run it after an update of that package, and set
 * the date of its release below. What the package is wrong about stands here too, with the page that says so.
 */
import { findProvider } from "@pydantic/genai-prices";
import type { Conditional, ListedModel, ListedPrices } from "../../src/usage/prices/listed.ts";

/** When the package's version was released. */
const released = "2026-09-23";
const wanted = [
  ...["anthropic", "aws", "azure", "cerebras", "cohere", "deepseek", "fireworks", "google", "groq", "mistral"],
  ...[
    "cloudflare",
    "minimax",
    "moonshotai",
    "openai",
    "openrouter",
    "perplexity",
    "together",
    "voyageai",
    "x-ai",
    "zai",
  ],
];

/**
 * Half price but for 01:00 to 04:00 and 06:00 to 10:00 UTC from Monday to Friday; on China's holidays the whole day is cheap, which
 * is not told here. Source: https://api-docs.deepseek.com/quick_start/pricing
 */
function peakPrices(cheap: ListedPrices): readonly Conditional[] {
  const peak = Object.fromEntries(Object.entries(cheap).map(([kind, price]) => [kind, (price as number) * 2]));
  const hours = (start_time: string, end_time: string): Conditional => ({
    constraint: { type: "time_of_date", start_time, end_time, weekdays: [1, 2, 3, 4, 5] },
    prices: peak,
  });
  return [{ prices: cheap }, hours("01:00:00Z", "04:00:00Z"), hours("06:00:00Z", "10:00:00Z")];
}

/** Replace what the package has under their ids. */
const corrected: Readonly<Record<string, readonly ListedModel[]>> = {
  deepseek: [
    {
      // Older names are billed as this one.
      id: "deepseek-v4-flash",
      match: {
        or: [
          { equals: "deepseek-flash" },
          { starts_with: "deepseek-v4-flash" },
          { starts_with: "deepseek-chat" },
          { equals: "deepseek-reasoner" },
        ],
      },
      prices: peakPrices({ input_mtok: 0.15, cache_read_mtok: 0.003, output_mtok: 0.6 }),
    },
    {
      id: "deepseek-v4-pro",
      match: { starts_with: "deepseek-v4-pro" },
      prices: peakPrices({ input_mtok: 0.66, cache_read_mtok: 0.022, output_mtok: 1.98 }),
    },
    {
      // As elsewhere; the cheap hours of 2025 have ended.
      id: "deepseek-reasoner",
      match: { starts_with: "deepseek-r1" },
      prices: { input_mtok: 0.55, cache_read_mtok: 0.14, output_mtok: 2.19 },
    },
  ],
};
const gone = new Set(["deepseek/deepseek-chat"]);

export function priceListText(): string {
  const providers = wanted.map((id) => {
    const { api_pattern, fallback_model_providers, models } = findProvider({ providerId: id })!;
    const own = corrected[id] ?? [];
    const listed = models
      .filter((model) => !gone.has(`${id}/${model.id}`) && !own.some((one) => one.id === model.id))
      .map(({ id: model, match, prices }) => ({ id: model, match, prices }));
    return { id, api: api_pattern, fallbacks: fallback_model_providers ?? [], models: [...own, ...listed] };
  });
  return `${JSON.stringify({ date: released, providers })}\n`;
}

export const priceListPath = `${import.meta.dir}/../../src/usage/prices/list.txt`;

if (import.meta.main) await Bun.write(priceListPath, priceListText());
