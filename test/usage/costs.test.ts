/**
 * What usages cost that upstreams told in their own form, through a whole server: each sum was made by hand from the provider's public
 * prices, in micro-dollars, and stands beside its row.
 */
import { expect, test } from "bun:test";
import type { LedgerLine } from "../../src/store/contract/usage.ts";
import { Prices } from "../../src/usage/prices/prices.ts";
import { countedOf } from "../../src/usage/tokens/counts.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

let answer: object;

const upstream = untilEnd(new UpstreamServer(() => Response.json(answer)));
const baseUrl = upstream.url;
const names = [
  "openai",
  "anthropic",
  "google",
  "xai",
  "openrouter",
  "deepseek",
  "groq",
  "perplexity",
  "ollama",
  "mistral",
];
const troupe = untilEnd(
  await Troupe.start({
    providers: Object.fromEntries([
      ...names.map((name) => [name, { baseUrl }]),
      ["own", { dialect: "openai", baseUrl }],
    ]),
    config: {
      prices: [
        {
          match: "own/long*",
          input: 1,
          output: 2,
          cache_read: 0.25,
          tiers: [{ above: 1000, input: 1.5, output: 4 }],
          service_tiers: { priority: 1.75, flex: { input: 0.4, output: 0.9 } },
          request: 0.0005,
        },
        { unknown_price: { input: 3, output: 6 } },
        { match: "own/heard", input: 1, output: 2, cache_read: 0.5, audio_input: 10, audio_output: 20 },
        { match: "own/free*", input: 0, output: 0 },
      ],
    },
  }),
);

const chat = (usage: object, more: object = {}) => ({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
  usage,
  ...more,
});
const messages = (usage: object) => ({
  id: "m",
  type: "message",
  role: "assistant",
  model: "m",
  content: [{ type: "text", text: "Hi" }],
  stop_reason: "end_turn",
  usage,
});
const gemini = (usageMetadata: object) => ({
  candidates: [{ index: 0, content: { role: "model", parts: [{ text: "Hi" }] }, finishReason: "STOP" }],
  usageMetadata,
});

async function lineFor(model: string, body: object): Promise<LedgerLine> {
  answer = body;
  const response = await troupe.post("/gateway/v1/chat/completions", {
    model,
    messages: [{ role: "user", content: "hi" }],
  });
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  const { ledger, store } = troupe.server.services;
  await ledger.flush();
  const [line] = await store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 1 });
  return line!;
}

