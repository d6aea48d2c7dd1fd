/**
 * What people decided of prices, each with the page that says so. Lists are wrong at times, and some changes never pass by themselves:
 * a price of a model that personas or docs name that moves by more than a fifth, one that is gone, one that became nothing.
 */
import type { Conditional, ListedPrices, PricedModel } from "../../../src/facts/prices/listed.ts";

/** Providers of the compiled list, by genai-prices' names: those that calls may go to. */
export const wanted: readonly string[] = [
  ...[
    "anthropic",
    "aws",
    "azure",
    "cerebras",
    "cohere",
    "databricks",
    "deepseek",
    "fireworks",
    "google",
    "groq",
    "mistral",
  ],
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

/** Providers that genai-prices lacks, by our names, with their addresses. */
export const added: Readonly<Record<string, string>> = {
  // The international endpoints: those of China have other prices.
  alibaba: "https://dashscope-(?:intl|us)\\.aliyuncs\\.com",
  deepinfra: "https://api\\.deepinfra\\.com",
  nebius: "https://api\\.(?:tokenfactory|studio)\\.nebius\\.com",
  sambanova: "https://api\\.sambanova\\.ai",
};

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

/** Replace what genai-prices has under their ids. */
export const corrected: Readonly<Record<string, readonly PricedModel[]>> = {
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

/** Rows of genai-prices that are left out, by `<provider>/<id>`. */
export const gone: ReadonlySet<string> = new Set(["deepseek/deepseek-chat"]);

/** Changes that pass though they would not by themselves, by `<provider>/<id>` or the provider alone: the page that says so. */
export const passed: Readonly<Record<string, string>> = {
  // What its cheapest route costs changes from week to week; its answers tell their cost, which counts before any list.
  openrouter: "https://openrouter.ai/docs/use-cases/usage-accounting",
};
