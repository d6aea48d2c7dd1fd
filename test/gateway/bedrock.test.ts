/** Amazon Bedrock, driven by official clients through the gateway to an upstream that is as strict as the real one. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { BedrockRuntimeClient, ConverseStreamCommand } from "@aws-sdk/client-bedrock-runtime";
import type OpenAI from "openai";
import { compiledList } from "../../src/facts/prices/list.ts";
import { exampleResponse } from "../helpers/fixtures.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";
import {
  type Answering,
  awsRequestId,
  awsVariables,
  bedrockKey,
  converseAnswer,
  converseStream,
  errorResponse,
  type StreamEvent,
  strictBedrock,
  textEvents,
} from "../helpers/upstreams/bedrock.ts";

const nova = "us.amazon.nova-2-lite-v1:0";
const arn = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1b2c3";

let next: Answering;

const upstream = untilEnd(new UpstreamServer(strictBedrock((call) => next(call), "eu-west-1")));
const options = { region: "eu-west-1" };
const troupe = untilEnd(
  await Troupe.start({
    env: awsVariables,
    providers: {
      bedrock: { baseUrl: upstream.url, apiKey: bedrockKey, options },
      signed: {
        dialect: "bedrock",
        baseUrl: upstream.url,
        apiKey: "ABSK-wrong",
        options: { ...options, auth: "aws-sigv4" },
      },
      wrong: { dialect: "bedrock", baseUrl: upstream.url, apiKey: "ABSK-wrong", options },
      elsewhere: { dialect: "bedrock", baseUrl: upstream.url, options: { region: "us-east-1", auth: "aws-sigv4" } },
    },
  }),
);
const client = troupe.client("gateway");

const ask = (model: string, more: object = {}) =>
  client.chat.completions.create({
    model,
    messages: [{ role: "user", content: "Hi" }],
    ...more,
  } as OpenAI.ChatCompletionCreateParamsNonStreaming);

const tool = {
  type: "function" as const,
  function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};

describe.each(["bedrock", "signed"])("%s", (provider) => {
  test("answers by a model, a profile and an ARN", async () => {
    next = ({ model }) => converseAnswer([{ text: `I am ${model}.` }]);
    for (const model of [nova, "amazon.nova-pro-v1:0", arn]) {
      const { data, response } = await ask(`${provider}/${model}`)
        .withResponse()
        .then((all) => all);
      expect(data.choices[0]!.message.content).toBe(`I am ${model}.`);
      expect(data.usage).toMatchObject({ prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 });
      expect(response.headers.get("x-troupe-upstream-format")).toBe("converse");
    }
  });

  test("streams", async () => {
    next = ({ isStream }) => (isStream ? converseStream(textEvents("Grüße aus Dublin.")) : errorResponse(500, "x", ""));
    const stream = client.chat.completions.stream({
      model: `${provider}/${nova}`,
      messages: [{ role: "user", content: "Hi" }],
      stream_options: { include_usage: true },
    });
    const { choices, usage } = await stream.finalChatCompletion();
    expect(choices[0]!.message.content).toBe("Grüße aus Dublin.");
    expect(choices[0]!.finish_reason).toBe("stop");
    expect(usage).toMatchObject({ prompt_tokens: 11, completion_tokens: 7 });
  });
});

test("the stand-in speaks the format that AWS's own client reads", async () => {
  next = () => converseStream(textEvents("Hello there."));
  const aws = new BedrockRuntimeClient({
    endpoint: upstream.url,
    region: "eu-west-1",
    token: { token: bedrockKey },
    authSchemePreference: ["httpBearerAuth"],
    requestHandler: new (await import("@smithy/fetch-http-handler")).FetchHttpHandler(),
  });
  const { stream = [] } = await aws.send(
    new ConverseStreamCommand({ modelId: nova, messages: [{ role: "user", content: [{ text: "Hi" }] }] }),
  );
  let text = "";
  for await (const { contentBlockDelta } of stream) text += contentBlockDelta?.delta?.text ?? "";
  expect(text).toBe("Hello there.");
});

test("a turn with tools and thoughts of Claude by Converse, for a client of Messages", async () => {
  const claude = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0";
  const own = await Troupe.start({
    providers: {
      bedrock: {
        baseUrl: upstream.url,
        apiKey: bedrockKey,
        modelRules: [{ match: "*claude*", door: "converse" }],
      },
    },
  });
  try {
    const anthropic = new Anthropic({ baseURL: `${own.url}/gateway`, apiKey: own.key, maxRetries: 0 });
    const events: StreamEvent[] = [
      ["messageStart", { role: "assistant" }],
      ["contentBlockDelta", { contentBlockIndex: 0, delta: { reasoningContent: { text: "Look." } } }],
      ["contentBlockDelta", { contentBlockIndex: 0, delta: { reasoningContent: { signature: "EqoBCkg=" } } }],
      ["contentBlockStop", { contentBlockIndex: 0 }],
      ["contentBlockDelta", { contentBlockIndex: 1, delta: { reasoningContent: { redactedContent: "c2VjcmV0" } } }],
      ["contentBlockStop", { contentBlockIndex: 1 }],
      ["contentBlockStart", { contentBlockIndex: 2, start: { toolUse: { toolUseId: "tooluse_1", name: "weather" } } }],
      ["contentBlockDelta", { contentBlockIndex: 2, delta: { toolUse: { input: '{"city":"Paris"}' } } }],
      ["contentBlockStop", { contentBlockIndex: 2 }],
      ["messageStop", { stopReason: "tool_use" }],
      ["metadata", { usage: { inputTokens: 11, outputTokens: 7, totalTokens: 18 } }],
    ];
    next = () => converseStream(events);
    const asked = {
      model: `bedrock/${claude}`,
      max_tokens: 4000,
      thinking: { type: "enabled" as const, budget_tokens: 2000 },
      tools: [{ name: "weather", input_schema: tool.function.parameters as Anthropic.Tool.InputSchema }],
    };
    const question = { role: "user" as const, content: "Weather in Paris?" };
    const first = await anthropic.messages.stream({ ...asked, messages: [question] }).finalMessage();
    expect(first.stop_reason).toBe("tool_use");
    expect(first.content.map(({ type }) => type).sort()).toEqual(["redacted_thinking", "thinking", "tool_use"]);
    expect(upstream.last.json).toMatchObject({
      additionalModelRequestFields: { thinking: { type: "enabled", budget_tokens: 2000 } },
    });
    next = () => converseAnswer([{ text: "Sunny." }]);
    const result = { type: "tool_result" as const, tool_use_id: "tooluse_1", content: "sun" };
    const second = await anthropic.messages.create({
      ...asked,
      messages: [question, { role: "assistant", content: first.content }, { role: "user", content: [result] }],
    });
    expect(second.content).toEqual([expect.objectContaining({ type: "text", text: "Sunny." })]);
    expect((upstream.last.json as { messages: unknown[] }).messages[1]).toEqual({
      role: "assistant",
      content: [
        { reasoningContent: { reasoningText: { text: "Look.", signature: "EqoBCkg=" } } },
        { reasoningContent: { redactedContent: "c2VjcmV0" } },
        { toolUse: { toolUseId: "tooluse_1", name: "weather", input: { city: "Paris" } } },
      ],
    });
  } finally {
    await own[Symbol.asyncDispose]();
  }
});

describe("the platform's other formats", () => {
  const claude = "global.anthropic.claude-haiku-4-5-20251001-v1:0";
  let mantle: UpstreamServer;
  let own: Troupe;
  let answer: () => Response;

  beforeAll(async () => {
    mantle = new UpstreamServer(({ headers }) =>
      headers.get("authorization") === `Bearer ${bedrockKey}` ? answer() : new Response("{}", { status: 403 }),
    );
    own = await Troupe.start({ providers: { bedrock: { baseUrl: mantle.url, apiKey: bedrockKey } } });
  });
  afterAll(async () => {
    await own[Symbol.asyncDispose]();
    mantle[Symbol.dispose]();
  });

  test("a client of Messages reaches Claude untranslated, in both directions", async () => {
    const text =
      '{"id":"msg_bdrk_1","type":"message","role":"assistant","model":"claude-haiku-4-5-20251001","content":[{"type":"text","text":"Hi!"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":8,"output_tokens":3},"new_member":1.0}';
    answer = () => new Response(text, { headers: { "content-type": "application/json" } });
    const body = { max_tokens: 16, messages: [{ role: "user", content: "Hi" }], new_field: [1] };
    const betas = "context-1m-2025-08-07,effort-2025-11-24";
    const got = await own.fetch("/gateway/v1/messages", {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": `${betas},a`,
      },
      body: JSON.stringify({ model: `bedrock/${claude}`, ...body }),
    });
    expect([got.status, await got.text()]).toEqual([200, text]);
    expect(got.headers.get("x-troupe-upstream-format")).toBe("messages");
    const { path, headers, json } = mantle.last;
    expect([path, json]).toEqual(["/anthropic/v1/messages", { model: claude, ...body }]);
    expect([headers.get("anthropic-version"), headers.get("anthropic-beta")]).toEqual(["2023-06-01", betas]);
    expect(headers.get("x-api-key")).toBeNull();
  });

  test("a client of chat completions reaches Claude by Messages, streamed as events", async () => {
    answer = () => exampleResponse("anthropic/text-stream");
    const stream = own.client("gateway").chat.completions.stream({
      model: `bedrock/${claude}`,
      messages: [{ role: "user", content: "Hi" }],
    });
    const { choices } = await stream.finalChatCompletion();
    expect(choices[0]!.finish_reason).toBe("stop");
    expect(mantle.last.path).toBe("/anthropic/v1/messages");
    expect(mantle.last.json).toMatchObject({ model: claude, stream: true });
  });

  test("OpenAI's own models have chat completions, and Responses for its clients", async () => {
    answer = () => exampleResponse("openai-responses/phases");
    const got = await own.fetch("/gateway/v1/responses", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "bedrock/openai.gpt-5.4", input: "Hi", store: false }),
    });
    expect(got.status).toBe(200);
    expect(got.headers.get("x-troupe-upstream-format")).toBe("responses");
    expect(mantle.last.path).toBe("/openai/v1/responses");
    expect(mantle.last.json).toEqual({ model: "openai.gpt-5.4", input: "Hi", store: false });
    answer = () => exampleResponse("openai/finish-length");
    await own.client("gateway").chat.completions.create({
      model: "bedrock/openai.gpt-5.4",
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 5,
    });
    expect(mantle.last.path).toBe("/openai/v1/chat/completions");
    expect(mantle.last.json).toMatchObject({ model: "openai.gpt-5.4", max_completion_tokens: 5 });
  });

  test("tools that chat completions refuse of OpenAI's newer models go by Responses", async () => {
    answer = () => exampleResponse("openai-responses/phases");
    const { choices } = await own.client("gateway").chat.completions.create({
      model: "bedrock/openai.gpt-5.6-luna",
      messages: [{ role: "user", content: "Hi" }],
      tools: [{ type: "function", function: { name: "look_up", parameters: { type: "object", properties: {} } } }],
    });
    expect(choices[0]!.finish_reason).toBe("stop");
    expect(mantle.last.path).toBe("/openai/v1/responses");
    expect(mantle.last.json).toMatchObject({ model: "openai.gpt-5.6-luna", tools: [{ name: "look_up" }] });
  });
});

test.each([
  ["us.anthropic.claude-sonnet-4-5-20250929-v1:0", 3.3],
  ["global.anthropic.claude-haiku-4-5-20251001-v1:0", 1],
  ["amazon.nova-pro-v1:0", 0.8],
  ["arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-opus-4-6-v1", 5.5],
])("%s has a price", (model, dollars) => {
  const listed = compiledList.find("bedrock", "https://vpce.example.com", model);
  expect(listed?.provider).toBe("aws");
  expect(listed?.at(Date.parse("2026-11-23"))).toMatchObject({ input_mtok: dollars });
});

describe("errors", () => {
  const raw = (model: string, more: object = {}) =>
    troupe.fetch("/gateway/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }], ...more }),
    });

  test.each([
    [429, "ThrottlingException", "Too many tokens, please wait before trying again."],
    [400, "ValidationException", "Input is too long for requested model."],
    [424, "ModelErrorException", "The system encountered an unexpected error during processing."],
    [503, "ServiceUnavailableException", "Bedrock is unable to process your request."],
  ])("%d %s comes back byte for byte, with its type", async (status, type, message) => {
    next = () => errorResponse(status, type, message);
    const answer = await raw(`bedrock/${nova}`);
    expect(answer.status).toBe(status);
    expect(await answer.text()).toBe(JSON.stringify({ message }));
    expect(answer.headers.get("x-amzn-errortype")).toBe(type);
    expect(answer.headers.get("x-upstream-request-id")).toBe(awsRequestId);
    expect(answer.headers.get("x-troupe-error-source")).toBe("upstream");
  });

  test("a wrong key and a signature for another region are refused upstream", async () => {
    next = () => converseAnswer([{ text: "x" }]);
    for (const provider of ["wrong", "elsewhere"]) {
      const answer = await raw(`${provider}/${nova}`);
      expect([provider, answer.status]).toEqual([provider, 403]);
      const text = await answer.text();
      expect(text).not.toContain("ABSK-wrong");
      expect(text).not.toContain(awsVariables.AWS_ACCESS_KEY_ID);
    }
  });

  test("an exception before the first word is the answer, with its status", async () => {
    const body = '{"message":"Too many requests, please wait before trying again."}';
    next = () => converseStream([["messageStart", { role: "assistant" }]], ["throttlingException", body]);
    const answer = await raw(`bedrock/${nova}`, { stream: true });
    expect([answer.status, await answer.text()]).toEqual([429, body]);
  });

  test("an exception in the middle is an error event, and nothing passes for a whole answer", async () => {
    const body = '{"message":"The model stopped.","originalStatusCode":500}';
    next = () => converseStream(textEvents("Hello there.").slice(0, 3), ["modelStreamErrorException", body]);
    const text = await (await raw(`bedrock/${nova}`, { stream: true })).text();
    expect(text).toContain("Hell");
    expect(text).toContain("event: error");
    expect(text).toContain("The model stopped.");
    expect(text).not.toContain('"finish_reason":"stop"');
  });

  test.each([
    ["damaged", (bytes: Uint8Array) => bytes.map((byte, at) => (at === bytes.length - 100 ? byte ^ 1 : byte))],
    ["cut", (bytes: Uint8Array) => bytes.slice(0, -300)],
  ])("a stream that is %s is an error event", async (_, change) => {
    const bytes = await converseStream(textEvents("Hello there.")).bytes();
    next = () =>
      new Response(change(bytes) as Uint8Array<ArrayBuffer>, {
        headers: { "content-type": "application/vnd.amazon.eventstream" },
      });
    const answer = await raw(`bedrock/${nova}`, { stream: true });
    const text = await answer.text();
    expect(text).toContain("upstream_invalid_response");
    expect(text).not.toContain('"finish_reason":"stop"');
  });
});
