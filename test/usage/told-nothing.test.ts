/**
 * Counts that say nothing do not win over counts that say something, nor over the text that was answered: in every family, streamed and
 * whole, passed on and translated.
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
    surfaces: ["gateway", "raw"],
    providers: {
      openai: { baseUrl },
      anthropic: { baseUrl },
      google: { baseUrl },
      bedrock: { baseUrl, apiKey: "k", region: "us-east-1" } as never,
      mistral: { baseUrl },
    },
  }),
);

/** Six words and a stop: 7 tokens by the tokenizer, and about as many by its length. */
const words = "The quick brown fox jumps over.";
const asked = "Say something that has six words.";

const json = (body: object) => () => Response.json(body);
const events = (list: readonly (readonly [string, object | string])[]) => () =>
  new Response(
    list
      .map(([name, data]) => {
        const text = typeof data === "string" ? data : JSON.stringify(data);
        return `${name === "" ? "" : `event: ${name}\n`}data: ${text}\n\n`;
      })
      .join(""),
    { headers: { "content-type": "text/event-stream" } },
  );
const typed = (list: readonly { readonly type: string }[]) => events(list.map((one) => [one.type, one]));

const frame = { id: "c", created: 1, model: "m" };
const chat = {
  whole: (usage?: object) =>
    json({
      ...frame,
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: words }, finish_reason: "stop" }],
      ...(usage && { usage }),
    }),
  streamed: (...usages: object[]) => {
    const chunk = (choices: object[], more: object = {}) =>
      ["", { ...frame, object: "chat.completion.chunk", choices, ...more }] as const;
    return events([
      chunk([{ index: 0, delta: { role: "assistant", content: words }, finish_reason: null }]),
      chunk([{ index: 0, delta: {}, finish_reason: "stop" }]),
      ...usages.map((usage) => chunk([], { usage })),
      ["", "[DONE]"],
    ]);
  },
};
const messages = {
  whole: (usage?: object) =>
    json({
      id: "m",
      type: "message",
      role: "assistant",
      model: "m",
      content: [{ type: "text", text: words }],
      stop_reason: "end_turn",
      ...(usage && { usage }),
    }),
  streamed: (...[start, end]: object[]) =>
    typed([
      {
        type: "message_start",
        message: {
          id: "m",
          type: "message",
          role: "assistant",
          model: "m",
          content: [],
          stop_reason: null,
          ...(start && { usage: start }),
        },
      } as never,
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } } as never,
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: words } } as never,
      { type: "content_block_stop", index: 0 } as never,
      { type: "message_delta", delta: { stop_reason: "end_turn" }, ...(end && { usage: end }) } as never,
      { type: "message_stop" },
    ]),
};
const item = {
  id: "i",
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: words, annotations: [] }],
};
const response = (usage?: object) => ({
  id: "r",
  object: "response",
  status: "completed",
  model: "m",
  output: [item],
  ...(usage && { usage }),
});
const responses = {
  whole: (usage?: object) => json(response(usage)),
  streamed: (...[usage]: object[]) =>
    typed([
      { type: "response.created", response: { ...response(), status: "in_progress", output: [] } } as never,
      { type: "response.output_text.delta", output_index: 0, content_index: 0, item_id: "i", delta: words } as never,
      { type: "response.output_item.done", output_index: 0, item } as never,
      { type: "response.completed", response: response(usage) } as never,
    ]),
};
const candidate = (finishReason?: string) => ({
  candidates: [
    { index: 0, content: { role: "model", parts: [{ text: words }] }, ...(finishReason && { finishReason }) },
  ],
});
const gemini = {
  whole: (usage?: object) => json({ ...candidate("STOP"), ...(usage && { usageMetadata: usage }) }),
  streamed: (...usages: object[]) =>
    events(
      usages.length === 0
        ? [["", candidate("STOP")]]
        : usages.map((usageMetadata, at) => [
            "",
            {
              ...(at === 0
                ? candidate(usages.length === 1 ? "STOP" : undefined)
                : { candidates: [{ index: 0, finishReason: "STOP" }] }),
              usageMetadata,
            },
          ]),
    ),
};
const converse = {
  whole: (usage?: object) =>
    json({
      output: { message: { role: "assistant", content: [{ text: words }] } },
      stopReason: "end_turn",
      ...(usage && { usage }),
    }),
};

