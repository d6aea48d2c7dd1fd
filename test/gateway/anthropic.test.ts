/** Claude, driven by the official OpenAI client through the gateway to an upstream that refuses what the real one refuses. */
import { beforeEach, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions";
import { answeredCase } from "../helpers/fixtures.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { served } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { sseResponse } from "../helpers/upstream-server.ts";
import {
  anthropicExample,
  anthropicKey,
  anthropicUpstream,
  errorResponse,
  type MessagesBody,
  requestId,
} from "../helpers/upstreams/anthropic.ts";

type Body = Record<string, unknown>;

const now = { type: "function" as const, function: { name: "now", parameters: { type: "object", properties: {} } } };
const user: ChatCompletionMessageParam = { role: "user", content: "Hi" };
const sonnet = "anthropic/claude-sonnet-4-5";
const opus = "anthropic/claude-opus-4-8";

/** What the upstream answers next. */
let next: (body: MessagesBody) => Response;

const { troupe, upstream } = await served(
  anthropicUpstream((body) => next(body)),
  (url) => ({ providers: { anthropic: { baseUrl: url, apiKey: anthropicKey } } }),
);
const client = troupe.client("gateway");
beforeEach(() => {
  answerWith("text");
});

function answerWith(example: string): void {
  next = () => anthropicExample(example);
}

const sent = () => upstream.last.json as MessagesBody;
const kinds = (at: number) => sent().messages[at]!.content.map(({ type }) => type);

function ask(messages: ChatCompletionMessageParam[], more: object = {}) {
  const body = { model: sonnet, messages, ...more };
  return client.chat.completions.create(body as OpenAI.ChatCompletionCreateParamsNonStreaming);
}

async function askStreaming(messages: ChatCompletionMessageParam[], more: object = {}) {
  const body = { model: sonnet, messages, stream: true, stream_options: { include_usage: true }, ...more };
  return Array.fromAsync(await client.chat.completions.create(body as OpenAI.ChatCompletionCreateParamsStreaming));
}

const post = (more: object) =>
  troupe.post("/gateway/v1/chat/completions", { model: sonnet, messages: [user], ...more });

describe("answers", () => {
  test("a plain one", async () => {
    const completion = await ask([{ role: "system", content: "Be brief." }, user]);
    expect([upstream.last.path, upstream.last.headers.get("x-api-key")]).toEqual(["/v1/messages", anthropicKey]);
    expect(sent().system).toEqual([{ type: "text", text: "Be brief." }]);
    expect(completion).toMatchObject({
      object: "chat.completion",
      model: sonnet,
      service_tier: "default",
      choices: [{ index: 0, message: { role: "assistant", content: "Hello!", refusal: null }, finish_reason: "stop" }],
      usage: { prompt_tokens: 12, completion_tokens: 6, total_tokens: 18 },
    });
  });

  test("the waiting time that a good answer names is not passed on", async () => {
    const response = await post({});
    expect([response.status, response.headers.get("retry-after")]).toEqual([200, null]);
  });

  test("a streamed one, with role and first words together and the counts last", async () => {
    answerWith("text-stream");
    const chunks = await askStreaming([user]);
    expect(chunks.map(({ choices }) => choices[0]?.delta)).toEqual([
      { role: "assistant", content: "Hello" },
      { content: "!" },
      {},
      undefined,
    ]);
    expect(chunks.at(-2)!.choices[0]!.finish_reason).toBe("stop");
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 25, completion_tokens: 15 } });
    expect(new Set(chunks.map(({ id, created, model }) => `${id} ${created} ${model}`)).size).toBe(1);
  });

  test("images go by address and as data", async () => {
    const url = "data:image/png;base64,iVBORw0KGgo=";
    const images = ["https://example.com/a.png", url].map((url) => ({
      type: "image_url" as const,
      image_url: { url },
    }));
    await ask([{ role: "user", content: images }]);
    expect(sent().messages[0]!.content.map(({ source }) => source)).toEqual([
      { type: "url", url: "https://example.com/a.png" },
      { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" },
    ]);
  });

  test("structured ones, on a model that has them and on one that answers through a tool", async () => {
    const schema = { type: "object", properties: { name: { type: "string", minLength: 1 } }, required: ["name"] };
    const response_format = { type: "json_schema", json_schema: { name: "person", schema } };
    answerWith("json-schema");
    expect((await ask([user], { response_format })).choices[0]!.message.content).toBe('{"name":"Ada"}');
    for (const stream of [false, true]) {
      answerWith(stream ? "json-schema-by-tool-stream" : "json-schema-by-tool");
      const more = { response_format, model: "anthropic/claude-3-5-haiku-20241022" };
      const choices = stream
        ? (await askStreaming([user], more)).flatMap(({ choices }) => choices)
        : (await ask([user], more)).choices;
      const texts = choices.map((choice) => ("delta" in choice ? choice.delta : choice.message).content ?? "");
      expect([texts.join(""), choices.at(-1)!.finish_reason]).toEqual(['{"name":"Ada"}', "stop"]);
    }
  });
});

