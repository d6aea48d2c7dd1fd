/**
 * What is billed and does not stand among an answer's own counts: each sum by hand from the public prices, in micro-dollars, whole and
 * streamed, passed on, translated and by the provider's own API.
 */
import { describe, expect, test } from "bun:test";
import type { LedgerLine } from "../../src/store/contract/usage.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

let answer: () => Response;

const upstream = untilEnd(new UpstreamServer(() => answer()));
const baseUrl = upstream.url;
const troupe = untilEnd(
  await Troupe.start({
    surfaces: ["gateway", "raw", "orchestrator"],
    providers: {
      openai: { baseUrl },
      anthropic: { baseUrl },
      google: { baseUrl },
      mistral: { baseUrl },
      alibaba: { baseUrl },
      openrouter: { baseUrl },
    },
  }),
);

const events = (list: readonly object[], headers: Record<string, string> = {}) =>
  new Response(
    list.map((one) => `${"type" in one ? `event: ${one.type}\n` : ""}data: ${JSON.stringify(one)}\n\n`).join(""),
    { headers: { "content-type": "text/event-stream", ...headers } },
  );

type Asked = { readonly path: string; readonly body: object };
const messages = [{ role: "user", content: "hi" }];
const clients = {
  chat: (model: string, stream: boolean): Asked => ({
    path: "/gateway/v1/chat/completions",
    body: { model, stream, messages },
  }),
  messages: (model: string, stream: boolean): Asked => ({
    path: "/gateway/v1/messages",
    body: { model, stream, max_tokens: 9, messages },
  }),
  responses: (model: string, stream: boolean): Asked => ({
    path: "/gateway/v1/responses",
    body: { model, stream, store: false, input: "hi" },
  }),
  throughResponses: (model: string, stream: boolean): Asked => ({
    path: "/gateway/v1/chat/completions",
    body: { model, stream, messages, use_responses_api: true },
  }),
  gemini: (model: string, stream: boolean): Asked => ({
    path: `/gateway/v1beta/models/${model}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    body: { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
  }),
  rawChat: (model: string, stream: boolean): Asked => ({
    path: `/gateway/providers/${model.replace("/", "/v1/chat/completions?")}`.replace(/\?.*/, ""),
    body: { model: model.slice(model.indexOf("/") + 1), stream, messages },
  }),
  rawMessages: (model: string, stream: boolean): Asked => ({
    path: "/gateway/providers/anthropic/v1/messages",
    body: { model: model.slice(model.indexOf("/") + 1), stream, max_tokens: 9, messages },
  }),
  rawResponses: (model: string, stream: boolean): Asked => ({
    path: "/gateway/providers/openai/v1/responses",
    body: { model: model.slice(model.indexOf("/") + 1), stream, input: "hi" },
  }),
  rawGemini: (model: string, stream: boolean): Asked => ({
    path: `/gateway/providers/google/v1beta/models/${model.slice(model.indexOf("/") + 1)}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    body: { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
  }),
} as const;
type Client = keyof typeof clients;

async function lineOf(
  client: Client,
  model: string,
  stream: boolean,
): Promise<{ line: LedgerLine; answered: Response }> {
  const { path, body } = clients[client](model, stream);
  const answered = await troupe.post(path, body);
  await answered.text();
  const { services } = troupe.server;
  while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
  await services.usage.close();
  await services.ledger.flush();
  const lines = await services.store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 10 });
  const id = answered.headers.get("x-request-id");
  return { line: lines.find(({ requestId }) => requestId === id)!, answered };
}

const both = [false, true];

const fallback = (from: string, to: string) => ({
  type: "fallback",
  from: { model: from },
  to: { model: to },
  trigger: { type: "refusal" },
});
const text = (words: string) => ({ type: "text", text: words });

/** An answer of the Messages API, whole or as a stream, whose counts come with its end. */
const anthropic =
  (usage: object, { model = "m", content = [text("Hi")] }: { model?: string; content?: readonly object[] } = {}) =>
  (stream: boolean) => {
    const message = { id: "m", type: "message", role: "assistant", model };
    if (!stream) return Response.json({ ...message, content, stop_reason: "end_turn", usage });
    return events([
      {
        type: "message_start",
        message: { ...message, content: [], stop_reason: null, usage: { input_tokens: 1, output_tokens: 1 } },
      },
      ...content.flatMap((block, index) => {
        const { text: words, ...rest } = block as { text?: string };
        return [
          { type: "content_block_start", index, content_block: words === undefined ? block : { ...rest, text: "" } },
          ...(words === undefined
            ? []
            : [{ type: "content_block_delta", index, delta: { type: "text_delta", text: words } }]),
          { type: "content_block_stop", index },
        ];
      }),
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage },
      { type: "message_stop" },
    ]);
  };

