/** The ledger of the routes beside completions: whatever form an answer's counts have, they are found, and each end has its line. */
import { describe, expect, test } from "bun:test";
import type { LedgerLine } from "../../src/store/contract/usage.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { type RecordedRequest, UpstreamServer } from "../helpers/upstream-server.ts";

let answer: (request: RecordedRequest) => Response | Promise<Response>;

const upstream = untilEnd(new UpstreamServer((request) => answer(request)));
const rates = { input: 1, output: 2 };
const troupe = untilEnd(
  await Troupe.start({
    surfaces: ["orchestrator", "gateway", "raw"],
    providers: {
      openai: { baseUrl: `${upstream.url}/v1` },
      anthropic: { baseUrl: upstream.url },
      google: { baseUrl: `${upstream.url}/v1beta` },
      azure: { baseUrl: upstream.url },
    },
    config: {
      prices: [
        { match: "openai/painter", image: 0.04 },
        { match: "openai/whisper", audio_minute: 0.006 },
        { match: "openai/*-unpriced" },
        { match: "*/*", ...rates, image_input: 3, image_output: 4, audio_input: 5, tools: { web_search: 0.01 } },
      ],
    },
  }),
);

async function lineOf(id: string): Promise<LedgerLine> {
  const { services } = troupe.server;
  while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
  await services.usage.close();
  await services.ledger.flush();
  const found = { since: 0, until: Number.MAX_SAFE_INTEGER, requestId: id, limit: 10 };
  const lines = await services.store.ledger.lines(found);
  expect(lines).toHaveLength(1);
  return lines[0]!;
}

async function lineAfter(path: string, body: object): Promise<LedgerLine> {
  const response = await troupe.post(`/gateway${path}`, body);
  await response.bytes();
  return lineOf(response.headers.get("x-request-id")!);
}

const json = (body: object, status = 200) => Response.json(body, { status });
const events = (...data: object[]) =>
  new Response(data.map((one) => `data: ${JSON.stringify(one)}\n\n`).join(""), {
    headers: { "content-type": "text/event-stream" },
  });
const image = { b64_json: "A".repeat(100_000) };
const search = (type: string) => ({ type: "web_search_call", action: { type } });
const tokens = { input_tokens: 100, output_tokens: 50 };
const response = (output: object[]) => ({ model: "m", output, usage: { ...tokens, total_tokens: 150 } });
const grounded = (queries: string[]) => ({ candidates: [{ groundingMetadata: { webSearchQueries: queries } }] });
const gemini = { promptTokenCount: 100, candidatesTokenCount: 50, totalTokenCount: 150 };

