/** What an upstream that said nothing is answered as can be sent back in the next turn, to any other, in every client format. */
import { describe, expect, test } from "bun:test";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

let answer: () => Response;
const upstream = untilEnd(new UpstreamServer(() => answer()));
const baseUrl = upstream.url;
const troupe = untilEnd(
  await Troupe.start({
    providers: {
      groq: { baseUrl },
      openai: { baseUrl },
      anthropic: { baseUrl },
      google: { baseUrl },
      xai: { baseUrl },
    },
  }),
);

const usage = { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 };
const inChat = (message: object, finish_reason: string) => ({
  ...{ id: "chatcmpl-1", object: "chat.completion", created: 1, model: "m", usage },
  choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }],
});
const inGemini = (candidate: object) => ({
  candidates: [{ index: 0, ...candidate }],
  usageMetadata: { promptTokenCount: 2, totalTokenCount: 5, thoughtsTokenCount: 3 },
});
const silences: readonly [what: string, model: string, body: object][] = [
  ["thoughts up to the limit", "groq/m", inChat({ content: null, reasoning: "Well" }, "length")],
  ["null", "groq/m", inChat({ content: null }, "stop")],
  ["no content at all", "groq/m", inChat({}, "length")],
  [
    "Gemini's MAX_TOKENS",
    "google/gemini-2.5-flash",
    inGemini({ finishReason: "MAX_TOKENS", content: { role: "model" } }),
  ],
  ["Gemini's SAFETY", "google/gemini-2.5-flash", inGemini({ finishReason: "SAFETY" })],
  [
    "no block",
    "anthropic/claude-sonnet-4-5",
    {
      ...{ id: "msg_1", type: "message", role: "assistant", model: "c", content: [], stop_reason: "max_tokens" },
      usage: { input_tokens: 2, output_tokens: 3 },
    },
  ],
];
const targets = ["groq/m", "openai/gpt-5", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-flash", "xai/grok-4"];

type Answered = {
  readonly choices: readonly [{ readonly message: object }];
  readonly output: readonly object[];
  readonly content: readonly object[];
  readonly candidates: readonly [{ readonly content?: object }];
};
type Client = {
  path(model: string): string;
  first(model: string): object;
  /** @param given what was answered */
  second(model: string, given: Answered): object;
};
const user = { role: "user", content: "hi" };
const said = { role: "user", parts: [{ text: "hi" }] };
const clients: Readonly<Record<string, Client>> = {
  chat: {
    path: () => "/gateway/v1/chat/completions",
    first: (model) => ({ model, messages: [user] }),
    second: (model, { choices }) => ({ model, messages: [user, choices[0].message, user] }),
  },
  responses: {
    path: () => "/gateway/v1/responses",
    first: (model) => ({ model, input: [user] }),
    second: (model, { output }) => ({ model, input: [user, ...output, user] }),
  },
  messages: {
    path: () => "/gateway/v1/messages",
    first: (model) => ({ model, max_tokens: 9, messages: [user] }),
    second: (model, { content }) => ({ model, max_tokens: 9, messages: [user, { role: "assistant", content }, user] }),
  },
  gemini: {
    path: (model) => `/gateway/v1beta/models/${model}:generateContent`,
    first: () => ({ contents: [said] }),
    second: (_, { candidates }) => ({ contents: [said, candidates[0].content ?? { role: "model" }, said] }),
  },
};

/** Sent back by libraries that leave out what is empty, as openai-go's `ToParam` and the parts of Go's genai do. */
const withoutEmpty: Readonly<Record<string, readonly [path: string, body: (model: string) => object]>> = {
  chat: ["/gateway/v1/chat/completions", (model) => ({ model, messages: [user, { role: "assistant" }, user] })],
  responses: ["/gateway/v1/responses", (model) => ({ model, input: [user, { role: "assistant" }, user] })],
  messages: [
    "/gateway/v1/messages",
    (model) => ({ model, max_tokens: 9, messages: [user, { role: "assistant" }, user] }),
  ],
  gemini: ["", () => ({ contents: [said, { role: "model", parts: [{}] }, said] })],
};

test.each(Object.keys(withoutEmpty))("without its content, in %s", async (format) => {
  answer = () => jsonResponse({ error: { message: "Enough was seen." } }, 418);
  const [path, body] = withoutEmpty[format]!;
  for (const target of targets) {
    const seen = upstream.requests.length;
    const got = await troupe.post(path === "" ? clients["gemini"]!.path(target) : path, body(target));
    expect([target, await got.text(), upstream.requests.length - seen]).toEqual([target, expect.any(String), 1]);
    const sent = upstream.requests.at(-1)!.json as { messages?: { role: string; content: unknown }[] };
    // Upstreams of chat completions want a text there.
    if (format === "chat" && target === "groq/m") expect(sent.messages![1]).toEqual({ role: "assistant", content: "" });
  }
});

describe.each(Object.entries(clients))("a client of %s", (_, client) => {
  test.each(silences)("sends back %s", async (_what, source, body) => {
    answer = () => jsonResponse(body);
    const first = await troupe.post(client.path(source), client.first(source));
    expect(first.status).toBe(200);
    const given = (await first.json()) as Answered;
    answer = () => jsonResponse({ error: { message: "Enough was seen." } }, 418);
    for (const target of targets) {
      const seen = upstream.requests.length;
      const second = await troupe.post(client.path(target), client.second(target, given));
      const words = await second.text();
      expect([target, upstream.requests.length - seen, words]).toEqual([target, 1, expect.any(String)]);
    }
  });
});