const counts = (type: string, input_tokens: number, output_tokens: number, more: object = {}) => ({
  ...{ type, input_tokens, output_tokens, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
  ...more,
});

const iterations: readonly (readonly [
  what: string,
  model: string,
  given: (stream: boolean) => Response,
  cost: number | null,
  expected?: object,
])[] = [
  [
    // 1,000 × 5 + 80 × 25 = 7,000, and 150,000 × 5 + 3,000 × 25 = 825,000
    "a compaction is not among the counts",
    "anthropic/claude-opus-4-8",
    anthropic({
      input_tokens: 1000,
      output_tokens: 80,
      iterations: [counts("compaction", 150_000, 3000), counts("message", 1000, 80)],
    }),
    832_000,
    {
      tokens: expect.objectContaining({ input: 151_000, output: 3080 }),
      costs: expect.objectContaining({ input: 755_000, output: 77_000 }),
      priceNote: "with compaction",
    },
  ],
  [
    // (100 × 5 + 10 × 25) × 1.1, and (40,000 × 0.5 + 1,000 × 6.25 + 2,000 × 10 + 200 × 25) × 1.1 = 825 + 56,375
    "a compaction of what was cached, in the US",
    "anthropic/claude-opus-5",
    anthropic({
      input_tokens: 100,
      output_tokens: 10,
      inference_geo: "us",
      iterations: [
        counts("compaction", 0, 200, {
          cache_read_input_tokens: 40_000,
          cache_creation_input_tokens: 3000,
          cache_creation: { ephemeral_5m_input_tokens: 1000, ephemeral_1h_input_tokens: 2000 },
        }),
        counts("message", 100, 10),
      ],
    }),
    57_200,
    { tokens: expect.objectContaining({ cacheRead: 40_000, cacheWrite5m: 1000, cacheWrite1h: 2000 }) },
  ],
  [
    // 1,000 × 3 + 100 × 15 = 4,500, and twice 2,000 × 5 + 500 × 25 = 22,500
    "an adviser has a price of its own",
    "anthropic/claude-sonnet-4-5",
    anthropic({
      input_tokens: 1000,
      output_tokens: 100,
      iterations: [
        counts("message", 400, 40),
        counts("advisor_message", 2000, 500, { model: "claude-opus-4-8" }),
        counts("advisor_message", 2000, 500, { model: "claude-opus-4-8" }),
        counts("message", 600, 60),
      ],
    }),
    49_500,
    { upstreamModel: "claude-sonnet-4-5", priceNote: "with advisor by claude-opus-4-8" },
  ],
  [
    "an adviser without a price makes the cost unknown",
    "anthropic/claude-sonnet-4-5",
    anthropic({
      input_tokens: 1000,
      output_tokens: 100,
      iterations: [counts("message", 1000, 100), counts("advisor_message", 9, 9, { model: "nobody-knows" })],
    }),
    null,
    { priceSource: "unknown", priceNote: "with advisor by nobody-knows: no price is known for this model" },
  ],
  [
    // 2,000 × 5 + 100 × 25: the first model declined before it said anything
    "a fallback costs what the model costs that answered",
    "anthropic/claude-fable-5",
    anthropic(
      {
        input_tokens: 2000,
        output_tokens: 100,
        iterations: [
          counts("message", 1500, 0, { model: "claude-fable-5" }),
          counts("fallback_message", 2000, 100, { model: "claude-opus-4-8" }),
        ],
      },
      { model: "claude-opus-4-8", content: [fallback("claude-fable-5", "claude-opus-4-8"), text("Hi")] },
    ),
    12_500,
    { upstreamModel: "claude-opus-4-8", tokens: expect.objectContaining({ input: 2000, output: 100 }) },
  ],
  [
    // (800 + 2,000) × 5 + (20 + 100) × 25
    "turns of the model that answered are its own, those that declined cost nothing",
    "anthropic/claude-fable-5",
    anthropic(
      {
        input_tokens: 2000,
        output_tokens: 100,
        iterations: [
          counts("message", 1500, 3, { model: "claude-fable-5" }),
          counts("message", 800, 20, { model: "claude-opus-4-8" }),
          counts("fallback_message", 2000, 100, { model: "claude-opus-4-8" }),
        ],
      },
      { model: "claude-opus-4-8" },
    ),
    17_000,
    { upstreamModel: "claude-opus-4-8" },
  ],
  [
    // 2,000 × 5 + 100 × 25 = 12,500, and 1,500 × 10 + 40 × 50 = 17,000 whose words the caller has
    "what was said before it was declined is billed",
    "anthropic/claude-fable-5",
    anthropic(
      {
        input_tokens: 2000,
        output_tokens: 100,
        iterations: [
          counts("message", 1500, 40, { model: "claude-fable-5" }),
          counts("fallback_message", 2000, 100, { model: "claude-opus-4-8" }),
        ],
      },
      {
        model: "claude-fable-5",
        content: [text("Hm"), fallback("claude-fable-5", "claude-opus-4-8"), text("Hi")],
      },
    ),
    29_500,
    { upstreamModel: "claude-opus-4-8", tokens: expect.objectContaining({ input: 3500, output: 140 }) },
  ],
  [
    // 2,000 × 5 + 100 × 25
    "another model that answers, by its name alone",
    "anthropic/claude-fable-5",
    anthropic({ input_tokens: 2000, output_tokens: 100 }, { model: "claude-opus-4-8" }),
    12_500,
    { upstreamModel: "claude-opus-4-8", priceNote: null },
  ],
  [
    // 2,000 × 3 + 100 × 15
    "the same model by its dated name",
    "anthropic/claude-sonnet-4-5",
    anthropic({ input_tokens: 2000, output_tokens: 100 }, { model: "claude-sonnet-4-5-20250929" }),
    7500,
    { upstreamModel: "claude-sonnet-4-5" },
  ],
];

describe("Anthropic's iterations", () => {
  test.each(iterations.map((row) => [row[0], row] as const))("%s", async (_, [, model, given, cost, expected]) => {
    for (const client of ["messages", "chat"] as const) {
      for (const stream of both) {
        answer = () => given(stream);
        const { line, answered } = await lineOf(client, model, stream);
        const { costs } = line;
        if (costs !== null) expect(Object.values(costs).reduce((all, one) => all + one, 0)).toBe(line.cost!);
        expect([client, stream, line]).toMatchObject([client, stream, { counted: "upstream", cost, ...expected }]);
        // Known before the first fragment, or with the whole answer.
        const isNamed = !stream || line.priceNote === null || cost !== 29_500;
        if (isNamed) expect(answered.headers.get("x-troupe-upstream-model")).toBe(line.upstreamModel);
      }
    }
  });

  test.each(iterations.slice(0, 6).map((row) => [row[0], row] as const))(
    "by the provider's own API: %s",
    async (_, [, model, given, cost]) => {
      for (const stream of both) {
        answer = () => given(stream);
        expect([stream, (await lineOf("rawMessages", model, stream)).line.cost]).toEqual([stream, cost]);
      }
    },
  );
});

const response = (more: object) => ({
  id: "r",
  object: "response",
  status: "completed",
  model: "m",
  output: [
    {
      id: "i",
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "Hi", annotations: [] }],
    },
  ],
  ...more,
});
const usageOf = (input_tokens: number, output_tokens: number, input_tokens_details: object = {}) => ({
  input_tokens,
  input_tokens_details,
  output_tokens,
  total_tokens: input_tokens + output_tokens,
});
const begun = { type: "response.created", response: response({ status: "in_progress", output: [], usage: null }) };
const responses = (more: object) => (stream: boolean) =>
  stream
    ? events([
        begun,
        { type: "response.output_text.delta", output_index: 0, content_index: 0, item_id: "i", delta: "Hi" },
        { type: "response.completed", response: response(more) },
      ])
    : Response.json(response(more));

