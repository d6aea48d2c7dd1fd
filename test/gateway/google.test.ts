/** Gemini, driven by the official client through the gateway to an upstream that is as strict as the real one. */
import { describe, expect, test } from "bun:test";
import OpenAI from "openai";
import type { ChatCompletionMessage, ChatCompletionMessageParam } from "openai/resources/chat/completions";
import { dataIn } from "../helpers/chat-stream.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { served } from "../helpers/served.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";
import { type GeminiBody, geminiExample, googleKey, quotaExceeded, strictGemini } from "../helpers/upstreams/google.ts";

type Json = Record<string, unknown>;

/** What the upstream answers next. */
let next: (body: GeminiBody) => Response;

const { troupe, upstream } = await served(
  strictGemini((body) => next(body)),
  (url) => ({
    surfaces: ["orchestrator", "gateway", "raw"],
    providers: {
      google: { baseUrl: url, apiKey: googleKey },
      gemini: { dialect: "google", baseUrl: url, apiKey: "AIzaSy-wrong" },
    },
  }),
);
const client = troupe.client("gateway");

const answerWith = (example: string) => {
  next = () => geminiExample(example);
};
const body = () => upstream.last.json as GeminiBody;
const user = (content: string): ChatCompletionMessageParam => ({ role: "user", content });
const ask = (messages: ChatCompletionMessageParam[], more: object = {}) =>
  client.chat.completions.create({
    model: "google/gemini-3.8-flash",
    messages,
    ...more,
  } as OpenAI.ChatCompletionCreateParamsNonStreaming);
const stream = (messages: ChatCompletionMessageParam[], more: object = {}) =>
  client.chat.completions.stream({
    model: "google/gemini-3.8-flash",
    messages,
    stream_options: { include_usage: true },
    ...more,
  } as Parameters<OpenAI["chat"]["completions"]["stream"]>[0]);

const weather = {
  type: "function" as const,
  function: { name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};

test("a plain answer", async () => {
  answerWith("plain");
  const completion = await ask([{ role: "system", content: "Be brief." }, user("2+2?")], { temperature: 0.5, n: 1 });
  expect(upstream.last.path).toBe("/v1beta/models/gemini-3.8-flash:generateContent");
  expect(upstream.last.headers.get("authorization")).toBeNull();
  expect(body()).toEqual({
    systemInstruction: { parts: [{ text: "Be brief." }] },
    contents: [{ role: "user", parts: [{ text: "2+2?" }] }],
    generationConfig: { temperature: 0.5 },
  });
  expect(completion).toMatchObject({
    object: "chat.completion",
    model: "google/gemini-3.8-flash",
    choices: [
      { index: 0, finish_reason: "stop", logprobs: null, message: { role: "assistant", content: "4", refusal: null } },
    ],
    usage: {
      prompt_tokens: 15,
      completion_tokens: 73,
      total_tokens: 88,
      completion_tokens_details: { reasoning_tokens: 72 },
    },
  });
});

test("a stream", async () => {
  answerWith("stream");
  const running = stream([user("Count")]);
  const completion = await running.finalChatCompletion();
  expect(upstream.last.path).toBe("/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse");
  expect(completion.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "One, two — drei 🎉." } });
  expect(completion.usage).toMatchObject({ prompt_tokens: 257, completion_tokens: 29, total_tokens: 286 });
});

