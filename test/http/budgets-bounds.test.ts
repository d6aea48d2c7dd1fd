/** What is reserved of a budget for all that is billed beside the tokens that a request and its answer's bound tell. */
import { describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const limits: Config["budgets"] = {
  all: { prepaid: 1_000_000 },
  tiers: { free: {}, pro: {}, enterprise: {} },
  keys: {},
  tags: {},
  unknownPrice: "refuse",
  assumedOutputTokens: 4096,
  assumedToolUses: 5,
  estimateFactor: 1,
};

/** A micro-dollar for each token, and cents for tools. */
const prices: Config["prices"] = [
  {
    match: "*/m",
    input: 1,
    output: 1,
    tools: { web_search: 0.01, file_search: 0.02 },
    service_tiers: { priority: 2, speed_fast: 3, inference_geo_us: 2 },
  },
  { match: "*/picture", image: 0.04 },
  { match: "*/voice", input: 1, output: 1, audio_output: 9 },
];
const perUse = 20_000;
const cent = 10_000;

const amounts: number[] = [];

/** Every provider answers so that nobody minds: what is looked at is what was reserved before. */
const upstream = untilEnd(
  new UpstreamServer(() => Response.json({ error: { message: "no", type: "invalid" } }, { status: 400 })),
);
const baseUrl = upstream.url;
const account = { baseUrl, apiKey: "k" };
const troupe = untilEnd(
  await Troupe.start({
    surfaces: ["orchestrator", "gateway", "raw"],
    providers: { openai: account, anthropic: account, google: account, xai: account, groq: account },
    config: { budgets: limits, prices },
  }),
);
const { budgets } = troupe.server.services.store;
const { reserve } = budgets;
budgets.reserve = (reservation) => {
  amounts.push(reservation.amount);
  return reserve(reservation);
};

const tokensOf = (body: object) => Math.ceil(Buffer.byteLength(JSON.stringify(body)) / 3);

/** @returns what was reserved beyond the request's text, in micro-dollars */
async function reserved(path: string, body: object): Promise<number> {
  amounts.length = 0;
  const answered = await troupe.post(`/gateway${path}`, body);
  expect([answered.status, amounts.length, await answered.text()]).toEqual([400, 1, expect.any(String)]);
  return amounts[0]! - tokensOf(body);
}

const contents = [{ role: "user", parts: [{ text: "Hello" }] }];
const messages = [{ role: "user", content: "Hello" }];
const asked = {
  responses: (fields: object) => ["/v1/responses", { model: "openai/m", input: "a", max_output_tokens: 16, ...fields }],
  messages: (tools: object[]) => ["/v1/messages", { model: "anthropic/m", max_tokens: 1, messages, tools }],
  gemini: (tools: object[]) => [
    "/v1beta/models/google/m:generateContent",
    { contents, tools, generationConfig: { maxOutputTokens: 1 } },
  ],
  chat: (model: string, fields: object) => ["/v1/chat/completions", { model, messages, max_tokens: 1, ...fields }],
} satisfies Record<string, (...given: never[]) => unknown[]>;

const webSearch = { type: "web_search" };
const searchTwice = { type: "web_search_20250305", name: "web_search", max_uses: 2 };

describe("tools that a provider runs itself", () => {
  const cases: readonly [what: string, asked: unknown[], beyond: number][] = [
    ["none", asked.messages([{ name: "f", input_schema: { type: "object" } }]), 1],
    [
      "those that the client runs",
      asked.messages([
        { type: "bash_20250124", name: "bash" },
        { type: "text_editor_20250728", name: "str_replace_based_edit_tool" },
      ]),
      1,
    ],
    ["as often as a tool may be used", asked.messages([searchTwice]), 1 + 2 * (perUse + cent)],
    ["without a bound", asked.messages([{ ...searchTwice, max_uses: null }]), 1 + 5 * (perUse + cent)],
    [
      "one that costs its tokens alone",
      asked.messages([{ type: "web_fetch_20250910", name: "web_fetch" }]),
      1 + 5 * perUse,
    ],
    ["Gemini's", asked.gemini([{ googleSearch: {} }]), 1 + 5 * (perUse + cent)],
    [
      "Gemini's in its other spelling",
      asked.gemini([{ google_search: {}, url_context: {} }]),
      1 + 5 * (2 * perUse + cent),
    ],
    ["Gemini's functions", asked.gemini([{ functionDeclarations: [{ name: "f" }] }]), 1],
    ["a search of the chat format", asked.chat("groq/m", { web_search_options: {} }), 1 + 5 * (perUse + cent)],
    [
      "the Responses mode of the chat format",
      asked.chat("openai/m", { use_responses_api: true, server_tools: [webSearch] }),
      1 + 5 * (perUse + cent),
    ],
    ["a plugin", asked.chat("groq/m", { plugins: [{ id: "web" }] }), 1 + 5 * (perUse + cent)],
    [
      "a provider's own API",
      ["/providers/anthropic/v1/messages", { model: "m", max_tokens: 1, messages, tools: [searchTwice] }],
      1 + 2 * (perUse + cent),
    ],
    ["more uses than anyone pays for", asked.messages([{ ...searchTwice, max_uses: 1e300 }]), 1e9 + 1e6 * cent],
  ];
  test.each(cases)("%s", async (_, [path, body], beyond) => {
    const amount = await reserved(path as string, body as object);
    if (beyond < 1e9) expect(amount).toBe(beyond);
    else expect(amount).toBeGreaterThan(1e9);
  });

  test("as often as all of them together may be used", async () => {
    const tools = [webSearch, { type: "file_search", vector_store_ids: ["v"] }, { type: "mcp", server_label: "a" }];
    const [path, body] = asked.responses({ max_tool_calls: 3, tools });
    expect(await reserved(path as string, body as object)).toBe(16 + 3 * perUse + 3 * cent + 3 * 2 * cent);
  });

  test("one that has no price is refused by its name", async () => {
    for (const tools of [[{ type: "code_interpreter", container: { type: "auto" } }], [{ type: "__proto__" }]]) {
      const [path, body] = asked.responses({ tools });
      const refused = await troupe.post(`/gateway${path}`, body);
      const { error } = (await refused.json()) as { error: { code: string; message: string } };
      expect([refused.status, error.code]).toEqual([403, "model_without_price"]);
      expect(error.message).toContain(`one for each use of its tools (${tools[0]!.type})`);
    }
  });
});

test("of a tier that costs more, its price", async () => {
  const [path, body] = asked.chat("openai/m", { service_tier: "priority", max_tokens: 100 });
  expect(await reserved(path as string, body as object)).toBe(tokensOf(body as object) + 200);
});

test("of a region and a speed that cost more, their price", async () => {
  amounts.length = 0;
  // As long as each other.
  for (const fields of [
    { speed: "slow", inference_geo: "global" },
    { speed: "fast", inference_geo: "global" },
    { speed: "fast", inference_geo: "us", a: 1 },
  ]) {
    await troupe.post("/gateway/providers/anthropic/v1/messages", { model: "m", max_tokens: 9, messages, ...fields });
  }
  const [usual, fast, both] = amounts as [number, number, number];
  expect([fast / usual, both / usual]).toEqual([3, expect.closeTo(6, 0)]);
});

test("of what an answer may be, the dearest", async () => {
  const [path, body] = asked.chat("groq/voice", { max_tokens: 100 });
  expect(await reserved(path as string, body as object)).toBe(900);
});

test("each image that may be made", async () => {
  amounts.length = 0;
  await troupe.post("/gateway/v1/images/generations", { model: "openai/picture", prompt: "a cat", n: 3 });
  await troupe.post("/gateway/providers/openai/v1/images/generations", { model: "picture", prompt: "a cat" });
  expect(amounts).toEqual([12 * cent, 4 * cent]);
});

describe("by the list", () => {
  const codes = async (path: string, body: object) => {
    const answered = await troupe.post(`/gateway${path}`, body);
    return [answered.status, ((await answered.json()) as { error?: { code?: string } }).error?.code];
  };

  test("embeddings and searches have a price", async () => {
    for (const [path, body] of [
      ["/v1/embeddings", { model: "openai/text-embedding-3-small", input: "a" }],
      ["/v1/responses", { model: "openai/gpt-5.3-codex", input: "a", tools: [webSearch] }],
      ["/v1beta/models/google/gemini-3-flash-preview:generateContent", { contents, tools: [{ googleSearch: {} }] }],
      ["/v1/responses", { model: "xai/grok-4.3", input: "a", tools: [{ type: "x_search" }] }],
    ] as const) {
      expect([path, ...(await codes(path, body))]).toEqual([
        path,
        400,
        expect.not.stringMatching("model_without_price"),
      ]);
    }
  });

  test("whose unit of search nobody counts has none", async () => {
    const body = { contents, tools: [{ googleSearch: {} }] };
    expect((await codes("/v1beta/models/google/gemini-2.5-flash:generateContent", body))[0]).toBe(403);
  });

  const form = (model: string, bytes: number) => {
    const data = new FormData();
    data.set("model", model);
    data.set("file", new Blob([new Uint8Array(bytes)]), "a.mp3");
    return data;
  };
  const transcribe = (init: RequestInit) =>
    troupe.fetch("/gateway/v1/audio/transcriptions", { method: "POST", ...init });

  test("a recording has as many seconds as its size allows", async () => {
    amounts.length = 0;
    expect((await transcribe({ body: form("openai/whisper-1", 375_000) })).status).toBe(400);
    // $0.006 a minute is 100 micro-dollars a second.
    expect(amounts[0]).toBeWithin(100_000, 100_500);
  });

  test("a form of unknown size has an unknown price", async () => {
    const encoded = new Response(form("openai/whisper-1", 1000));
    const type = encoded.headers.get("content-type")!;
    const body = encoded.body!.pipeThrough(new TransformStream());
    const refused = await transcribe({ body, headers: { "content-type": type } });
    expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([
      403,
      "model_without_price",
    ]);
  });
});