const besides: readonly (readonly [string, string, object, number | null, object?])[] = [
  [
    // 8,000 × 2 × 2.5
    "a cache that keeps for twelve hours",
    "openai/gpt-6-sol",
    {
      usage: usageOf(8000, 0, {
        cached_tokens: 0,
        cache_write_tokens: 8000,
        cache_write_tokens_details: { ttl_12h_tokens: 8000, ttl_30m_tokens: 0 },
      }),
      output: [],
      status: "incomplete",
    },
    40_000,
    { tokens: expect.objectContaining({ cacheWrite1h: 8000, cacheWrite5m: 0 }) },
  ],
  [
    // 3,000 × 2.5 + 5,000 × 5 + 1,000 × 2 + 10 × 10
    "two caches, and what is in none",
    "openai/gpt-6-sol",
    {
      usage: usageOf(9000, 10, {
        cache_write_tokens: 8000,
        cache_write_tokens_details: { ttl_12h_tokens: 5000, ttl_30m_tokens: 3000 },
      }),
    },
    34_600,
    { costs: expect.objectContaining({ cacheWrite: 32_500 }) },
  ],
  [
    // 100 × 2.5 + 10 × 10 = 350, and 4 × 5 + 20 × 8 + 7,000 × 30 = 210,180
    "images that the model had made",
    "openai/gpt-4o",
    {
      usage: usageOf(100, 10),
      tools: [{ type: "image_generation", model: "gpt-image-2" }],
      tool_usage: {
        image_gen: {
          input_tokens: 24,
          input_tokens_details: { text_tokens: 4, image_tokens: 20 },
          output_tokens: 7000,
          output_tokens_details: { image_tokens: 7000, text_tokens: 0 },
          total_tokens: 7024,
        },
        web_search: { num_requests: 0 },
      },
    },
    210_530,
    { tokens: expect.objectContaining({ input: 124, output: 7010 }) },
  ],
  [
    "images by a model that nobody named, whose price no list has",
    "openai/gpt-4o",
    { usage: usageOf(100, 10), tool_usage: { image_gen: usageOf(24, 7000), web_search: { num_requests: 0 } } },
    null,
    { priceSource: "unknown" },
  ],
  [
    // 100 × 2.5 + 10 × 10, and two of the three searches, for 0.01 each
    "the searches that are billed",
    "openai/gpt-4o",
    {
      usage: usageOf(100, 10),
      tool_usage: { image_gen: usageOf(0, 0), web_search: { num_requests: 2 } },
      output: [
        ...["a", "b", "c"].map((id) => ({
          id,
          type: "web_search_call",
          status: "completed",
          action: { type: "search", query: id },
        })),
        ...response({}).output,
      ],
    },
    20_350,
  ],
  [
    // (100 × 2.5 + 10 × 10) ÷ 2
    "the flex tier",
    "openai/gpt-4o",
    { usage: usageOf(100, 10), service_tier: "flex" },
    175,
    { serviceTier: "flex" },
  ],
];