describe("tools in two turns", () => {
  const question = user("Weather in Bonn and Rome?");
  /** Only what the format's own fields hold, as many clients keep it. */
  const stripped = ({ tool_calls }: ChatCompletionMessage): ChatCompletionMessageParam => ({
    role: "assistant",
    content: null,
    tool_calls: tool_calls!.map((call) =>
      call.type === "function"
        ? { id: call.id, type: "function", function: { name: call.function.name, arguments: call.function.arguments } }
        : call,
    ),
  });
  const forgotten = (message: ChatCompletionMessage): ChatCompletionMessageParam => {
    const plain = stripped(message) as { tool_calls: { id: string }[] } & ChatCompletionMessageParam;
    for (const [at, call] of plain.tool_calls.entries()) call.id = `elsewhere_${at}`;
    return plain;
  };
  const clients: readonly (readonly [
    string,
    (message: ChatCompletionMessage) => ChatCompletionMessageParam,
    string,
  ])[] = [
    ["a client that echoes the message", (message) => message as ChatCompletionMessageParam, "Cg4BsigOne=="],
    ["a client that strips what it does not know", stripped, "Cg4BsigOne=="],
    ["calls that were made elsewhere", forgotten, "skip_thought_signature_validator"],
  ];
  for (const [title, keep, signature] of clients) {
    for (const name of ["tool-calls-one-event", "tool-calls-parallel-stream"]) {
      test(`${title} (${name})`, async () => {
        answerWith(name);
        const first = await stream([question], { tools: [weather], tool_choice: "required" }).finalChatCompletion();
        expect(body()["toolConfig"]).toEqual({ functionCallingConfig: { mode: "ANY" } });
        expect(first.choices[0]!.finish_reason).toBe("tool_calls");
        const message = keep(first.choices[0]!.message) as {
          tool_calls: { id: string }[];
        } & ChatCompletionMessageParam;
        expect(message.tool_calls.length).toBe(2);
        answerWith("tool-results");
        const results = message.tool_calls.toReversed().map(
          ({ id }, at): ChatCompletionMessageParam => ({
            role: "tool",
            tool_call_id: id,
            content: `{"degrees":${at}}`,
          }),
        );
        const second = await ask([question, message, ...results], { tools: [weather] });
        expect(second.choices[0]!.message.content).toBe("21 degrees.");
        const [, step, answers] = body().contents;
        expect(step!.parts.map(({ thoughtSignature }) => thoughtSignature)).toEqual([signature, undefined]);
        expect(answers!.parts.map(({ functionResponse }) => functionResponse!["response"])).toEqual([
          { degrees: 1 },
          { degrees: 0 },
        ]);
        expect(answers!.parts.map(({ functionResponse }) => functionResponse!["id"])).toEqual(
          message.tool_calls.map(({ id }) => id),
        );
      });
    }
  }
});

describe("thinking in two turns", () => {
  const thoughts = "**Adding**\n\nTwo and two.\n";
  test("thoughts come beside the text and in the metadata, and the signature goes back", async () => {
    answerWith("thinking");
    const options = { thinking_budget: 2048, include_thoughts: true };
    const first = (await ask([user("2+2?")], options)) as OpenAI.ChatCompletion & { metadata: Json };
    expect(body().generationConfig!["thinkingConfig"]).toEqual({ thinkingBudget: 2048, includeThoughts: true });
    const message = first.choices[0]!.message as ChatCompletionMessage & { reasoning_content: string };
    expect([message.content, message.reasoning_content]).toEqual(["4", thoughts]);
    expect(first.metadata).toEqual({ thinking: thoughts });
    answerWith("plain");
    await ask([user("2+2?"), message as ChatCompletionMessageParam, user("Sure?")], { google: options });
    expect(body().contents[1]).toEqual({
      role: "model",
      parts: [{ text: "4", thoughtSignature: "CpwCAdHtim9" }],
    });
    expect(JSON.stringify(body())).not.toContain("Adding");
    await ask([user("2+2?"), { role: "assistant", content: message.content }, user("Sure?")], { extra_body: options });
    expect(body().contents[1]).toEqual({ role: "model", parts: [{ text: "4" }] });
    expect(body().generationConfig!["thinkingConfig"]).toEqual({ thinkingBudget: 2048, includeThoughts: true });
  });

  test("in a stream: before the text, and whole at its end", async () => {
    answerWith("thinking-stream");
    const chunks: (OpenAI.ChatCompletionChunk & { metadata?: Json })[] = [];
    for await (const chunk of stream([user("2+2?")], { reasoning_effort: "high", include_thoughts: true }))
      chunks.push(chunk);
    expect(body().generationConfig!["thinkingConfig"]).toEqual({ thinkingLevel: "HIGH", includeThoughts: true });
    const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta as Json));
    expect(deltas).toEqual([
      { role: "assistant", reasoning_content: "**Adding**\n\nTwo " },
      { reasoning_content: "and two.\n\n\n" },
      { content: "4" },
      { extra_content: { google: { thought_signature: "CpwCAdHtim9" } } },
      {},
    ]);
    expect(chunks.flatMap(({ metadata }) => metadata ?? [])).toEqual([
      { thinking: "**Adding**\n\nTwo and two.\n\n\n" },
    ]);
  });

  test("nothing of them without include_thoughts", async () => {
    answerWith("thinking");
    const answer = await ask([user("2+2?")], { thinking_budget: 2048 });
    expect(JSON.stringify(answer)).not.toContain("Adding");
  });

  test("an option of wrong type is refused by its name", async () => {
    const fault = await ask([user("Hi")], { google: { thinking_budget: "much" } }).catch((error) => error);
    expect([fault.status, fault.param]).toEqual([400, "google.thinking_budget"]);
  });
});

