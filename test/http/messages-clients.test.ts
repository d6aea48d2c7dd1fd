/** Other clients of Anthropic's format, unmodified: the AI SDK and LangChain, on a model of Google's. */
import { expect, test } from "bun:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import Anthropic from "@anthropic-ai/sdk";
import { ChatAnthropic } from "@langchain/anthropic";
import { generateText, streamText } from "ai";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

const model = "google/gemini-3-flash-preview";
const counts = { promptTokenCount: 5, candidatesTokenCount: 2, thoughtsTokenCount: 4, totalTokenCount: 11 };
const part = (one: object, finishReason?: string) => ({
  candidates: [{ content: { role: "model", parts: [one] }, ...(finishReason && { finishReason }) }],
  usageMetadata: counts,
});
const call = { functionCall: { name: "weather", args: { city: "Oslo" } }, thoughtSignature: "s1" };
let parts: object[] = [];

const { troupe, upstream } = await served(
  ({ path }) => {
    const answers = parts.map((one, at) => part(one, at === parts.length - 1 ? "STOP" : undefined));
    if (path.includes("alt=sse")) return sseResponse(answers.map((one) => `data: ${JSON.stringify(one)}\n\n`));
    return jsonResponse({
      candidates: [{ content: { role: "model", parts }, finishReason: "STOP" }],
      usageMetadata: counts,
    });
  },
  (url) => ({ providers: { google: { baseUrl: url, apiKey: "AIza-test" } } }),
);
const says = (...given: object[]) => {
  parts = given;
};

test("the AI SDK: text, plain and streamed, with the counts", async () => {
  const provider = createAnthropic({ baseURL: `${troupe.url}/gateway/v1`, apiKey: troupe.key });
  says({ text: "Hel" }, { text: "lo" });
  const plain = await generateText({ model: provider(model), prompt: "hi" });
  expect([plain.text, plain.finishReason, plain.usage.outputTokens]).toEqual(["Hello", "stop", 6]);
  const streamed = streamText({ model: provider(model), prompt: "hi" });
  expect([await streamed.text, await streamed.finishReason]).toEqual(["Hello", "stop"]);
});

test("LangChain: text and a call", async () => {
  const chat = new ChatAnthropic({
    model,
    apiKey: troupe.key,
    anthropicApiUrl: `${troupe.url}/gateway`,
    maxRetries: 0,
    maxTokens: 50,
  });
  says({ text: "Hello" });
  expect((await chat.invoke("hi")).text).toBe("Hello");
  says(call);
  const schema = { type: "object" as const, properties: { city: { type: "string" } } };
  const called = await chat.bindTools([{ name: "weather", description: "d", input_schema: schema }]).invoke("hi");
  expect(called.tool_calls).toMatchObject([{ name: "weather", args: { city: "Oslo" } }]);
});

test.each([false, true])(
  "Gemini's signature comes back with the call in the next turn (streamed: %p)",
  async (stream) => {
    const client = new Anthropic({
      baseURL: `${troupe.url}/gateway`,
      apiKey: troupe.key,
      authToken: null,
      maxRetries: 0,
    });
    const ask = { model, max_tokens: 50, tools: [{ name: "weather", input_schema: { type: "object" as const } }] };
    const first = { role: "user" as const, content: "hi" };
    const thinking = { type: "adaptive" as const };
    says({ text: "Let me think.", thought: true }, call);
    const asked = { ...ask, thinking, messages: [first] };
    const made = stream ? await client.messages.stream(asked).finalMessage() : await client.messages.create(asked);
    expect(made.content.map(({ type }) => type)).toEqual(["thinking", "tool_use"]);
    expect(made.stop_reason).toBe("tool_use");
    expect(made.usage).toMatchObject({
      input_tokens: 5,
      output_tokens: 6,
      output_tokens_details: { thinking_tokens: 4 },
    });
    const use = made.content[1] as { id: string };
    const result = {
      role: "user" as const,
      content: [{ type: "tool_result" as const, tool_use_id: use.id, content: "Rain." }],
    };
    says({ text: "It rains." });
    await client.messages.create({ ...ask, messages: [first, { role: "assistant", content: made.content }, result] });
    const { contents } = upstream.last.json as {
      contents: { parts: { functionCall?: object; thoughtSignature?: string }[] }[];
    };
    expect(contents[1]!.parts).toHaveLength(1);
    expect(contents[1]!.parts[0]!.thoughtSignature).toBe("s1");
  },
);