const rows: readonly (readonly [what: string, model: string, body: object, cost: number | null, expected?: object])[] =
  [
    [
      // 176 × 2.5 + 1024 × 1.25 + 300 × 10 = 440 + 1280 + 3000
      "cached tokens count once, at their own rate",
      "openai/gpt-4o",
      chat({
        prompt_tokens: 1200,
        completion_tokens: 300,
        total_tokens: 1500,
        prompt_tokens_details: { cached_tokens: 1024 },
      }),
      4720,
      { costs: expect.objectContaining({ input: 440, cacheRead: 1280, output: 3000 }), priceSource: "list" },
    ],
    [
      // 75 × 1.1 + 162 × 4.4 + 1024 × 4.4 = 82.5 + 712.8 + 4505.6 = 5300.9
      "reasoning is output, and the sum is rounded once",
      "openai/o4-mini",
      chat({
        prompt_tokens: 75,
        completion_tokens: 1186,
        total_tokens: 1261,
        completion_tokens_details: { reasoning_tokens: 1024 },
      }),
      5301,
      { costs: expect.objectContaining({ input: 82, output: 713, reasoning: 4506 }) },
    ],
    [
      // (1000 × 2.5 + 100 × 10) ÷ 2
      "the flex tier is half the price",
      "openai/gpt-4o",
      chat({ prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 }, { service_tier: "flex" }),
      1750,
      { serviceTier: "flex" },
    ],
    [
      "a tier whose price is not known makes the cost unknown",
      "openai/gpt-4o",
      chat({ prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 }, { service_tier: "scale" }),
      null,
      { priceNote: "no rate for the service tier scale", tokens: expect.objectContaining({ input: 1000 }) },
    ],
    [
      // 500 × 2.5 + 200 × 10
      "audio without a rate costs what text does, and the line says so",
      "openai/gpt-4o",
      chat({
        prompt_tokens: 500,
        completion_tokens: 200,
        total_tokens: 700,
        prompt_tokens_details: { audio_tokens: 400 },
        completion_tokens_details: { audio_tokens: 150 },
      }),
      3250,
      {
        priceNote: expect.stringContaining("no rate for audio input"),
        tokens: expect.objectContaining({ audioInput: 400, audioOutput: 150 }),
      },
    ],
    [
      // 100 × 2.5 + 400 × 40 + 50 × 10 + 150 × 80
      "audio that the list has no rate for costs what its maker publishes",
      "openai/gpt-4o-audio-preview-2025-06-03",
      chat({
        prompt_tokens: 500,
        completion_tokens: 200,
        total_tokens: 700,
        prompt_tokens_details: { audio_tokens: 400 },
        completion_tokens_details: { audio_tokens: 150 },
      }),
      28_750,
      { priceNote: null, tokens: expect.objectContaining({ audioInput: 400, audioOutput: 150 }) },
    ],
    [
      // 100 × 0.15 + 400 × 10 + 50 × 0.6 + 150 × 20
      "and that of a smaller model likewise",
      "openai/gpt-4o-mini-audio-preview",
      chat({
        prompt_tokens: 500,
        completion_tokens: 200,
        total_tokens: 700,
        prompt_tokens_details: { audio_tokens: 400 },
        completion_tokens_details: { audio_tokens: 150 },
      }),
      7_045,
      { priceNote: null },
    ],
    [
      // 10 × 2 + 1000 × 2.5 + 500 × 4 + 20000 × 0.2 + 100 × 10 = 20 + 2500 + 2000 + 4000 + 1000
      "cache writes of five minutes and of an hour",
      "anthropic/claude-sonnet-5",
      messages({
        input_tokens: 10,
        cache_creation_input_tokens: 1500,
        cache_creation: { ephemeral_5m_input_tokens: 1000, ephemeral_1h_input_tokens: 500 },
        cache_read_input_tokens: 20_000,
        output_tokens: 100,
        output_tokens_details: { thinking_tokens: 60 },
        service_tier: "standard",
      }),
      9520,
      {
        tokens: {
          input: 21_510,
          cacheRead: 20_000,
          cacheWrite5m: 1000,
          cacheWrite1h: 500,
          output: 100,
          reasoning: 60,
          audioInput: 0,
          audioOutput: 0,
        },
        costs: expect.objectContaining({ input: 20, cacheWrite: 4500, cacheRead: 4000, output: 400, reasoning: 600 }),
      },
    ],
    [
      // Cached tokens make the input long: 1000 × 6 + 250000 × 0.6 + 100 × 22.5
      "a long input costs the rates of long inputs",
      "anthropic/claude-sonnet-4-5",
      messages({ input_tokens: 1000, cache_read_input_tokens: 250_000, output_tokens: 100 }),
      158_250,
    ],
    [
      // (1000 × 2 + 1000 × 10) ÷ 2
      "a batch is half the price",
      "anthropic/claude-sonnet-5",
      messages({ input_tokens: 1000, output_tokens: 1000, service_tier: "batch" }),
      6000,
    ],
    [
      // 100 × 2 + 10 × 10 + 3 × 10000
      "each search of a hosted tool",
      "anthropic/claude-sonnet-5",
      messages({ input_tokens: 100, output_tokens: 10, server_tool_use: { web_search_requests: 3 } }),
      30_300,
      { costs: expect.objectContaining({ other: 30_000 }) },
    ],
    [
      // Text 350 × 0.3, cached text 300 × 0.03, cached audio 200 × 0.1, audio 200 × 1, output 100 × 2.5, thoughts 200 × 2.5
      // = 105 + 9 + 20 + 200 + 250 + 500
      "audio, cached audio, a tool's prompt and thoughts",
      "google/gemini-2.5-flash",
      gemini({
        promptTokenCount: 1000,
        toolUsePromptTokenCount: 50,
        cachedContentTokenCount: 500,
        candidatesTokenCount: 100,
        thoughtsTokenCount: 200,
        totalTokenCount: 1350,
        promptTokensDetails: [
          { modality: "TEXT", tokenCount: 600 },
          { modality: "AUDIO", tokenCount: 400 },
        ],
        cacheTokensDetails: [
          { modality: "TEXT", tokenCount: 300 },
          { modality: "AUDIO", tokenCount: 200 },
        ],
      }),
      1084,
      {
        tokens: expect.objectContaining({ input: 1050, cacheRead: 500, output: 300, reasoning: 200, audioInput: 400 }),
      },
    ],
    [
      // 200001 × 2.5 + 10 × 15 = 500002.5 + 150; half is rounded up
      "one token over the limit of short inputs",
      "google/gemini-2.5-pro",
      gemini({ promptTokenCount: 200_001, candidatesTokenCount: 10, totalTokenCount: 200_011 }),
      500_153,
    ],
    [
      // 10 × 0.3 + 5 × 2.5 + 1290 × 30 = 3 + 12.5 + 38700
      "an image in the output",
      "google/gemini-2.5-flash-image",
      gemini({
        promptTokenCount: 10,
        candidatesTokenCount: 1295,
        totalTokenCount: 1305,
        candidatesTokensDetails: [{ modality: "IMAGE", tokenCount: 1290 }],
      }),
      38_716,
    ],
    [
      // Ten billion ticks are a dollar: 117.65
      "xAI tells its cost in ticks",
      "xai/grok-4",
      chat({ prompt_tokens: 32, completion_tokens: 9, total_tokens: 41, cost_in_usd_ticks: 1_176_500 }),
      118,
      { priceSource: "upstream", costs: null },
    ],
    [
      "OpenRouter tells its cost in dollars",
      "openrouter/openai/gpt-4o",
      chat({ prompt_tokens: 10, completion_tokens: 4, total_tokens: 14, cost: 0.00014 }),
      140,
      { priceSource: "upstream" },
    ],
    [
      // The fee, and what the upstream asks of the key's owner
      "OpenRouter with a key of one's own",
      "openrouter/openai/gpt-4o",
      chat({
        prompt_tokens: 10,
        completion_tokens: 4,
        total_tokens: 14,
        is_byok: true,
        cost: 0.00002,
        cost_details: { upstream_inference_cost: 0.0004 },
      }),
      420,
    ],
    [
      "Perplexity tells its cost in parts",
      "perplexity/sonar",
      chat({
        prompt_tokens: 10,
        completion_tokens: 4,
        total_tokens: 14,
        cost: { request_cost: 0.006, total_cost: 0.006123 },
      }),
      6123,
    ],
    [
      "cached tokens where DeepSeek puts them",
      "own/long",
      chat({ prompt_tokens: 1000, completion_tokens: 50, total_tokens: 1050, prompt_cache_hit_tokens: 300 }),
      // 700 × 1 + 300 × 0.25 + 50 × 2 + 500
      1375,
      { priceSource: "configuration", tokens: expect.objectContaining({ cacheRead: 300 }) },
    ],
    [
      // 100 × 0.59 + 10 × 0.79 = 66.9
      "Groq",
      "groq/llama-3.3-70b-versatile",
      chat({ prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }),
      67,
    ],
    [
      // 1001 × 1.5 + 10 × 4 + 500 = 1501.5 + 40 + 500
      "the operator's tiers and price of a call",
      "own/longest",
      chat({ prompt_tokens: 1001, completion_tokens: 10, total_tokens: 1011 }),
      2042,
    ],
    [
      // (100 × 1 + 10 × 2 + 500) × 1.75
      "the operator's factor of a service tier",
      "own/long",
      chat({ prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }, { service_tier: "priority" }),
      1085,
    ],
    [
      // 100 × 0.4 + 10 × 0.9 + 500
      "the operator's rates of a service tier",
      "own/long",
      chat({ prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }, { service_tier: "flex" }),
      549,
    ],
    [
      // 100 fresh × 1, 300 cached × 0.5, 200 cached audio at the dearest of audio, cached and text 10, 400 audio × 10, 30 × 2, 20 × 20
      // = 100 + 150 + 2000 + 4000 + 60 + 400
      "cached audio without a rate costs the dearest of its kinds",
      "own/heard",
      chat({
        prompt_tokens: 1000,
        completion_tokens: 50,
        total_tokens: 1050,
        prompt_tokens_details: { cached_tokens: 500, audio_tokens: 600, cached_audio_tokens: 200 },
        completion_tokens_details: { audio_tokens: 20 },
      }),
      6710,
      { priceNote: "no rate for cached audio: the dearest of their kinds is taken" },
    ],
    [
      "a price of nothing is a price",
      "own/free",
      chat({ prompt_tokens: 9, completion_tokens: 9, total_tokens: 18 }),
      0,
    ],
    [
      // https://openai.com/api-fast-mode/: 4.25, 2.125 and 17 a million; 176 × 4.25 + 1024 × 2.125 + 300 × 17 = 748 + 2176 + 5100
      "OpenAI's priority with cached tokens",
      "openai/gpt-4o",
      chat(
        {
          prompt_tokens: 1200,
          completion_tokens: 300,
          total_tokens: 1500,
          prompt_tokens_details: { cached_tokens: 1024 },
        },
        { service_tier: "priority" },
      ),
      8024,
      { serviceTier: "priority" },
    ],
    [
      // 0.25, 0.125 and 1 a million: 900 × 0.25 + 100 × 0.125 + 40 × 1 = 225 + 12.5 + 40
      "OpenAI's priority by rates of its own, under its newer name",
      "openai/gpt-4o-mini",
      chat(
        {
          prompt_tokens: 1000,
          completion_tokens: 40,
          total_tokens: 1040,
          prompt_tokens_details: { cached_tokens: 100 },
        },
        { service_tier: "fast" },
      ),
      278,
    ],
    [
      // https://openai.com/api-fast-mode/, long context: 4 × 2 = 8 a million, cached 0.8, output 36: 200000 × 8 + 100000 × 0.8 + 100 × 36
      "a long input and priority at once",
      "openai/gpt-5.6-terra",
      chat(
        {
          prompt_tokens: 300_000,
          completion_tokens: 100,
          total_tokens: 300_100,
          prompt_tokens_details: { cached_tokens: 100_000 },
        },
        { service_tier: "priority" },
      ),
      1_683_600,
    ],
    [
      // https://developers.openai.com/api/docs/pricing: 60, 6, 75 and 300 a million; 400 × 60 + 500 × 6 + 100 × 75 + 70 × 300
      "ultrafast, with tokens read from a cache and written to one, and thoughts",
      "openai/gpt-6-astra",
      chat(
        {
          prompt_tokens: 1000,
          completion_tokens: 70,
          total_tokens: 1070,
          prompt_tokens_details: { cached_tokens: 500, cache_write_tokens: 100 },
          completion_tokens_details: { reasoning_tokens: 60 },
        },
        { service_tier: "ultrafast" },
      ),
      55_500,
    ],
    [
      // (200001 × 2.5 + 10 × 15) ÷ 2 = 250076.25
      "a long input and the flex tier at once",
      "google/gemini-2.5-pro",
      gemini({ promptTokenCount: 200_001, candidatesTokenCount: 10, totalTokenCount: 200_011, serviceTier: "FLEX" }),
      250_076,
    ],
    [
      // (1000 × 2 + 10 × 12) × 1.8, and two searches for 0.014 each, which no tier makes dearer
      "Google's priority beside searches",
      "google/gemini-3-pro-preview",
      {
        ...gemini({ promptTokenCount: 1000, candidatesTokenCount: 10, totalTokenCount: 1010, serviceTier: "priority" }),
        candidates: [
          {
            index: 0,
            content: { role: "model", parts: [{ text: "Hi" }] },
            finishReason: "STOP",
            groundingMetadata: { webSearchQueries: ["a", "b"] },
          },
        ],
      },
      31_816,
    ],
    [
      // Vertex says so in its own word: (1000 × 2 + 10 × 12) × 1.8
      "Vertex's word for priority",
      "google/gemini-3-pro-preview",
      gemini({
        promptTokenCount: 1000,
        candidatesTokenCount: 10,
        totalTokenCount: 1010,
        trafficType: "ON_DEMAND_PRIORITY",
      }),
      3816,
    ],
    [
      "capacity that was bought ahead has no price of its own",
      "google/gemini-2.5-pro",
      gemini({
        promptTokenCount: 9,
        candidatesTokenCount: 9,
        totalTokenCount: 18,
        trafficType: "PROVISIONED_THROUGHPUT",
      }),
      null,
      { priceNote: "no rate for the service tier provisioned_throughput" },
    ],
    [
      // https://platform.claude.com/docs/en/about-claude/pricing, data residency:
      // (100 × 5 + 200 × 6.25 + 400 × 10 + 1000 × 0.5 + 50 × 25) × 1.1 = 7500 × 1.1, and a search for 0.01
      "inference in the US makes every kind of token dearer, and no search",
      "anthropic/claude-opus-5",
      messages({
        input_tokens: 100,
        cache_creation_input_tokens: 600,
        cache_creation: { ephemeral_5m_input_tokens: 200, ephemeral_1h_input_tokens: 400 },
        cache_read_input_tokens: 1000,
        output_tokens: 50,
        server_tool_use: { web_search_requests: 1 },
        inference_geo: "us",
      }),
      18_250,
    ],
    [
      "inference anywhere is the usual",
      "anthropic/claude-opus-5",
      messages({ input_tokens: 100, output_tokens: 10, inference_geo: "global", speed: "standard" }),
      750,
    ],
    [
      "inference where no price is published",
      "anthropic/claude-opus-5",
      messages({ input_tokens: 100, output_tokens: 10, inference_geo: "eu" }),
      null,
      { priceNote: "no rate for inference_geo_eu" },
    ],
    [
      // (100 × 5 + 10 × 25) × 2 × 1.1 = 1650
      "fast mode and the US at once",
      "anthropic/claude-opus-5",
      messages({ input_tokens: 100, output_tokens: 10, inference_geo: "us", speed: "fast", service_tier: "standard" }),
      1650,
    ],
    [
      // (100 × 5 + 10 × 25) × 6: https://platform.claude.com/docs/en/build-with-claude/fast-mode
      "fast mode of an older model",
      "anthropic/claude-opus-4-6",
      messages({ input_tokens: 100, output_tokens: 10, speed: "fast" }),
      4500,
    ],
    [
      "fast mode of a model without a price of it",
      "anthropic/claude-sonnet-5",
      messages({ input_tokens: 100, output_tokens: 10, speed: "fast" }),
      null,
      { priceNote: "no rate for speed_fast" },
    ],
    [
      "Anthropic's priority tier is sold by commitment",
      "anthropic/claude-sonnet-5",
      messages({ input_tokens: 100, output_tokens: 10, service_tier: "priority" }),
      null,
      { priceNote: "no rate for the service tier priority" },
    ],
    [
      // (1000 × 2 + 100 × 10) ÷ 2 + 2 × 10000
      "searches in a batch cost what they cost elsewhere",
      "anthropic/claude-sonnet-5",
      messages({
        input_tokens: 1000,
        output_tokens: 100,
        service_tier: "batch",
        server_tool_use: { web_search_requests: 2 },
      }),
      21_500,
    ],
    [
      // https://console.groq.com/docs/flex-processing: 100 × 0.59 + 10 × 0.79
      "Groq's flex tier costs what the usual one costs",
      "groq/llama-3.3-70b-versatile",
      chat({ prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }, { service_tier: "flex" }),
      67,
    ],
    [
      // 1000 × 0.5 + 100 × 1.5: that of mistral-large-2512
      "a -latest name costs what the newest dated one costs",
      "mistral/mistral-large-latest",
      chat({ prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 }),
      650,
    ],
    [
      // Above 1000 tokens 1.5 and 4 in place of 1 and 2; flex is 0.4 of the input and 0.45 of the output: 2000 × 0.6 + 10 × 1.8 + 500
      "the operator's rates of a service tier, of a long input",
      "own/long",
      chat({ prompt_tokens: 2000, completion_tokens: 10, total_tokens: 2010 }, { service_tier: "flex" }),
      1718,
    ],
    [
      // 100 × 3 + 10 × 6
      "a model that no list knows, by the operator's word for such",
      "ollama/llama9",
      chat({ prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }),
      360,
      { priceSource: "fallback", priceNote: "no list knows the model: by unknown_price" },
    ],
  ];