test("images: as data, and by a URL that is fetched here", async () => {
  answerWith("plain");
  const png = Uint8Array.from([0x89, 0x50, 0x4e, 0x47]);
  using pictures = new UpstreamServer(({ path }) =>
    path === "/cat.png"
      ? new Response(png, { headers: { "content-type": "image/png" } })
      : new Response("no", { status: 404 }),
  );
  const image = (url: string) => ({ type: "image_url" as const, image_url: { url } });
  const look = (url: string) =>
    ask([
      { role: "user", content: [{ type: "text", text: "?" }, image("data:image/webp;base64,UklGRg=="), image(url)] },
    ]);
  await look(`${pictures.url}/cat.png`);
  expect(body().contents[0]!.parts).toEqual([
    { text: "?" },
    { inlineData: { mimeType: "image/webp", data: "UklGRg==" } },
    { inlineData: { mimeType: "image/png", data: "iVBORw==" } },
  ]);
  const before = upstream.requests.length;
  const fault = await look(`${pictures.url}/dog.png`).catch((error) => error);
  expect([fault.status, fault.param, fault.code]).toEqual([
    400,
    "messages[0].content[2].image_url.url",
    "invalid_value",
  ]);
  expect(fault.message).toContain("answers with status 404");
  expect(upstream.requests.length).toBe(before);
});

test("cached content, and what was read from it", async () => {
  answerWith("cache");
  const answer = await ask([user("And now?")], { cached_content: "cachedContents/xyz" });
  expect(body()["cachedContent"]).toBe("cachedContents/xyz");
  expect(answer.usage!.prompt_tokens_details!.cached_tokens).toBe(4096);
});

test("structured output, for each generation of models in its own form", async () => {
  answerWith("structured-output");
  const response_format = {
    type: "json_schema",
    json_schema: {
      name: "recipe",
      schema: { type: "object", properties: { name: { type: ["string", "null"] } }, additionalProperties: false },
    },
  };
  for (const model of ["google/gemini-3.5-flash", "google/gemini-2.0-flash"]) {
    const answer = await ask([user("A recipe")], { model, response_format });
    expect(JSON.parse(answer.choices[0]!.message.content!)).toEqual({ name: "Soup" });
  }
  expect(body().generationConfig).toEqual({
    responseMimeType: "application/json",
    responseSchema: { type: "object", properties: { name: { type: "string", nullable: true } } },
  });
});

test("what newer models refuse does not reach them", async () => {
  answerWith("plain");
  for (const [model, reasoning_effort] of [
    ["google/gemini-3.8-flash", "minimal"],
    ["google/gemini-3-pro-preview", "medium"],
    ["google/gemini-2.5-pro", "none"],
    ["google/gemini-2.0-flash", "high"],
    ["google/gemma-3-27b-it", "high"],
  ]) {
    const sampling = {
      presence_penalty: model?.includes("2.0") ? 0.5 : 0.1,
      frequency_penalty: 0.2,
      seed: 2 ** 40 + 5,
    };
    const answer = await ask([{ role: "developer", content: "x" }, user("Hi")], {
      model,
      reasoning_effort,
      ...sampling,
    });
    expect(answer.choices[0]!.message.content).toBe("4");
    expect(body().generationConfig!["seed"]).toBe(5);
  }
});