/** The route, what is asked, what is answered, and what the line has of it. Costs are micro-dollars, reckoned by hand. */
const routes: [string, string, object, () => Response, object][] = [
  [
    "embeddings",
    "/v1/embeddings",
    { model: "openai/e", input: "x" },
    () => json({ data: [], usage: { prompt_tokens: 7, total_tokens: 7 } }),
    { provider: "openai", upstreamModel: "e", tokens: { input: 7, output: 0 }, cost: 7 },
  ],
  [
    "embeddings that tell no tokens",
    "/v1/embeddings",
    {
      model: "openai/e",
      input: [
        [1, 2, 3],
        [4, 5],
      ],
    },
    () => json({ data: [] }),
    { counted: "estimated", tokens: { input: 5, output: 0 }, cost: 5 },
  ],
  [
    "embeddings on the raw route that tell no tokens",
    "/providers/openai/v1/embeddings",
    { model: "e", input: [1, 2, 3] },
    () => json({ data: [] }),
    { counted: "estimated", tokens: { input: 3, output: 0 }, cost: 3 },
  ],
  [
    "a stream on the raw route that tells no tokens",
    "/providers/openai/v1/chat/completions",
    { model: "c", messages: [{ role: "user", content: "word" }], stream: true },
    () => events({ choices: [{ delta: { content: "word" } }] }, { choices: [{ delta: { content: "word" } }] }),
    // A token each, by whichever way they are counted.
    { counted: "estimated", tokens: { input: 1, output: 2 }, cost: 5 },
  ],
  [
    "Responses on the raw route that tell no tokens",
    "/providers/openai/v1/responses",
    { model: "c", input: "word" },
    () =>
      events(
        { type: "response.output_text.delta", delta: "word" },
        { type: "response.output_text.done", text: "hi there, once more and not counted again, however long it is" },
      ),
    { counted: "estimated", tokens: { output: 1 }, cost: 3 },
  ],
  [
    "generateContent on the raw route that tells no tokens",
    "/providers/google/v1beta/models/g:generateContent",
    { contents: [{ parts: [{ text: "word" }, { inlineData: { mimeType: "image/png", data: "A".repeat(9_000) } }] }] },
    () => json({ candidates: [{ content: { parts: [{ text: "word" }] } }] }),
    { counted: "estimated", tokens: { input: 1, output: 1 }, cost: 3 },
  ],
  [
    "rerank, which tells no tokens",
    "/v1/rerank",
    { model: "openai/r", query: "x", documents: ["y"] },
    () => json({ results: [] }),
    { counted: "unknown", cost: null },
  ],
  [
    "images by the token",
    "/v1/images/generations",
    { model: "openai/i", prompt: "x" },
    () =>
      json({
        data: [image, image],
        usage: { ...tokens, total_tokens: 150, input_tokens_details: { text_tokens: 60, image_tokens: 40 } },
      }),
    // 60 × 1 + 40 × 3 + 50 × 4
    { tokens: { input: 100, output: 50 }, cost: 380 },
  ],
  [
    "images by the piece",
    "/v1/images/generations",
    { model: "openai/painter", prompt: "x" },
    () => json({ data: [image, image, image] }),
    { counted: "upstream", cost: 120_000 },
  ],
  [
    "images by their addresses",
    "/v1/images/generations",
    { model: "openai/painter", prompt: "x" },
    () => json({ data: [{ url: "https://one" }, { url: "https://two" }] }),
    { cost: 80_000 },
  ],
  [
    "images that have no price",
    "/v1/images/generations",
    { model: "openai/i-unpriced", prompt: "x" },
    () => json({ data: [image] }),
    { cost: null, priceSource: "unknown" },
  ],
  [
    "Messages on the raw route",
    "/providers/anthropic/v1/messages",
    { model: "c", messages: [] },
    () => json({ usage: { ...tokens, server_tool_use: { web_search_requests: 2 } } }),
    { provider: "anthropic", upstreamModel: "c", tokens: { input: 100, output: 50 }, cost: 20_200 },
  ],
  [
    "streamed Messages",
    "/providers/anthropic/v1/messages",
    { model: "c", messages: [], stream: true },
    () =>
      events(
        { type: "message_start", message: { model: "c", usage: { input_tokens: 100, output_tokens: 1 } } },
        { type: "message_delta", usage: { output_tokens: 50 } },
      ),
    { tokens: { input: 100, output: 50 }, cost: 200 },
  ],
  [
    "a response with searches, of which opening a page is none",
    "/providers/openai/v1/responses",
    { model: "o" },
    () => json(response([search("search"), search("open_page"), { type: "message" }])),
    { cost: 10_200 },
  ],
  [
    "a streamed response",
    "/providers/openai/v1/responses",
    { model: "o", stream: true },
    () =>
      events(
        { type: "response.created", response: { usage: null } },
        {
          type: "response.completed",
          response: response([search("search"), search("search")]),
        },
      ),
    { cost: 20_200 },
  ],
  [
    "Gemini, which searched",
    "/providers/google/v1beta/models/g:generateContent",
    { contents: [] },
    () => json({ ...grounded(["a", "b"]), usageMetadata: gemini }),
    { provider: "google", upstreamModel: "g", cost: 20_200 },
  ],
  [
    "Gemini as a stream",
    "/providers/google/v1beta/models/g:streamGenerateContent",
    { contents: [] },
    () => events({ usageMetadata: { promptTokenCount: 100 } }, { ...grounded(["a"]), usageMetadata: gemini }),
    { cost: 10_200 },
  ],
  [
    "a chat as a stream",
    "/providers/azure/openai/deployments/d/chat/completions",
    { stream: true },
    () => events({ choices: [] }, { choices: [], usage: { prompt_tokens: 100, completion_tokens: 50 } }),
    { provider: "azure", upstreamModel: "d", cost: 200 },
  ],
  [
    "an upstream's own cost",
    "/providers/openai/v1/chat/completions",
    { model: "o" },
    () => json({ usage: { prompt_tokens: 100, completion_tokens: 50, cost: 0.5 } }),
    { cost: 500_000, priceSource: "upstream" },
  ],
  [
    "a request that names no model, by the answer's",
    "/providers/openai/v1/responses",
    { prompt: { id: "pmpt_1" } },
    () => json({ ...response([]), model: "o-told" }),
    { model: "openai/*", upstreamModel: "o-told", cost: 200 },
  ],
  [
    "an upstream's refusal",
    "/providers/openai/v1/responses",
    { model: "o" },
    () => json({ error: {} }, 400),
    { ended: "refused", status: 400, cost: 0, counted: "none" },
  ],
  [
    "an upstream's failure",
    "/v1/embeddings",
    { model: "openai/e", input: "x" },
    () => json({ error: {} }, 503),
    { ended: "broken", status: 503, cost: 0, counted: "none" },
  ],
];