describe("the prompt cache", () => {
  const messages: ChatCompletionMessageParam[] = [{ role: "system", content: "Long." }, user];
  const system_cache_control = { type: "ephemeral" };

  for (const [place, options] of [
    ["at the top level", { system_cache_control }],
    ["in extra_body", { extra_body: { system_cache_control } }],
    ["under the namespace", { anthropic: { system_cache_control } }],
  ] as const) {
    test(`is asked for ${place}`, async () => {
      answerWith("cache-system");
      const { usage } = await ask(messages, options);
      expect(sent().system).toEqual([{ type: "text", text: "Long.", cache_control: { type: "ephemeral" } }]);
      expect(usage).toMatchObject({
        prompt_tokens: 1532,
        completion_tokens: 33,
        prompt_tokens_details: { cached_tokens: 1111, cache_write_tokens: 418 },
      });
    });
  }

  test("and not where nobody asks", async () => {
    await ask(messages);
    expect(upstream.last.text).not.toContain("cache_control");
  });

  test("takes only what the upstream knows", async () => {
    const before = upstream.requests.length;
    const response = await post({ system_cache_control: { type: "eternal" } });
    expect([response.status, ((await response.json()) as { error: Body }).error["param"]]).toEqual([
      400,
      "system_cache_control.type",
    ]);
    expect(upstream.requests.length).toBe(before);
  });
});

/** What a client sends back of an answer. */
const clients = [
  ["echoes the message", (message: Body) => message],
  ["keeps the standard fields only", ({ role, content, tool_calls }: Body) => ({ role, content, tool_calls })],
] as const;

function results(message: OpenAI.ChatCompletionMessage): ChatCompletionMessageParam[] {
  return message.tool_calls!.map(({ id }) => ({ role: "tool", tool_call_id: id, content: `for ${id}` }));
}