test("a blocked prompt is a refusal", async () => {
  answerWith("blocked-prompt");
  const answer = await ask([user("…")]);
  expect(answer.choices[0]).toMatchObject({
    finish_reason: "content_filter",
    message: { content: null, refusal: "The prompt was blocked: PROHIBITED_CONTENT." },
  });
});

describe("errors", () => {
  const path = "/gateway/v1/chat/completions";
  const request = { model: "google/gemini-3.8-flash", messages: [user("Hi")] };
  const post = (more: object = {}) => troupe.post(path, { ...request, ...more });

  test("come back byte for byte, with their status and headers", async () => {
    next = quotaExceeded;
    const theirs = await quotaExceeded().text();
    for (const more of [{}, { stream: true }]) {
      const response = await post(more);
      expect(response.status).toBe(429);
      expect(response.headers.get("content-type")).toBe("application/json; charset=UTF-8");
      expect(response.headers.get("x-troupe-error-source")).toBe("upstream");
      // The upstream sends no such header: its body says "34.4s".
      expect(response.headers.get("retry-after")).toBe("35");
      expect(await response.text()).toBe(theirs);
    }
  });

  test("of a key and of a model too", async () => {
    const wrongKey = await post({ model: "gemini/gemini-3.8-flash" });
    expect(wrongKey.status).toBe(400);
    expect(((await wrongKey.json()) as { error: Json }).error).toMatchObject({ code: 400, status: "INVALID_ARGUMENT" });
    const unknown = await post({ model: "google/gemini-0" });
    expect(unknown.status).toBe(404);
    expect(await unknown.text()).toContain("models/gemini-0 is not found for API version v1beta");
  });

  const inside: readonly (readonly [string, number, object])[] = [
    ["error-in-answer", 500, {}],
    ["error-in-stream-without-code", 429, { stream: true }],
    ["error-in-list", 429, { stream: true }],
  ];
  for (const [name, status, more] of inside) {
    test(`a 200 that holds one is one (${name})`, async () => {
      answerWith(name);
      const theirs = await geminiExample(name).text();
      const response = await post(more);
      expect(response.status).toBe(status);
      expect(response.headers.get("retry-after")).toBe(name === "error-in-list" ? "35" : null);
      const payload = theirs.startsWith("data: ") ? theirs.slice("data: ".length).trimEnd() : theirs;
      expect(await response.text()).toBe(payload);
    });
  }

  const firstText = { candidates: [{ content: { role: "model", parts: [{ text: "Hel" }] }, index: 0 }] };

  test("after the first text are told in the stream", async () => {
    const overloaded = { error: { code: 503, message: "The model is overloaded.", status: "UNAVAILABLE" } };
    const held = new HeldStream();
    next = () => held.response();
    held.event(firstText);
    const running = stream([user("Hi")]);
    const texts: string[] = [];
    running.on("content", (text) => {
      texts.push(text);
      held.event(overloaded);
      held.close();
    });
    const error = await running.finalChatCompletion().catch((caught) => caught);
    expect(texts).toEqual(["Hel"]);
    expect(error).toBeInstanceOf(OpenAI.APIError);
    expect(error.message).toContain("The model is overloaded.");
  });

  test("that come with the first text take nothing of it away", async () => {
    answerWith("error-in-stream");
    const response = await post({ stream: true });
    expect(response.status).toBe(200);
    const events = dataIn(await response.text());
    // The error stands there twice: without a name, and as an event of one.
    expect(events.length).toBe(4);
    expect(events[0]).toContain('"content":"He"');
    expect(JSON.parse(events[1]!).error.code).toBe(503);
  });

  test("a stream that just stops is one", async () => {
    const held = new HeldStream();
    next = () => held.response();
    held.event(firstText);
    const response = await post({ stream: true });
    held.close();
    const events = dataIn(await response.text());
    expect(events.length).toBe(4);
    expect(events[0]).toContain('"content":"Hel"');
    const fault = JSON.parse(events[1]!);
    expect(fault).not.toHaveProperty("choices");
    expect(fault.error.code).toBe("upstream_invalid_response");
    expect(events[2]).toBe(events[1]!);
    expect(events[3]).toBe("[DONE]");
  });
});
