/**
 * Prices that lists say nothing of, as providers publish them: of uses of hosted tools, and of any unusual option that an answer may name
 * (a service tier, a region, a speed). The cost of names that stand nowhere here is unknown.
 */
import { ownMember } from "../../lib/json/own-member.ts";
import type { Listed } from "./list.ts";
import type { ListedPrices } from "./listed.ts";
import type { PublishedRates, Relative } from "./rates.ts";

type Published = {
  /** Rates of models that the list has without them. */
  readonly prices?: readonly (readonly [models: RegExp, prices: ListedPrices])[];
  /** Rates that are so many times another of the model's, where the list has none. Of several the first that the model has. */
  readonly relative?: readonly (readonly [models: RegExp, rates: Readonly<Record<string, readonly Relative[]>>])[];
  /** Dollars for each use. */
  readonly tools?: Readonly<Record<string, number>>;
  /** Which models have prices of tools by the use, be they these or the list's; absent: all. */
  readonly toolModels?: RegExp;
  /** Factors where the list has no rates of its own: rows that fit the model's name in the list, later ones over those before. */
  readonly serviceTiers?: readonly (readonly [models: RegExp, factors: Readonly<Record<string, number>>])[];
};

/**
 * What keeps for twelve hours, which models since gpt-5.6 offer, costs twice what is written otherwise: `cache_write_tokens_details`,
 * `prompt_cache_options.ttl`, https://developers.openai.com/api/docs/guides/prompt-caching
 */
const longWrites: Published["relative"] = [
  [
    /^gpt-(?:5\.(?:[6-9]|\d\d)|[6-9]|\d\d)/,
    {
      cache_write_1h_mtok: [
        { of: "cache_write_mtok", times: 2 },
        { of: "input_mtok", times: 2 },
      ],
    },
  ],
];

/**
 * What keeps for an hour costs twice the input, and other writes a quarter more than the input, wherever Claude is sold:
 * https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pricing
 */
const everywhere: NonNullable<Published["relative"]> = [
  [
    /(?:^|[./])claude-/,
    {
      cache_write_1h_mtok: [{ of: "input_mtok", times: 2 }],
      cache_write_mtok: [{ of: "input_mtok", times: 1.25 }],
    },
  ],
];

/** By the list's name of the provider. */
const published: Readonly<Record<string, Published>> = {
  openai: {
    prices: [
      // https://developers.openai.com/api/docs/models/gpt-4o-audio-preview
      [/^gpt-4o-audio-preview$/, { input_audio_mtok: 40, output_audio_mtok: 80 }],
      // https://developers.openai.com/api/docs/models/gpt-4o-mini-audio-preview
      [/^gpt-4o-mini-audio-preview$/, { input_audio_mtok: 10, output_audio_mtok: 20 }],
    ],
    relative: longWrites,
    // https://platform.openai.com/docs/pricing#built-in-tools
    tools: { web_search: 0.01, file_search: 0.0025 },
    // https://developers.openai.com/api/docs/pricing (ultrafast)
    serviceTiers: [[/^gpt-6-astra$|^gpt-6\.1-sol$/, { ultrafast: 6 }]],
  },
  anthropic: {
    // https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool#usage-and-pricing
    tools: { web_search: 0.01 },
    // https://platform.claude.com/docs/en/about-claude/pricing (data residency, fast mode): of all kinds of tokens. Priority Tier is
    // sold by commitment: its tokens have no public price.
    serviceTiers: [
      [/^/, { inference_geo_us: 1.1 }],
      [/^claude-opus-4-[67]$/, { speed_fast: 6 }],
    ],
  },
  google: {
    // Each search of its models since Gemini 3; of older ones each prompt is billed, however often it searched.
    // https://ai.google.dev/gemini-api/docs/pricing
    tools: { web_search: 0.014 },
    toolModels: /^gemini-(?:[3-9]|\d\d)/,
    // https://ai.google.dev/gemini-api/docs/pricing#gemini-2.5-pro (priority)
    serviceTiers: [[/^gemini-/, { priority: 1.8 }]],
  },
  azure: { relative: longWrites },
  mistral: {
    // https://docs.mistral.ai/studio-api/conversations/advanced/prompt-caching
    relative: [[/^/, { cache_read_mtok: [{ of: "input_mtok", times: 0.1 }] }]],
  },
  groq: {
    // https://console.groq.com/docs/flex-processing: flex costs what on-demand costs.
    serviceTiers: [[/^/, { on_demand: 1, flex: 1 }]],
  },
  "x-ai": {
    // https://docs.x.ai/developers/pricing#batch-api-pricing
    serviceTiers: [[/^grok-4/, { batch: 0.8 }]],
    // https://docs.x.ai/developers/pricing#tools-pricing
    tools: {
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

export function publishedRates({ provider, model }: Pick<Listed, "provider" | "model">): PublishedRates {
  const {
    prices = [],
    relative = [],
    tools = {},
    toolModels,
    serviceTiers = [],
  } = ownMember(published, provider) ?? {};
  return {
    prices: ofModel(prices, model),
    relative: { ...ofModel(everywhere, model), ...ofModel(relative, model) },
    tools: toolModels?.test(model) === false ? null : tools,
    serviceTiers: ofModel(serviceTiers, model),
  };
}

const ofModel = <T>(rows: readonly (readonly [models: RegExp, values: Readonly<Record<string, T>>])[], model: string) =>
  Object.assign({}, ...rows.filter(([models]) => models.test(model)).map(([, values]) => values)) as Record<string, T>;
