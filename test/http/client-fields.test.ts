/** All that clients of other formats say, to OpenAI, which refuses what it does not know, by either of its formats. */
import { expect, test } from "bun:test";
import { refusedFields } from "../../src/providers/client-fields.ts";
import { exampleResponse } from "../helpers/fixtures.ts";
import { served } from "../helpers/served.ts";
import { strictCompatible } from "../helpers/upstreams/compatible.ts";
import { strictResponses } from "../helpers/upstreams/responses.ts";

const apiKey = "sk-test";

const chat = strictCompatible("openai", apiKey, () => exampleResponse("openai/plain"));
const responses = strictResponses("openai", apiKey, () => exampleResponse("openai-responses/plain"));
const { troupe, upstream } = await served(
  (request) => (request.path.endsWith("/responses") ? responses : chat)(request),
  (url) => ({ providers: { openai: { baseUrl: `${url}/v1`, apiKey } } }),
);

const cache_control = { type: "ephemeral" };
const messages = {
  max_tokens: 100,
  top_k: 5,
  cache_control,
  variables: { a: "b" },
  metadata: { user_id: "u" },
  service_tier: "auto",
  system: [{ type: "text", text: "S", cache_control }],
  tools: [{ name: "t", input_schema: { type: "object" }, cache_control }],
  messages: [
    { role: "user", content: [{ type: "text", text: "hi", cache_control }] },
    { role: "assistant", content: [{ type: "tool_use", id: "c", name: "t", input: {}, cache_control }] },
    {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: "c", content: "no", is_error: true, cache_control }],
    },
  ],
};
const gemini = {
  contents: [{ role: "user", parts: [{ text: "hi" }] }],
  generationConfig: { topK: 5, topP: 0.5, mediaResolution: "MEDIA_RESOLUTION_LOW", responseModalities: ["TEXT"] },
  safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
  variables: { a: "b" },
  labels: { a: "b" },
};

test.each(["gpt-4.1", "gpt-5.3-codex"])("%s is asked in its own words alone", async (model) => {
  const name = `openai/${model}`;
  for (const [path, body] of [
    ["messages", { model: name, ...messages }],
    [`/v1beta/models/${name}:generateContent`, gemini],
  ] as const) {
    const answer = await troupe.post(path === "messages" ? "/gateway/v1/messages" : `/gateway${path}`, body);
    expect([path, answer.status, await answer.text()]).toEqual([path, 200, expect.any(String)]);
    expect(upstream.last.path).toBe(model === "gpt-4.1" ? "/v1/chat/completions" : "/v1/responses");
    const sent = upstream.last.text;
    for (const field of refusedFields({})) expect([field, sent.includes(`"${field}":`)]).toEqual([field, false]);
  }
});

test("chat's own clients are not asked by Responses for what only chat upstreams may know", async () => {
  const body = { messages: [{ role: "user", content: "hi" }], top_k: 5, topK: 5, cache_control };
  const answer = await troupe.post("/gateway/v1/chat/completions", { model: "openai/gpt-5.3-codex", ...body });
  expect([answer.status, upstream.last.path]).toEqual([200, "/v1/responses"]);
});
