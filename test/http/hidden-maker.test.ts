/** A persona with `hide_upstream` says nothing of who answered where its model speaks the client's format, either. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

/** What upstreams say beside their format, as llama.cpp, Groq, Vertex and OpenRouter do. */
const own = {
  ...{ timings: { predicted_ms: 1 }, system_fingerprint: "b1-secret", provider: "secret", x_groq: { id: "secret" } },
  ...{ createTime: "secret", inference_geo: "secret" },
};
const counts = { input_tokens: 3, output_tokens: 5 };
const message = {
  ...{ id: "msg_1", type: "message", role: "assistant", model: "secret-1", stop_reason: "end_turn" },
  ...{ stop_sequence: null, content: [{ type: "text", text: "hello" }], usage: { ...counts, ...own }, ...own },
};
const candidate = { content: { role: "model", parts: [{ text: "hello" }] }, finishReason: "STOP", index: 0 };
const gemini = {
  ...{ candidates: [candidate], modelVersion: "secret-1", responseId: "r1", ...own },
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 5, totalTokenCount: 8, trafficType: "secret" },
};
const said = { type: "output_text", text: "hello", annotations: [], logprobs: [] };
const item = { id: "msg_1", type: "message", role: "assistant", status: "completed", content: [said] };
const response = {
  ...{ id: "resp_1", object: "response", created_at: 1, status: "completed", model: "secret-1", output: [item] },
  ...{ usage: { ...counts, total_tokens: 8, ...own }, ...own, store: false },
};
const named = (...events: { type: string }[]) =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
const streams = {
  messages: named(
    { type: "message_start", ...{ message: { ...message, content: [], stop_reason: null } } },
    { type: "content_block_start", ...{ index: 0, content_block: { type: "text", text: "" } } },
    { type: "content_block_delta", ...{ index: 0, delta: { type: "text_delta", text: "hello" }, ...own } },
    { type: "content_block_stop", ...{ index: 0 } },
    { type: "message_delta", ...{ delta: { stop_reason: "end_turn", stop_sequence: null }, usage: counts, ...own } },
    { type: "message_stop", ...own },
  ),
  gemini: [`data: ${JSON.stringify(gemini)}\n\n`],
  responses: named(
    {
      type: "response.created",
      ...{ sequence_number: 0, response: { ...response, status: "in_progress", output: [] } },
    },
    { type: "response.output_item.done", ...{ sequence_number: 1, output_index: 0, item } },
    { type: "response.completed", ...{ sequence_number: 2, response } },
  ),
};
const user = { role: "user", content: "hi" };
const formats = {
  messages: { plain: message, path: () => "/v1/messages", body: { max_tokens: 9, messages: [user] } },
  gemini: {
    plain: gemini,
    path: (isStream: boolean) =>
      `/v1beta/models/acme/gemini:${isStream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    body: { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
  },
  responses: { plain: response, path: () => "/v1/responses", body: { input: "hi", store: false } },
} as const;
type Format = keyof typeof formats;

const folder = untilEnd(new TempFolder());
let format: Format;
mkdirSync(folder.file("acme"));
const models = {
  messages: "anthropic/claude-sonnet-4-5",
  gemini: "google/gemini-2.5-flash",
  responses: "openai/gpt-5",
};
for (const [name, model] of Object.entries(models)) {
  const persona = { description: "Helps.", model, system: "Help them.", hide_upstream: true };
  writeFileSync(folder.file(`acme/${name}.yaml`), JSON.stringify(persona));
}
const upstream = untilEnd(
  new UpstreamServer(({ path, json }) => {
    const isStream = path.includes("alt=sse") || (json as { stream?: boolean }).stream === true;
    return isStream ? sseResponse(streams[format]) : jsonResponse(formats[format].plain);
  }),
);
const { url: baseUrl } = upstream;
const providers = { anthropic: { baseUrl }, google: { baseUrl, apiKey: "AIza-test" }, openai: { baseUrl } };
const troupe = untilEnd(await Troupe.start({ providers, personas: folder.path }));

const cases = (Object.keys(formats) as Format[]).flatMap((name) =>
  [false, true].map((isStream) => [name, isStream] as const),
);

test.each(cases)("in %s, streamed: %p", async (name, isStream) => {
  format = name;
  const { path, body } = formats[name];
  const asked = name === "gemini" ? body : { ...body, model: `acme/${name}`, ...(isStream && { stream: true }) };
  const got = await troupe.post(path(isStream), asked);
  const text = await got.text();
  expect([got.status, text]).toEqual([200, expect.stringContaining("hello")]);
  expect(text).toContain(`"acme/${name}"`);
  expect(text).not.toMatch(/secret|timings/);
  expect(text).toMatch(/"(?:output_tokens|candidatesTokenCount)":5/);
});