for (const [habit, keep] of clients) {
  const back = (message: object) => keep(message as Body) as unknown as ChatCompletionMessageParam;

  describe(`a client that ${habit}`, () => {
    test("brings the results of its calls", async () => {
      answerWith("tools-stream");
      const first = await client.chat.completions
        .stream({ model: sonnet, messages: [user], tools: [now] })
        .finalChatCompletion();
      const { message, finish_reason } = first.choices[0]!;
      expect(finish_reason).toBe("tool_calls");
      expect(message.tool_calls!.map((call) => call.type === "function" && call.function.arguments)).toEqual([
        '{"location": "San Francisco, CA"}',
        "{}",
        '{"location": "Oakland, CA"}',
      ]);
      answerWith("tool-results");
      const second = await ask([user, back(message), ...results(message)], { tools: [now] });
      expect(second.choices[0]!.message.content).toBe("65F at noon.");
      expect([kinds(1), kinds(2)]).toEqual([
        ["text", "tool_use", "tool_use", "tool_use"],
        ["tool_result", "tool_result", "tool_result"],
      ]);
    });

    for (const stream of [false, true]) {
      test(`goes on thinking after a${stream ? " streamed" : ""} tool turn`, async () => {
        answerWith(stream ? "thinking-between-calls-stream" : "thinking-between-calls");
        const model = stream ? "anthropic/claude-opus-5" : "anthropic/claude-opus-5-5";
        const request = { model, messages: [user], tools: [now], reasoning_effort: "high" as const };
        const first = stream
          ? await client.chat.completions.stream(request).finalChatCompletion()
          : await client.chat.completions.create(request);
        const { message } = first.choices[0]!;
        expect((first as unknown as { metadata: Body }).metadata).toEqual({ thinking: "A" });
        expect(sent()).toMatchObject({
          thinking: { type: "adaptive", display: "summarized" },
          output_config: { effort: "high" },
        });
        answerWith("text");
        await client.chat.completions.create({ ...request, messages: [user, back(message), ...results(message)] });
        expect(sent().messages[1]!.content.map(({ type, signature }) => [type, signature])).toEqual([
          ["thinking", "sa"],
          ["text", undefined],
          ["tool_use", undefined],
          ["thinking", "sb"],
          ["tool_use", undefined],
        ]);
      });
    }

    test("keeps a budget for thinking in the turn after", async () => {
      next = () =>
        Response.json({
          content: [
            { type: "thinking", thinking: "Hm.", signature: "s" },
            { type: "tool_use", id: `toolu_${habit.length}`, name: "now", input: {} },
          ],
          stop_reason: "tool_use",
          usage: { input_tokens: 1, output_tokens: 1 },
        });
      const more = { tools: [now], reasoning_effort: "low" };
      const { message } = (await ask([user], more)).choices[0]!;
      answerWith("text");
      await ask([user, back(message), ...results(message)], more);
      expect([kinds(1), sent().thinking]).toEqual([["thinking", "tool_use"], { type: "enabled", budget_tokens: 2048 }]);
    });
  });
}

test("a tool turn of another gateway's, whose thoughts are nowhere, goes on without thinking", async () => {
  const call = { id: "call|elsewhere", type: "function" as const, function: { name: "now", arguments: "{}" } };
  const messages: ChatCompletionMessageParam[] = [
    user,
    { role: "assistant", tool_calls: [call] },
    { role: "tool", tool_call_id: call.id, content: "noon" },
  ];
  await ask(messages, { tools: [now], thinking_budget: 4000, include_thoughts: true });
  expect([sent().thinking, kinds(1)]).toEqual([undefined, ["tool_use"]]);
});

describe("thinking", () => {
  test("is in the message and in the metadata", async () => {
    answerWith("thinking-effort");
    const completion = (await ask([user], { reasoning_effort: "low" })) as unknown as {
      metadata: Body;
      choices: { message: Body }[];
      usage: Body;
    };
    const thought = "Let me see. 27 * 453 = 12231.";
    expect(completion.metadata).toEqual({ thinking: thought });
    expect(completion.choices[0]!.message).toMatchObject({ content: "12231", reasoning_content: thought });
    expect(completion.usage).toMatchObject({ completion_tokens_details: { reasoning_tokens: 40 } });
  });

  test("is streamed before the words, and whole on the last chunk", async () => {
    answerWith("thinking-stream");
    const chunks = await askStreaming([user], { model: opus, thinking: { type: "adaptive" } });
    const keys = chunks.flatMap(({ choices }) => choices.flatMap(({ delta }) => Object.keys(delta)));
    expect(keys).toEqual(["role", "reasoning_content", "reasoning_content", "content", "thinking_blocks"]);
    const finish = chunks.find(({ choices }) => choices[0]?.finish_reason === "stop") as unknown as { metadata: Body };
    expect(finish.metadata).toEqual({ thinking: "Let me see. 27 * 453 = 12231." });
  });

  test("without text where it is not wanted", async () => {
    answerWith("thinking-effort");
    const completion = (await ask([user], { thinking_budget: 2000, include_thoughts: false })) as unknown as {
      choices: { message: Body }[];
    };
    expect(completion.choices[0]!.message["reasoning_content"]).toBeUndefined();
    expect(completion.choices[0]!.message["thinking_blocks"]).toHaveLength(1);
  });
});