test.each(rows.map((row) => [row[0], row] as const))("%s", async (_, [, model, body, cost, expected = {}]) => {
  const line = await lineFor(model, body);
  const parts = Object.values(line.costs ?? {}).reduce((sum, one) => sum + one, 0);
  if (line.costs !== null) expect(parts).toBe(line.cost!);
  expect(line).toMatchObject({ model, ended: "finished", counted: "upstream", cost, ...expected });
});

test("a model without a price costs nobody knows what", () => {
  const target = {
    provider: "ollama",
    dialect: "ollama",
    baseUrl: "",
    model: "llama9",
    isLocal: false,
    isListed: false,
  };
  const counted = countedOf({ prompt_tokens: 9, completion_tokens: 9, total_tokens: 18 });
  expect(new Prices([]).price(target, counted, undefined, 0)).toMatchObject({ cost: null, priceSource: "unknown" });
});

test("what is compiled in costs nothing, and that is known", async () => {
  const line = await lineFor("builtin/echo", {});
  expect(line).toMatchObject({ cost: 0, priceSource: "free", provider: "builtin", upstreamModel: "echo" });
});

test("all of it is in the metrics and the sums", async () => {
  const { metrics, store } = troupe.server.services;
  const [sum] = await store.ledger.sums({ since: 0, until: Number.MAX_SAFE_INTEGER }, [], { limit: 1 });
  const text = metrics.render();
  const total = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}\\{.*\\} (\\d+)$`, "gm"))].reduce((all, [, value]) => all + Number(value), 0);
  expect(total("troupe_cost_micro_dollars_total")).toBe(sum!.cost);
  expect(total("troupe_unknown_cost_calls_total")).toBe(sum!.unknownCosts);
  expect(total("troupe_attempts_total")).toBe(sum!.calls);
  const kinds = { input: "input", output: "output", cacheRead: "cacheRead" } as const;
  for (const kind of Object.values(kinds)) {
    const found = [...text.matchAll(new RegExp(`^troupe_tokens_total\\{kind="${kind}".*\\} (\\d+)$`, "gm"))];
    expect(found.reduce((all, [, value]) => all + Number(value), 0)).toBe(sum!.tokens[kind]);
  }
});
