/** What a Messages client's meter shows from the first event on, where the upstream counts at the end alone. */
import { expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const counted = { prompt_tokens: 1000, completion_tokens: 4, total_tokens: 1004 };
const chunk = (more: object) => `data: ${JSON.stringify({ id: "c", created: 1, model: "m", ...more })}\n\n`;
const streamed = (usage: object) =>
  sseResponse([
    chunk({ choices: [{ index: 0, delta: { role: "assistant", content: "Hi" }, finish_reason: null }] }),
    chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
    chunk({ choices: [], usage }),
    "data: [DONE]\n\n",
  ]);

const upstream = untilEnd(new UpstreamServer(() => streamed(counted)));
const troupe = untilEnd(await Troupe.start({ providers: { mistral: { baseUrl: upstream.url } } }));
troupe.setTargets("troupe/tutor", ["mistral/mistral-large-latest"]);

/** 1,200 letters, which are some 300 tokens. */
const long = "some words ".repeat(109).trim();

async function ask(surface: "/gateway" | "", model: string, content: string) {
  const client = new Anthropic({ baseURL: `${troupe.url}${surface}`, apiKey: troupe.key, maxRetries: 0 });
  const stream = client.messages.stream({ model, max_tokens: 9, messages: [{ role: "user", content }] });
  let start = -1;
  stream.on("streamEvent", (event) => {
    if (event.type === "message_start") start = event.message.usage.input_tokens;
  });
  const { usage } = await stream.finalMessage();
  return { start, end: usage.input_tokens };
}

test("an estimate stands in the first event, and what the upstream counted in the last", async () => {
  const { start, end } = await ask("/gateway", "mistral/mistral-large-latest", long);
  expect(start).toBeWithin(250, 350);
  expect(end).toBe(1000);
});

test("a persona's words count too", async () => {
  const { start, end } = await ask("", "troupe/tutor", long);
  expect(start).toBeGreaterThan(400);
  expect(end).toBe(1000);
});

test("a short prompt is some tokens, and letters of other scripts count by their bytes", async () => {
  expect((await ask("/gateway", "mistral/mistral-large-latest", "hi")).start).toBeWithin(1, 4);
  expect((await ask("/gateway", "mistral/mistral-large-latest", "語".repeat(400))).start).toBeWithin(250, 450);
});
