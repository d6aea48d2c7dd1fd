/** What a use of a hosted tool costs where the list says nothing of it, as its maker tells it for all of its models. */
import type { Listed } from "./list.ts";

/** Dollars for each use, by the list's name of the provider. */
const published: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  // https://platform.openai.com/docs/pricing#built-in-tools
  openai: { web_search: 0.01, file_search: 0.0025 },
  // https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool#usage-and-pricing
  anthropic: { web_search: 0.01 },
  // https://docs.x.ai/developers/pricing#tools-pricing
  "x-ai": {
    web_search: 0.005,
    x_search: 0.005,
    code_execution: 0.005,
    code_interpreter: 0.005,
    attachment_search: 0.01,
    collections_search: 0.0025,
    file_search: 0.0025,
  },
};

/** Google bills each search of its models since Gemini 3; of older ones each prompt, however often it searched. */
// https://ai.google.dev/gemini-api/docs/pricing
const gemini: Readonly<Record<string, number>> = { web_search: 0.014 };

export function publishedToolRates({ provider, model }: Pick<Listed, "provider" | "model">) {
  if (provider === "google") return /^gemini-(?:[3-9]|\d\d)/.test(model) ? gemini : {};
  return (Object.hasOwn(published, provider) ? published[provider] : undefined) ?? {};
}
