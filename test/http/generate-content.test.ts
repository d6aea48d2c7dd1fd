/** The `@google/genai` package as its users use it, unmodified, against models of other families, on both surfaces. */
import { beforeEach, describe, expect, test } from "bun:test";
import { ApiError, type FunctionDeclaration, GoogleGenAI, Type } from "@google/genai";
import type { SurfaceName } from "../../src/config/config.ts";
import { callPiece, chunk, completionOf, endingOf, streamed } from "../helpers/chat-upstream.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { observe } from "../helpers/observed-troupe.ts";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
let answer: () => Response | Promise<Response>;
const clock = new ManualClock();

const { troupe, upstream } = await served(
  () => answer(),
  (url) => ({
    providers: { openai: { baseUrl: url }, anthropic: { baseUrl: url, apiKey: "sk-ant-test" } },
    clock,
  }),
);
troupe.setTargets(persona, ["openai/x"]);
beforeEach(() => {
  answer = () => jsonResponse(completion({ content: "Hello." }));
});

const base = (surface: SurfaceName) => `${troupe.url}${surface === "gateway" ? "/gateway" : ""}`;
const clientOf = (surface: SurfaceName, apiVersion = "v1beta") =>
  new GoogleGenAI({ apiKey: troupe.key, httpOptions: { baseUrl: base(surface), apiVersion } });

const usage = {
  prompt_tokens: 30,
  completion_tokens: 7,
  total_tokens: 37,
  prompt_tokens_details: { cached_tokens: 10 },
  completion_tokens_details: { reasoning_tokens: 3 },
};
const counted = {
  promptTokenCount: 30,
  candidatesTokenCount: 4,
  totalTokenCount: 37,
  cachedContentTokenCount: 10,
  thoughtsTokenCount: 3,
};
const completion = (message: object, finish_reason?: string) => completionOf(message, finish_reason, usage);
const ending = (reason?: string) => endingOf(reason, usage);
const sent = () => upstream.last.json as Record<string, unknown> & { messages: Record<string, unknown>[] };
const weather: FunctionDeclaration = {
  name: "weather",
  description: "Tells it.",
  parameters: { type: Type.OBJECT, properties: { city: { type: Type.STRING, nullable: true } }, required: ["city"] },
};