type Client = { readonly path: string; readonly body: (model: string, stream: boolean) => object };
const clients: Readonly<Record<string, Client>> = {
  chat: {
    path: "/gateway/v1/chat/completions",
    body: (model, stream) => ({ model, stream, messages: [{ role: "user", content: asked }] }),
  },
  messages: {
    path: "/gateway/v1/messages",
    body: (model, stream) => ({ model, stream, max_tokens: 100, messages: [{ role: "user", content: asked }] }),
  },
  responses: {
    path: "/gateway/v1/responses",
    body: (model, stream) => ({ model, stream, store: false, input: asked }),
  },
};

async function lineOf(client: Client, model: string, stream: boolean): Promise<LedgerLine> {
  const answered = await troupe.post(client.path, client.body(model, stream));
  expect([answered.status, await answered.text()]).toEqual([200, expect.stringContaining("fox")]);
  return lineOfId(answered.headers.get("x-request-id")!);
}

async function lineOfId(id: string): Promise<LedgerLine> {
  const { services } = troupe.server;
  while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
  await services.usage.close();
  await services.ledger.flush();
  const lines = await services.store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 100 });
  return lines.find(({ requestId }) => requestId === id)!;
}

type Family = {
  readonly model: string;
  /** Micro-dollars for a token in and out. */
  readonly rates: readonly [number, number];
  readonly clients: readonly string[];
  readonly whole: (usage?: object) => () => Response;
  readonly streamed?: (...usages: object[]) => () => Response;
  readonly nothing: readonly object[];
};
const families: Readonly<Record<string, Family>> = {
  chat: {
    model: "mistral/mistral-large-latest",
    rates: [0.5, 1.5],
    clients: ["chat", "messages", "responses"],
    ...chat,
    nothing: [
      { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
      {},
      { total_tokens: 1000 },
      { prompt_tokens: "10", completion_tokens: "5", total_tokens: "15" },
      { prompt_tokens: null, completion_tokens: null },
    ],
  },
  messages: {
    model: "anthropic/claude-sonnet-4-5",
    rates: [3, 15],
    clients: ["chat", "messages", "responses"],
    ...messages,
    nothing: [{ input_tokens: 0, output_tokens: 0 }, {}, { input_tokens: "10", output_tokens: "5" }],
  },
  responses: {
    model: "openai/gpt-4o-mini",
    rates: [0.15, 0.6],
    clients: ["responses"],
    ...responses,
    nothing: [{ input_tokens: 0, output_tokens: 0, total_tokens: 0 }, {}, { input_tokens: "1", output_tokens: "2" }],
  },
  gemini: {
    model: "google/gemini-2.5-flash",
    rates: [0.3, 2.5],
    clients: ["chat", "messages", "responses"],
    ...gemini,
    nothing: [{ promptTokenCount: 0, candidatesTokenCount: 0 }, {}, { totalTokenCount: 1000 }],
  },
  converse: {
    model: "bedrock/amazon.nova-pro-v1:0",
    rates: [0.8, 3.2],
    clients: ["chat", "messages"],
    ...converse,
    nothing: [{ inputTokens: 0, outputTokens: 0, totalTokens: 0 }, {}],
  },
};

const cases = Object.entries(families).flatMap(([family, { clients: formats, nothing, streamed }]) =>
  formats.flatMap((format) =>
    (streamed === undefined ? [false] : [false, true]).flatMap((stream) =>
      [undefined, ...nothing].map((usage) => [family, format, stream, usage] as const),
    ),
  ),
);

test.each(cases)("%s to a client of %s, streamed: %p, with %j", async (name, format, stream, usage) => {
  const { model, rates, whole, streamed } = families[name]!;
  const usages = usage === undefined ? [] : [usage];
  answer = stream ? streamed!(...usages) : whole(usage);
  const line = await lineOf(clients[format]!, model, stream);
  expect(line).toMatchObject({ ended: "finished", counted: "estimated", priceSource: "list" });
  const { input, output } = line.tokens;
  expect(output).toBeWithin(5, 10);
  expect(input).toBeWithin(4, 40);
  expect(Math.abs(line.cost! - (input * rates[0] + output * rates[1]))).toBeLessThan(1.5);
});

const later: readonly (readonly [
  what: string,
  family: string,
  model: string,
  reports: readonly object[],
  cost: number,
  tokens: object,
])[] = [
  [
    // 100,000 × 3 + 64 × 15
    "a zero behind a hundred thousand",
    "messages",
    "anthropic/claude-sonnet-4-5",
    [
      { input_tokens: 100_000, output_tokens: 1 },
      { input_tokens: 0, output_tokens: 64 },
    ],
    300_960,
    { input: 100_000, output: 64 },
  ],
  [
    // 1,000 × 3 + 50,000 × 0.3 + 2,000 × 3.75 + 3,000 × 6 + 64 × 15
    "zeros of what was cached, and a null",
    "messages",
    "anthropic/claude-sonnet-4-5",
    [
      {
        input_tokens: 1000,
        cache_read_input_tokens: 50_000,
        cache_creation_input_tokens: 5000,
        cache_creation: { ephemeral_5m_input_tokens: 2000, ephemeral_1h_input_tokens: 3000 },
        output_tokens: 1,
      },
      {
        input_tokens: 0,
        cache_read_input_tokens: 0,
        cache_creation_input_tokens: null,
        cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
        output_tokens: 64,
      },
    ],
    44_460,
    { input: 56_000, cacheRead: 50_000, cacheWrite5m: 2000, cacheWrite1h: 3000, output: 64 },
  ],
  [
    // 20 × 3 + 4,980 × 0.3 + 64 × 15: the prompt is not counted twice
    "the same prompt, told again by what of it was cached",
    "messages",
    "anthropic/claude-sonnet-4-5",
    [
      { input_tokens: 5000, cache_read_input_tokens: 0, output_tokens: 1 },
      { input_tokens: 20, cache_read_input_tokens: 4980, output_tokens: 64 },
    ],
    2514,
    { input: 5000, cacheRead: 4980 },
  ],
  [
    // 1,000 × 0.5 + 64 × 1.5
    "an empty report behind the counts",
    "chat",
    "mistral/mistral-large-latest",
    [
      { prompt_tokens: 1000, completion_tokens: 64, total_tokens: 1064 },
      { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
      {},
    ],
    596,
    { input: 1000, output: 64 },
  ],
  [
    // 100 × 0.5 + 900 × 0.05 + 64 × 1.5
    "less behind more",
    "chat",
    "mistral/mistral-large-latest",
    [
      {
        prompt_tokens: 1000,
        completion_tokens: 64,
        total_tokens: 1064,
        prompt_tokens_details: { cached_tokens: 900 },
      },
      { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14, prompt_tokens_details: { cached_tokens: 0 } },
    ],
    191,
    { input: 1000, cacheRead: 900, output: 64 },
  ],
  [
    // 1,000 × 0.3 + (4 + 60) × 2.5
    "a total of Gemini's that forgets the prompt, and one of zeros",
    "gemini",
    "google/gemini-2.5-flash",
    [
      { promptTokenCount: 1000, candidatesTokenCount: 4, totalTokenCount: 1004 },
      { candidatesTokenCount: 4, thoughtsTokenCount: 60 },
      { promptTokenCount: 0, candidatesTokenCount: 0, totalTokenCount: 0 },
    ],
    460,
    { input: 1000, output: 64, reasoning: 60 },
  ],
];

test.each(later)("%s: what was told stays", async (_, family, model, reports, cost, tokens) => {
  for (const format of families[family]!.clients) {
    answer = families[family]!.streamed!(...reports);
    const line = await lineOf(clients[format]!, model, true);
    expect([format, line]).toMatchObject([format, { counted: "upstream", cost, tokens }]);
  }
});

describe("a half that is told", () => {
  test.each([
    ["the input", { prompt_tokens: 1000, completion_tokens: 0, total_tokens: 1000 }],
    ["the output", { prompt_tokens: 0, completion_tokens: 500, total_tokens: 500 }],
  ])("%s stays, and the other is estimated", async (half, usage) => {
    for (const stream of [false, true]) {
      answer = stream ? chat.streamed(usage) : chat.whole(usage);
      const { counted, tokens } = await lineOf(clients["chat"]!, "mistral/mistral-large-latest", stream);
      expect(counted).toBe("estimated");
      if (half === "the input") expect(tokens.input).toBe(1000);
      else expect(tokens.output).toBe(500);
      expect(half === "the input" ? tokens.output : tokens.input).toBeWithin(4, 40);
    }
  });

  test("an empty answer has no tokens to estimate", async () => {
    answer = json({
      ...frame,
      choices: [{ index: 0, message: { role: "assistant", content: "" }, finish_reason: "stop" }],
      usage: { prompt_tokens: 12, completion_tokens: 0, total_tokens: 12 },
    });
    const { path, body } = clients["chat"]!;
    const answered = await troupe.post(path, body("mistral/mistral-large-latest", false));
    await answered.text();
    expect(await lineOfId(answered.headers.get("x-request-id")!)).toMatchObject({ counted: "upstream", cost: 6 });
  });

  test("a cost of nothing beside no counts is none", async () => {
    answer = chat.whole({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0, cost: 0 });
    const line = await lineOf(clients["chat"]!, "mistral/mistral-large-latest", false);
    expect(line).toMatchObject({ counted: "estimated", priceSource: "list" });
    expect(line.cost).toBeGreaterThan(0);
  });
});

test("the calls of a tool are an answer's text", async () => {
  const call = { id: "t", type: "function", function: { name: "find", arguments: JSON.stringify({ words }) } };
  answer = json({
    ...frame,
    choices: [
      { index: 0, message: { role: "assistant", content: null, tool_calls: [call] }, finish_reason: "tool_calls" },
    ],
  });
  const { path, body } = clients["chat"]!;
  const tools = [{ type: "function", function: { name: "find", parameters: { type: "object", properties: {} } } }];
  const answered = await troupe.post(path, { ...body("mistral/mistral-large-latest", false), tools });
  await answered.text();
  const line = await lineOfId(answered.headers.get("x-request-id")!);
  expect(line.counted).toBe("estimated");
  expect(line.tokens.output).toBeWithin(8, 16);
});

test.each([
  ["whole", chat.whole({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 })],
  ["whole, without counts", chat.whole()],
  ["a stream", chat.streamed({})],
  ["a stream of Anthropic's", messages.streamed({ input_tokens: 0, output_tokens: 0 }, { output_tokens: 0 })],
])("a provider's own API: %s", async (_, given) => {
  answer = given;
  const answered = await troupe.post("/gateway/providers/mistral/v1/chat/completions", {
    model: "mistral-large-latest",
    messages: [{ role: "user", content: asked }],
  });
  expect([answered.status, await answered.text()]).toEqual([200, expect.stringContaining("fox")]);
  const line = await lineOfId(answered.headers.get("x-request-id")!);
  expect(line).toMatchObject({ counted: "estimated", priceSource: "list" });
  expect(line.tokens.output).toBeWithin(5, 10);
});