describe("what stands beside a response's usage", () => {
  test.each(besides.map((row) => [row[0], row] as const))("%s", async (_, [, model, more, cost, expected]) => {
    for (const client of ["responses", "throughResponses", "rawResponses"] as const) {
      for (const stream of both) {
        const isCut = "status" in more;
        answer = () =>
          stream && isCut
            ? events([begun, { type: "response.incomplete", response: response(more) }])
            : responses(more)(stream);
        const { line } = await lineOf(client, model, stream);
        expect([client, stream, line]).toMatchObject([client, stream, { cost, ...expected }]);
      }
    }
  });
});

describe("a response that fails has cost what it counted", () => {
  // 1,000 × 0.15 + 64 × 0.6 = 188.4
  const failed = response({
    status: "failed",
    output: [],
    error: { code: "server_error", message: "oh" },
    usage: usageOf(1000, 64),
  });
  const delta = { type: "response.output_text.delta", output_index: 0, content_index: 0, item_id: "i", delta: "Hi" };
  test.each<[string, boolean, () => Response]>([
    ["in the middle of a stream", true, () => events([begun, delta, { type: "response.failed", response: failed }])],
    ["as a stream's first event", true, () => events([{ type: "response.failed", response: failed }])],
    ["right behind its beginning", true, () => events([begun, { type: "response.failed", response: failed }])],
    ["whole", false, () => Response.json(failed)],
    ["as a stream that nobody asked for", false, () => events([begun, { type: "response.failed", response: failed }])],
  ])("%s", async (_, stream, given) => {
    answer = given;
    for (const client of ["responses", "throughResponses"] as const) {
      const { line } = await lineOf(client, "openai/gpt-4o-mini", stream);
      expect([client, line]).toMatchObject([
        client,
        { ended: "broken", counted: "upstream", cost: 188, tokens: { input: 1000, output: 64 } },
      ]);
    }
  });

  test("one that counted nothing costs nothing", async () => {
    answer = () => Response.json({ ...failed, usage: null });
    expect((await lineOf("responses", "openai/gpt-4o-mini", false)).line).toMatchObject({ cost: 0, counted: "none" });
  });
});

test("an error of a chat stream that counts has cost that", async () => {
  const error = { error: { message: "oh", code: 500 }, usage: { prompt_tokens: 1000, completion_tokens: 64 } };
  answer = () => events([error]);
  // 1,000 × 0.5 + 64 × 1.5
  const { line } = await lineOf("chat", "mistral/mistral-large-latest", true);
  expect(line).toMatchObject({ ended: "broken", cost: 596, counted: "upstream" });
});

