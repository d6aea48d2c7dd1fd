/** What a use of a hosted tool costs where the list says nothing of it, as its maker tells it for its models. */
import { ownMember } from "../../lib/own-member.ts";
import type { Listed } from "./list.ts";

type Published = {
  /** Which of the provider's models; absent: all. */
  readonly models?: RegExp;
  /** Dollars for each use. */
  readonly rates: Readonly<Record<string, number>>;
};

/** By the list's name of the provider. */
const published: Readonly<Record<string, Published>> = {
  // https://platform.openai.com/docs/pricing#built-in-tools
  openai: { rates: { web_search: 0.01, file_search: 0.0025 } },
  // https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool#usage-and-pricing
  anthropic: { rates: { web_search: 0.01 } },
  // Each search of its models since Gemini 3; of older ones each prompt is billed, however often it searched.
  // https://ai.google.dev/gemini-api/docs/pricing
  google: { models: /^gemini-(?:[3-9]|\d\d)/, rates: { web_search: 0.014 } },
  // https://docs.x.ai/developers/pricing#tools-pricing
  "x-ai": {
    rates: {
      web_search: 0.005,
      x_search: 0.005,
      code_execution: 0.005,
      code_interpreter: 0.005,
      attachment_search: 0.01,
      collections_search: 0.0025,
      file_search: 0.0025,
    },
  },
};

export function publishedToolRates({ provider, model }: Pick<Listed, "provider" | "model">): Published["rates"] {
  const { models, rates } = ownMember(published, provider) ?? { rates: {} };
  return models === undefined || models.test(model) ? rates : {};
}