describe.each([["gateway", "openai/x"] as const, ["orchestrator", persona] as const])("%s", (surface, model) => {
  const ask = { model, contents: "hi" };

  test("generateContent: the whole answer", async () => {
    const made = await clientOf(surface).models.generateContent(ask);
    expect(made.text).toBe("Hello.");
    const { sdkHttpResponse: _, ...body } = made;
    expect(body as object).toEqual({
      candidates: [{ content: { parts: [{ text: "Hello." }], role: "model" }, finishReason: "STOP", index: 0 }],
      usageMetadata: counted,
      modelVersion: model,
      responseId: expect.stringMatching(/^gen_[0-9a-f]{32}$/),
    });
    expect(sent().messages.at(-1)).toEqual({ role: "user", content: "hi" });
  });

  test.each(["generateContent", "streamGenerateContent"])(
    "%s: a refusal's words stand beside its reason",
    async (method) => {
      const said = { content: "Well", refusal: "I can't." };
      answer = () =>
        method === "generateContent" ? jsonResponse(completion(said)) : sseResponse([chunk(said), ...ending()]);
      const path = `${surface === "gateway" ? "/gateway" : ""}/v1beta/models/${model}:${method}`;
      const made = await (await troupe.post(path, { contents: { parts: { text: "hi" } } })).json();
      const last = [made].flat().at(-1) as { candidates: object[] };
      expect(last.candidates[0]).toMatchObject({ finishReason: "SAFETY", finishMessage: "I can't." });
    },
  );

  test("generateContentStream: texts as they come, the counts and the reason in the last answer", async () => {
    answer = streamed(
      chunk({ role: "assistant", content: "" }),
      chunk({ content: "Hel" }),
      chunk({ content: "lo" }),
      ...ending(),
    );
    const seen: object[] = [];
    for await (const { candidates, usageMetadata } of await clientOf(surface).models.generateContentStream(ask)) {
      seen.push({ parts: candidates![0]!.content!.parts, end: candidates![0]!.finishReason, usageMetadata });
    }
    expect(seen).toEqual([
      { parts: [{ text: "Hel" }] },
      { parts: [{ text: "lo" }] },
      { parts: [{ text: "" }], end: "STOP", usageMetadata: counted },
    ] as never);
  });

  test.each([false, true])("a chat runs its tool and keeps its turns (streamed: %p)", async (stream) => {
    let turn = 0;
    const call = { id: "call_0", type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } };
    answer = () => {
      turn += 1;
      if (!stream)
        return jsonResponse(
          turn === 1
            ? completion({ content: null, tool_calls: [call] }, "tool_calls")
            : completion({ content: "Rain." }),
        );
      return turn === 1
        ? sseResponse([
            chunk({ content: "Let me " }),
            chunk({ content: "see." }),
            callPiece(0, "", "weather"),
            callPiece(0, '{"city":'),
            callPiece(0, '"Oslo"}'),
            ...ending("tool_calls"),
          ])
        : sseResponse([chunk({ content: "Ra" }), chunk({ content: "in." }), ...ending()]);
    };
    const chat = clientOf(surface).chats.create({ model, config: { tools: [{ functionDeclarations: [weather] }] } });
    const say = async (message: Parameters<typeof chat.sendMessage>[0]["message"]) => {
      if (!stream) {
        const { functionCalls, text } = await chat.sendMessage({ message });
        return { calls: functionCalls ?? [], text: text ?? "" };
      }
      const found = { calls: [] as object[], text: "" };
      for await (const part of await chat.sendMessageStream({ message })) {
        found.calls.push(...(part.functionCalls ?? []));
        found.text += part.text ?? "";
      }
      return found;
    };
    const first = await say("Weather?");
    expect(first.calls).toEqual([{ id: "call_0", name: "weather", args: { city: "Oslo" } }]);
    const parameters = {
      type: "object",
      properties: { city: { type: ["string", "null"] } },
      required: ["city"],
    };
    expect(sent()["tools"]).toEqual([
      { type: "function", function: { name: "weather", description: "Tells it.", parameters } },
    ]);
    const response = { id: "call_0", name: "weather", response: { output: "Rain in Oslo." } };
    expect(await say([{ functionResponse: response }])).toEqual({ calls: [], text: "Rain." });
    const said = stream ? "Let me see." : null;
    expect(sent().messages.slice(-3)).toEqual([
      { role: "user", content: "Weather?" },
      { role: "assistant", content: said, tool_calls: [call] },
      expect.objectContaining({ role: "tool", tool_call_id: "call_0", content: "Rain in Oslo." }),
    ]);
    expect(chat.getHistory(true).length).toBe(chat.getHistory().length);
  });

  test("errors have the client's class, status and place", async () => {
    const wrong = await clientOf(surface)
      .models.generateContent({ ...ask, config: { temperature: 3 } })
      .catch((error) => error);
    expect(wrong).toBeInstanceOf(ApiError);
    expect(wrong.status).toBe(400);
    const message = "generationConfig.temperature must be a number from 0 to 2.";
    expect(JSON.parse(wrong.message)).toEqual({
      error: {
        code: 400,
        message,
        status: "INVALID_ARGUMENT",
        details: [
          {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            fieldViolations: [{ field: "generationConfig.temperature", description: message }],
          },
        ],
      },
    });
    const key = new GoogleGenAI({ apiKey: "no", httpOptions: { baseUrl: base(surface) } });
    const refused = await key.models.generateContent(ask).catch((error) => error);
    expect([refused.status, JSON.parse(refused.message).error.status]).toEqual([401, "UNAUTHENTICATED"]);
  });

  test("a stream that breaks raises the client's error", async () => {
    const held = new HeldStream();
    answer = () => held.response();
    const before = upstream.requests.length;
    const stream = clientOf(surface).models.generateContentStream(ask);
    await upstream.received(before + 1);
    held.fragment("a");
    const texts: (string | undefined)[] = [];
    const error = await (async () => {
      for await (const { text } of await stream) {
        texts.push(text);
        held.event({ error: { message: "worn out", type: "server_error" } });
        held.close();
      }
    })().catch((one) => one);
    expect(texts).toEqual(["a"]);
    expect(error).toBeInstanceOf(ApiError);
    expect([error.status, error.message]).toEqual([
      surface === "gateway" ? 500 : 503,
      expect.stringContaining(surface === "gateway" ? "worn out" : "The model is not available"),
    ]);
  });

  test("a retry under a service-request-id gives the same bytes, and its ids do the client no harm", async () => {
    answer = streamed(chunk({ content: "Hel" }), chunk({ content: "lo" }), ...ending());
    const headers = { "service-request-id": `gemini-${surface}` };
    const texts: string[] = [];
    const before = upstream.requests.length;
    for (let time = 0; time < 2; time++) {
      const stream = await clientOf(surface).models.generateContentStream({
        ...ask,
        config: { httpOptions: { headers } },
      });
      let text = "";
      for await (const part of stream) text += part.text;
      texts.push(text);
    }
    expect(texts).toEqual(["Hello", "Hello"]);
    const path = `${surface === "gateway" ? "/gateway" : ""}/v1beta/models/${model}:streamGenerateContent?alt=sse`;
    const body = { contents: [{ parts: [{ text: "hi" }], role: "user" }] };
    const post = (more = {}) =>
      troupe.post(path, body, { headers: { "service-request-id": `raw-gemini-${surface}`, ...more } });
    expect(await (await post()).text()).not.toMatch(/^(?!data: |$)/m);
    const asking = { "x-troupe-event-ids": "true" };
    const first = await (await post(asking)).text();
    const again = await post(asking);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    const whole = await again.text();
    expect(whole).toBe(first);
    const events = whole.split(/(?<=\n\n)/);
    expect(events[0]).toStartWith('data: {"candidates":[{"content":{"parts":[{"text":"Hel"}]');
    const id = /^id: (\S+)\n\n$/.exec(events[1]!)![1]!;
    expect(await (await post({ "last-event-id": id })).text()).toBe(events.slice(2).join(""));
    expect(upstream.requests.length).toBe(before + 2);
  });

  test("without alt=sse a stream is one JSON list that grows", async () => {
    const held = new HeldStream();
    answer = () => held.response();
    const path = `${surface === "gateway" ? "/gateway" : ""}/v1beta/models/${model}:streamGenerateContent`;
    const headers = { "service-request-id": `list-${surface}` };
    const before = upstream.requests.length;
    const asked = troupe.post(path, { contents: { parts: { text: "hi" } } }, { headers });
    await upstream.received(before + 1);
    held.fragment("a");
    const response = await asked;
    expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
    clock.advance(15_000);
    for (const text of ["b\n\n", "c", "d", "e"]) held.fragment(text);
    held.finish();
    const text = await response.text();
    const list = JSON.parse(text) as {
      candidates: { content: { parts: { text: string }[] }; finishReason?: string }[];
    }[];
    expect(list.map(({ candidates }) => candidates[0]!.content.parts[0]!.text)).toEqual([
      "a",
      "b\n\n",
      "c",
      "d",
      "e",
      "",
    ]);
    expect(list.map(({ candidates }) => candidates[0]!.finishReason).filter(Boolean)).toEqual(["STOP"]);
    expect(await (await troupe.post(path, { contents: { parts: { text: "hi" } } }, { headers })).text()).toBe(text);
    expect(upstream.requests.length).toBe(before + 1);
  });

  test("countTokens estimates where the provider has no counter", async () => {
    const { totalTokens } = await clientOf(surface).models.countTokens(ask);
    expect(totalTokens).toBeGreaterThan(0);
  });
});