const candidates = [{ index: 0, content: { role: "model", parts: [{ text: "Hi" }] }, finishReason: "STOP" }];

test.each<[string, string, number]>([
  // (1,000 × 2 + 10 × 12) × 1.8, and ÷ 2
  ["priority", "priority", 3816],
  ["SERVICE_TIER_FLEX", "flex", 1060],
  ["standard", "standard", 2120],
])("a tier that only a header names: %s", async (header, _, cost) => {
  const body = {
    candidates,
    usageMetadata: { promptTokenCount: 1000, candidatesTokenCount: 10, totalTokenCount: 1010 },
  };
  for (const client of ["chat", "messages", "gemini", "rawGemini"] as const) {
    for (const stream of both) {
      const headers = { "x-gemini-service-tier": header };
      answer = () => (stream ? events([body], headers) : Response.json(body, { headers }));
      const { line } = await lineOf(client, "google/gemini-3-pro-preview", stream);
      expect([client, stream, line.cost]).toEqual([client, stream, cost]);
    }
  }
});

const chatAnswer =
  (usage: object, more: object = {}) =>
  (stream: boolean) => {
    const frame = { id: "c", created: 1, model: "m", ...more };
    return stream
      ? events([
          { ...frame, choices: [{ index: 0, delta: { role: "assistant", content: "Hi" }, finish_reason: "stop" }] },
          { ...frame, choices: [], usage },
        ])
      : Response.json({
          ...frame,
          choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
          usage,
        });
  };
const used = { prompt_tokens: 1000, completion_tokens: 10, total_tokens: 1010 };

test.each<[string, string, (stream: boolean) => Response, number | null]>([
  // 100 × 0.5 + 900 × 0.05 + 10 × 1.5
  ["num_cached_tokens", "mistral/mistral-large-latest", chatAnswer({ ...used, num_cached_tokens: 900 }), 110],
  [
    "prompt_token_details",
    "mistral/mistral-large-latest",
    chatAnswer({ ...used, prompt_token_details: { cached_tokens: 900 } }),
    110,
  ],
  [
    "a zero where another name tells it",
    "mistral/mistral-large-latest",
    chatAnswer({ ...used, prompt_tokens_details: { cached_tokens: 0 }, num_cached_tokens: 900 }),
    110,
  ],
  // 500 + 15, halved
  ["Mistral's tier in its usage", "mistral/mistral-large-latest", chatAnswer({ ...used, service_tier: "flex" }), 258],
  // 100 × 2 + 900 × 5 + 10 × 10
  [
    "a cache of twelve hours in chat completions",
    "openai/gpt-6-sol",
    chatAnswer({
      ...used,
      prompt_tokens_details: { cache_write_tokens: 900, cache_write_tokens_details: { ttl_12h_tokens: 900 } },
    }),
    4800,
  ],
  // (1,000 × 2.5 + 10 × 10) × 1.7
  ["a tier beside the usage", "openai/gpt-4o", chatAnswer(used, { service_tier: "priority" }), 4420],
])("chat completions: %s", async (_, model, given, cost) => {
  for (const client of ["chat", "rawChat"] as const) {
    for (const stream of both) {
      answer = () => given(stream);
      const { line } = await lineOf(client, model, stream);
      expect([client, stream, line.counted, line.cost]).toEqual([client, stream, "upstream", cost]);
    }
  }
});

test("one of several models that the call lists answers: it is named, and priced where the upstream tells no cost", async () => {
  const models = ["openai/gpt-4o", "openai/gpt-4o-mini"];
  for (const [name, served, cost] of [
    // 1,000 × 0.15 + 10 × 0.6, and 1,000 × 2.5 + 10 × 10
    ["openai/gpt-4o-mini-2024-07-18", "openai/gpt-4o-mini", 156],
    ["openai/gpt-4o-2024-08-06", "openai/gpt-4o", 2600],
    ["somebody/else", "openai/gpt-4o", 2600],
  ] as const) {
    for (const stream of both) {
      answer = () => chatAnswer(used, { model: name })(stream);
      const answered = await troupe.post("/gateway/v1/chat/completions", {
        ...clients.chat("openrouter/openai/gpt-4o", stream).body,
        models,
      });
      await answered.text();
      expect([name, answered.headers.get("x-troupe-upstream-model")]).toEqual([name, served]);
      const { ledger, store } = troupe.server.services;
      await ledger.flush();
      const [line] = await store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 1 });
      expect(line).toMatchObject({ upstreamModel: served, cost, counted: "upstream" });
    }
  }
});