test.each(routes)("%s", async (_, path, body, give, expected) => {
  answer = give;
  expect(await lineAfter(path, body)).toMatchObject({ ended: "finished", ...expected });
});

describe("recordings", () => {
  const ask = (model: string) => {
    const form = new FormData();
    form.set("model", model);
    form.set("file", new Blob([new Uint8Array(1000)]), "a.wav");
    return lineAfter("/v1/audio/transcriptions", form);
  };

  test("by their length", async () => {
    answer = () => json({ text: "hi", usage: { type: "duration", seconds: 90 } });
    expect(await ask("openai/whisper")).toMatchObject({ upstreamModel: "whisper", cost: 9_000 });
    expect(await ask("openai/other-unpriced")).toMatchObject({ cost: null });
  });

  test("by their tokens", async () => {
    const input_token_details = { text_tokens: 10, audio_tokens: 90 };
    answer = () => json({ text: "hi", usage: { type: "tokens", ...tokens, total_tokens: 150, input_token_details } });
    // 10 × 1 + 90 × 5 + 50 × 2
    expect(await ask("openai/t")).toMatchObject({ tokens: { input: 100, audioInput: 90, output: 50 }, cost: 560 });
  });
});

test("what only reads costs nothing, whatever counts it shows", async () => {
  answer = () => json(response([search("search")]));
  const got = await troupe.fetch("/gateway/providers/openai/v1/responses/resp_1");
  await got.bytes();
  expect(await lineOf(got.headers.get("x-request-id")!)).toMatchObject({
    ended: "finished",
    cost: 0,
    counted: "none",
    tokens: { input: 0 },
  });
});

test("a client that leaves has a line with what was told by then", async () => {
  const held = new HeldStream();
  const left = new AbortController();
  answer = () => {
    held.event({ type: "message_start", message: { usage: tokens } });
    return held.response();
  };
  const path = "/gateway/providers/anthropic/v1/messages";
  const asked = await troupe.fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "c", stream: true }),
    signal: left.signal,
  });
  const reader = asked.body!.getReader();
  await reader.read();
  left.abort();
  await held.cancelled;
  expect(await lineOf(asked.headers.get("x-request-id")!)).toMatchObject({
    ended: "abandoned",
    tokens: { input: 100, output: 50 },
    cost: 200,
  });
});