test.each([false, true])(
  "Anthropic's thinking goes through a chat and back to it (its text shown: %p)",
  async (includeThoughts) => {
    const thinking = { type: "thinking", thinking: "Hm.", signature: "sig" };
    const use = { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Oslo" } };
    answer = () =>
      jsonResponse({
        id: "msg_1",
        type: "message",
        role: "assistant",
        model: "claude-sonnet-4-5",
        content: [thinking, use],
        stop_reason: "tool_use",
        stop_sequence: null,
        usage: { input_tokens: 1, output_tokens: 2 },
      });
    const config = {
      thinkingConfig: { thinkingBudget: 2000, includeThoughts },
      tools: [{ functionDeclarations: [weather] }],
    };
    const chat = clientOf("gateway").chats.create({ model: "anthropic/claude-sonnet-4-5", config });
    const { candidates } = await chat.sendMessage({ message: "hi" });
    const called = {
      functionCall: { id: "toolu_1", name: "weather", args: { city: "Oslo" } },
      thoughtSignature: expect.stringMatching(/^dHJwMS5hbnRocm9waWMu/),
    };
    const shown = includeThoughts ? [{ text: "Hm.", thought: true }] : [];
    expect(candidates![0]!.content!.parts).toEqual([...shown, called] as never);
    const response = { id: "toolu_1", name: "weather", response: { output: "Rain." } };
    await chat.sendMessage({ message: { functionResponse: response } });
    const { messages } = sent();
    expect(messages[1]).toEqual({ role: "assistant", content: [thinking, use] });
    expect(messages[2]!["content"]).toMatchObject([{ type: "tool_result", tool_use_id: "toolu_1" }]);
  },
);

test.each([
  ["v1beta", "openai/x"],
  ["v1beta", "models/openai/x"],
  ["v1beta", "openai%2Fx"],
  ["v1", "openai/x"],
  ["v1", "models%2Fopenai%2Fx"],
])("/%s/models/%s: the model stands in the path", async (version, name) => {
  const response = await troupe.post(`/gateway/${version}/models/${name}:generateContent`, {
    contents: [{ parts: [{ text: "hi" }] }],
  });
  expect([response.status, ((await response.json()) as { modelVersion: string }).modelVersion]).toEqual([
    200,
    "openai/x",
  ]);
  expect(sent()["model"]).toBe("x");
});

test("a key is taken from the query, and stands in no answer", async () => {
  const post = (query: string) =>
    troupe.post(
      `/gateway/v1beta/models/nobody/x:generateContent${query}`,
      { contents: [{ parts: [{ text: "hi" }] }] },
      { key: null },
    );
  const unknown = await post(`?key=${troupe.key}`);
  expect(unknown.status).toBe(400);
  expect(await unknown.text()).not.toContain(troupe.key);
  expect((await post("")).status).toBe(401);
  expect((await post("?key=")).status).toBe(401);
});

test("a key in the query is told to nobody, and calls are told apart by this format", async () => {
  let key = "";
  const path = "/gateway/v1beta/models/openai/x";
  const observed = await observe({ providers: { openai: { baseUrl: upstream.url } } }, async (watched) => {
    ({ key } = watched);
    for (const target of [
      `${path}:generateContent?key=${key}`,
      `${path}:streamGenerateContent?alt=sse&key=${key}`,
      `${path}:fly?key=${key}`,
      `/v1beta/nothing?key=${key}`,
      `/v1beta/models?key=${key}`,
    ]) {
      const body = { contents: [{ parts: [{ text: "hi" }] }] };
      const response = await watched.post(target, body, { key: null });
      expect(await response.text()).not.toContain(key);
    }
  });
  const { lines, metrics, telemetry } = observed;
  expect([...lines, metrics, ...telemetry].filter((one) => one.includes(key))).toEqual([]);
  expect(upstream.requests.filter((one) => `${one.path} ${JSON.stringify([...one.headers])}`.includes(key))).toEqual(
    [],
  );
  expect(metrics).toContain("generate-content");
  expect(lines.filter((line) => line.includes('"format":"generate-content"')).length).toBeGreaterThanOrEqual(2);
});

test.each(["?alt=sse", ""])("who leaves a stream ends its call (%p)", async (query) => {
  const held = new HeldStream();
  answer = () => held.response();
  const leaving = new AbortController();
  const before = upstream.requests.length;
  const asked = fetch(`${base("gateway")}/v1beta/models/openai/x:streamGenerateContent${query}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-goog-api-key": troupe.key },
    body: JSON.stringify({ contents: [{ parts: [{ text: "hi" }] }] }),
    signal: leaving.signal,
  });
  await upstream.received(before + 1);
  held.fragment("a");
  const reader = (await asked).body!.getReader();
  await reader.read();
  const { signal } = upstream.last;
  const ended = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  leaving.abort();
  await ended;
  expect(signal.aborted).toBe(true);
});

test("what is not there is told in this format's form", async () => {
  for (const path of ["/v1beta/models/troupe/tutor:fly", "/v1beta/files", "/gateway/v1beta/cachedContents/x"]) {
    const response = await troupe.post(path, { contents: [] });
    expect([path, response.status, await response.json()]).toEqual([
      path,
      404,
      { error: { code: 404, message: expect.any(String), status: "NOT_FOUND" } },
    ]);
  }
  const persona = await troupe.post("/v1beta/models/troupe/nobody:generateContent", {
    contents: [{ parts: [{ text: "hi" }] }],
  });
  expect([persona.status, await persona.json()]).toMatchObject([
    404,
    { error: { status: "NOT_FOUND", message: "The model 'troupe/nobody' does not exist." } },
  ]);
});

test("an upstream's error keeps its status and words, in the client's form", async () => {
  answer = () => jsonResponse({ error: { message: "No such model.", code: "x" } }, 404, { "retry-after": "7" });
  const response = await troupe.post("/gateway/v1beta/models/openai/x:generateContent", {
    contents: [{ parts: [{ text: "hi" }] }],
  });
  expect([response.status, await response.json()]).toEqual([
    404,
    { error: { code: 404, message: "No such model.", status: "NOT_FOUND" } },
  ]);
  expect(response.headers.get("x-troupe-error-source")).toBe("upstream");
  expect(response.headers.get("retry-after")).toBe("7");
});
