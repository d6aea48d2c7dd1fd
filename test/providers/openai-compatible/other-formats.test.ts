/** What clients of other formats say that a model does not take is left out, and what chat's callers say goes as they said it. */
import { expect, test } from "bun:test";
import { untilEnd } from "../../helpers/served.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../../helpers/upstream-server.ts";

const choices = [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }];
const upstream = untilEnd(new UpstreamServer(() => jsonResponse({ choices })));
const baseUrl = upstream.url;
const troupe = untilEnd(
  await Troupe.start({ providers: { openai: { baseUrl }, groq: { baseUrl }, vllm: { baseUrl } } }),
);

const messages = [{ role: "user", content: "hi" }];
const sent = async (route: string, body: object) => {
  expect((await troupe.post(`/gateway/v1/${route}`, { messages, max_tokens: 2000, ...body })).status).toBe(200);
  return upstream.last.json as Record<string, unknown>;
};

test.each([
  ["openai/gpt-4.1", undefined],
  ["openai/o3", undefined],
  ["openai/gpt-5-mini", "minimal"],
  ["openai/gpt-5.4", "none"],
])("thinking that is switched off on %s: reasoning_effort %p", async (model, effort) => {
  expect((await sent("messages", { model, thinking: { type: "disabled" } }))["reasoning_effort"]).toBe(effort);
  expect(await sent("messages", { model })).not.toHaveProperty("reasoning_effort");
});

test.each([
  ["openai/gpt-4.1", undefined],
  ["groq/openai/gpt-oss-120b", undefined],
  ["vllm/qwen", 64],
])("top_k of Messages on %s: %p", async (model, topK) => {
  expect((await sent("messages", { model, top_k: 64 }))["top_k"]).toBe(topK);
  expect((await sent("chat/completions", { model, top_k: 64 }))["top_k"]).toBe(64);
});