describe("errors", () => {
  test("byte for byte, with status and the headers that matter", async () => {
    const body = `{"type":"error",  "error":{"type":"overloaded_error","message":"\\u00dcberlastet"}}`;
    next = () =>
      new Response(body, {
        status: 529,
        headers: {
          "content-type": "application/json",
          "request-id": requestId,
          "retry-after": "3",
          "x-should-retry": "true",
          "anthropic-organization-id": "secret",
        },
      });
    for (const stream of [false, true]) {
      const response = await post({ stream });
      const names = ["content-type", "request-id", "x-upstream-request-id", "retry-after", "x-should-retry"];
      expect([response.status, await response.text()]).toEqual([529, body]);
      expect(names.map((name) => response.headers.get(name))).toEqual([
        "application/json",
        requestId,
        requestId,
        "3",
        "true",
      ]);
      expect(response.headers.get("x-troupe-error-source")).toBe("upstream");
      expect(response.headers.get("anthropic-organization-id")).toBeNull();
    }
  });

  test("an unknown model is what the upstream says it is", async () => {
    const failed = await ask([user], { model: "anthropic/claude-9" }).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(OpenAI.NotFoundError);
    expect((failed as { error: Body }).error).toEqual({ type: "not_found_error", message: "model: claude-9" });
  });

  test("a wrong key is the upstream's to refuse", async () => {
    await using other = await Troupe.start({ providers: { anthropic: { baseUrl: upstream.url, apiKey: "wrong" } } });
    const response = await other.post("/gateway/v1/chat/completions", { model: sonnet, messages: [user] });
    expect(response.status).toBe(401);
    expect(await response.text()).toBe(await errorResponse(401, "authentication_error", "invalid x-api-key").text());
  });

  test("what the upstream has no room for is ours to refuse, by name", async () => {
    const before = upstream.requests.length;
    for (const [more, param] of [
      [{ n: 2 }, "n"],
      [{ modalities: ["text", "audio"] }, "modalities"],
      [
        {
          messages: [{ role: "user", content: [{ type: "input_audio", input_audio: { data: "AA", format: "wav" } }] }],
        },
        "messages[0].content[0]",
      ],
    ] as const) {
      const response = await post(more);
      const { error } = (await response.json()) as { error: Body };
      expect([response.status, error["param"], error["code"]]).toEqual([400, param, "unsupported_parameter"]);
    }
    expect(upstream.requests.length).toBe(before);
  });

  for (const [name, status] of [
    ["overloaded-error", 529],
    ["rate-limit-error", 429],
    ["not-found-error", 404],
  ] as const) {
    test(`a 200 that holds an ${name} is one, plain or as the first event of a stream`, async () => {
      for (const stream of [false, true]) {
        answerWith(stream ? `error-${name}-stream` : `error-${name}`);
        const response = await post({ stream });
        expect([response.status, response.headers.get("content-type")]).toEqual([status, "application/json"]);
        expect(JSON.parse(await response.text())).toEqual(JSON.parse(answeredCase(`anthropic/error-${name}`).upstream));
      }
    });
  }

  test("one in the middle of a stream ends it, with what the upstream said", async () => {
    const whole = answeredCase("anthropic/error-mid-stream").upstream;
    const held = new HeldStream();
    next = () => held.response();
    const at = whole.indexOf("event: error");
    held.send(whole.slice(0, at));
    const heard: string[] = [];
    const failed = await (async () => {
      const stream = await client.chat.completions.create({ model: sonnet, messages: [user], stream: true });
      for await (const { choices } of stream) {
        heard.push(choices[0]?.delta.content ?? "");
        if (heard.length === 1) held.send(whole.slice(at));
      }
    })().catch((error: unknown) => error);
    expect(heard).toEqual(["Hel"]);
    expect(failed).toBeInstanceOf(OpenAI.APIError);
    expect((failed as InstanceType<typeof OpenAI.APIError>).error).toMatchObject({
      type: "overloaded_error",
      message: "Overloaded",
    });
  });

  test("a stream that ends without an end is a fault", async () => {
    const whole = answeredCase("anthropic/text-stream").upstream;
    next = () => sseResponse([whole.slice(0, whole.indexOf("event: content_block_stop"))]);
    const text = await (await post({ stream: true })).text();
    expect(text).toContain('"content":"Hello"');
    expect(text).toContain('data: {"error":{"message":');
    expect(text).not.toContain('"finish_reason":"stop"');
  });
});
