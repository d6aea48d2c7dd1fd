/** Vertex AI: the requests are those of Google's and Anthropic's own libraries, and each family answers in its format. */
import { describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import AnthropicVertex from "@anthropic-ai/vertex-sdk";
import { GoogleGenAI } from "@google/genai";
import fc from "fast-check";
import { compiledList } from "../../../src/facts/prices/list.ts";
import type { ChatRequest } from "../../../src/protocols/chat/schema.ts";
import { ApiError } from "../../../src/protocols/errors.ts";
import type { Account, AnsweredCall } from "../../../src/providers/provider.ts";
import { vertex } from "../../../src/providers/vertex/vertex.ts";
import { asked, bodyFor, formatNames, pathOf } from "../../helpers/client-formats.ts";
import { runs } from "../../helpers/long-form.ts";
import { served } from "../../helpers/served.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../../helpers/upstream-server.ts";

type Json = Record<string, unknown>;

const account = (options: Json = {}, baseUrl = vertex.baseUrl): Account => ({
  name: "vertex",
  baseUrl,
  models: [],
  options: { project: "p", location: "global", ...options },
  modelRules: [],
});

function callOf(model: string, request: Json = {}, own = account()): AnsweredCall {
  const messages = [{ role: "user", content: "Hi" }];
  return {
    model,
    request: { model: `vertex/${model}`, messages, ...request } as ChatRequest,
    extras: {},
    account: own,
    media: new Map(),
    answerId: "chatcmpl-1",
  };
}

const geminiAnswer = {
  candidates: [{ content: { role: "model", parts: [{ text: "Hello." }] }, finishReason: "STOP" }],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
  modelVersion: "gemini-3.5-flash",
};
const claudeAnswer = {
  id: "msg_vrtx_1",
  type: "message",
  role: "assistant",
  model: "claude-opus-4-6",
  content: [{ type: "text", text: "Hello." }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 3, output_tokens: 2 },
};
const claudeStream = [
  { type: "message_start", message: { ...claudeAnswer, content: [], stop_reason: null } },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello." } },
  { type: "content_block_stop", index: 0 },
  { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 2 } },
  { type: "message_stop" },
].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
const openAnswer = {
  id: "x",
  object: "chat.completion",
  created: 1,
  model: "meta/llama",
  choices: [{ index: 0, message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
};

/** https://docs.cloud.google.com/gemini-enterprise-agent-platform/reference/rest/v1/projects.locations.endpoints/generateContent */
const answeredFields = [
  ...["contents", "cachedContent", "tools", "toolConfig", "labels", "safetySettings", "modelArmorConfig"],
  ...["generationConfig", "systemInstruction", "continuationToken"],
];
/** https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/count-tokens */
const countedFields = ["instances", "contents", "systemInstruction", "tools", "generationConfig"];
const partFields = [
  ...["text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"],
  ...["thought", "thoughtSignature", "videoMetadata", "mediaResolution"],
];

/** What such a request is refused for, as protobuf's JSON is read. */
function unknownIn(body: Json, fields: readonly string[]): string | undefined {
  if ("embedContentConfig" in body || "content" in body) return undefined;
  const camel = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const stray = (value: unknown, known: readonly string[], at: string) =>
    Object.keys((value ?? {}) as Json)
      .filter((name) => !known.includes(camel(name)))
      .map((name) => `Unknown name "${name}" at '${at}': Cannot find field.`);
  const listed = (value: unknown) => (value === undefined ? [] : Array.isArray(value) ? value : [value]) as Json[];
  const parts = listed(body["contents"]).flatMap(({ parts }) => listed(parts));
  const either = (part: Json, name: string, other: string) => part[name] ?? part[other];
  const found = [
    ...stray(body, fields, "body"),
    ...parts.flatMap((part) => [
      ...stray(part, partFields, "part"),
      ...stray(either(part, "functionCall", "function_call"), ["name", "args"], "function_call"),
      ...stray(
        either(part, "functionResponse", "function_response"),
        ["name", "response", "parts", "scheduling"],
        "function_response",
      ),
    ]),
    ...stray(body["toolConfig"], ["functionCallingConfig", "retrievalConfig"], "tool_config"),
  ];
  return found.length === 0 ? undefined : `Invalid JSON payload received. ${found.join("\n")}`;
}

/** A strict stand-in: it knows the documented paths, and what each must carry. */
function answerOf(path: string, body: Json): Response {
  const found =
    /^\/v1(?:beta1)?(?:\/projects\/p\/locations\/[\w-]+)?\/(publishers\/(google|anthropic)\/models\/([^/:]+):(\w+)|endpoints\/openapi\/chat\/completions)(\?alt=sse)?$/.exec(
      path,
    );
  const refuse = (message: string) => jsonResponse({ error: { code: 400, message, status: "INVALID_ARGUMENT" } }, 400);
  if (found === null) return jsonResponse({ error: { code: 404, message: path, status: "NOT_FOUND" } }, 404);
  const [, , publisher, model, method, query] = found;
  if (publisher === undefined) return "model" in body ? jsonResponse(openAnswer) : refuse("no model");
  if (publisher === "google") {
    const unknown = unknownIn(body, method === "countTokens" ? countedFields : answeredFields);
    if (unknown !== undefined && (method === "countTokens" || method!.endsWith("Content"))) return refuse(unknown);
    if (method === "countTokens") return jsonResponse({ totalTokens: 7 });
    if (method === "generateContent") return jsonResponse(geminiAnswer);
    if (method === "streamGenerateContent" && query !== undefined)
      return sseResponse([`data: ${JSON.stringify(geminiAnswer)}\r\n\r\n`]);
    if (method === "predict")
      return jsonResponse({
        predictions: (body["instances"] as unknown[]).map(() => ({
          embeddings: { values: [1, 0], statistics: { token_count: 2, truncated: false } },
        })),
      });
    if (method === "embedContent")
      return jsonResponse({ embedding: { values: [0, 1] }, usageMetadata: { promptTokenCount: 4 } });
    return refuse(`no method ${method}`);
  }
  if (model === "count-tokens") return "model" in body ? jsonResponse({ input_tokens: 9 }) : refuse("no model");
  if ("model" in body) return refuse("model: Extra inputs are not permitted");
  if (body["anthropic_version"] !== "vertex-2023-10-16") return refuse("anthropic_version");
  if ((body["stream"] === true) !== (method === "streamRawPredict")) return refuse("stream");
  return method === "streamRawPredict" ? sseResponse(claudeStream) : jsonResponse(claudeAnswer);
}

const { troupe, upstream } = await served(
  ({ path, json }) => answerOf(path, json as Json),
  (url) => ({
    providers: {
      vertex: { baseUrl: `${url}/v1`, options: { project: "p", location: "europe-west4", bearer: true } },
      express: { dialect: "vertex", baseUrl: `${url}/v1` },
    },
  }),
);

describe("addresses", () => {
  test.each([
    ["global", "https://aiplatform.googleapis.com/v1"],
    ["us", "https://aiplatform.us.rep.googleapis.com/v1"],
    ["eu", "https://aiplatform.eu.rep.googleapis.com/v1"],
    ["europe-west4", "https://europe-west4-aiplatform.googleapis.com/v1"],
  ])("of %s, as Google's and Anthropic's libraries have them", async (location, root) => {
    const seen: string[] = [];
    const recording = (async (url: unknown) => {
      seen.push(url instanceof Request ? url.url : String(url));
      return jsonResponse(claudeAnswer);
    }) as unknown as typeof fetch;
    const authClient = { projectId: "p", getRequestHeaders: async () => new Headers({ authorization: "Bearer t" }) };
    const sdk = new AnthropicVertex({
      region: location,
      projectId: "p",
      authClient: authClient as never,
      fetch: recording,
    });
    await sdk.messages.create({ model: "claude-opus-4-5@20251101", max_tokens: 5, messages: [] });
    await sdk.messages.countTokens({ model: "claude-opus-4-5@20251101", messages: [] });
    const own = account({ location });
    const call = callOf("claude-opus-4-5@20251101", {}, own);
    expect([vertex.encode(call).url, vertex.counter!(call)!.request.url]).toEqual(seen);
    expect(seen[0]).toStartWith(root);
    expect(vertex.encode(callOf("gemini-3.5-flash", { stream: true }, own)).url).toBe(
      `${root}/projects/p/locations/${location}/publishers/google/models/gemini-3.5-flash:streamGenerateContent?alt=sse`,
    );
    expect(vertex.encode(callOf("meta/llama-4-maas", {}, own)).url).toBe(
      `${root}/projects/p/locations/${location}/endpoints/openapi/chat/completions`,
    );
  });

  test("of an operator's own stay", () => {
    const own = account({ location: "us-east5" }, "https://proxy.example/v1");
    expect(vertex.encode(callOf("gemini-3.5-flash", {}, own)).url).toStartWith("https://proxy.example/v1/projects/p/");
  });

  test("of express mode have no project, and Gemini alone", () => {
    const own = { ...account(), options: {} };
    expect(vertex.encode(callOf("google/gemini-3.5-flash", {}, own)).url).toBe(
      "https://aiplatform.googleapis.com/v1/publishers/google/models/gemini-3.5-flash:generateContent",
    );
    for (const model of ["claude-opus-4-6", "meta/llama-4-maas"])
      expect(() => vertex.encode(callOf(model, {}, own))).toThrow(ApiError);
  });

  test("hold a model's name as one segment", () => {
    for (const model of ["gemini/../../x", "google/a:b", "anthropic/claude?x"])
      expect(() => vertex.encode(callOf(model.startsWith("gemini") ? `google/${model}` : model))).toThrow(ApiError);
  });
});

describe("bodies are those that the official libraries send", () => {
  const text = "Name a colour.";

  test("Gemini", async () => {
    const sdk = new GoogleGenAI({
      vertexai: true,
      project: "p",
      location: "europe-west4",
      httpOptions: { baseUrl: upstream.url, headers: { authorization: "Bearer t" } },
      googleAuthOptions: {
        authClient: { getRequestHeaders: async () => new Headers({ authorization: "Bearer t" }) } as never,
      },
    });
    await sdk.models.generateContent({
      model: "gemini-3.5-flash",
      contents: [{ role: "user", parts: [{ text }] }],
      config: {
        maxOutputTokens: 50,
        topP: 0.5,
        systemInstruction: { parts: [{ text: "Be brief." }] },
        labels: { team: "a" },
      },
    });
    const theirs = upstream.last.json as Json;
    const ours = vertex.encode({
      ...callOf("gemini-3.5-flash", {
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: text },
        ],
        max_tokens: 50,
        top_p: 0.5,
      }),
      extras: { labels: { team: "a" } },
    });
    expect(JSON.parse(ours.body as string)).toEqual(theirs);
  });

  test("Claude", async () => {
    const authClient = { projectId: "p", getRequestHeaders: async () => new Headers({ authorization: "Bearer t" }) };
    const sdk = new AnthropicVertex({
      region: "europe-west4",
      projectId: "p",
      baseURL: `${upstream.url}/v1`,
      authClient: authClient as never,
      maxRetries: 0,
      defaultHeaders: { "anthropic-version": "vertex-2023-10-16" },
    });
    await sdk.messages.create({
      model: "claude-sonnet-4-6",
      max_tokens: 50,
      system: [{ type: "text", text: "Be brief." }],
      messages: [{ role: "user", content: [{ type: "text", text }] }],
    });
    const theirs = upstream.last;
    const ours = vertex.encode(
      callOf("claude-sonnet-4-6", {
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: text },
        ],
        max_tokens: 50,
      }),
    );
    expect(JSON.parse(ours.body as string)).toEqual(theirs.json as Json);
    expect(ours.headers?.["anthropic-version"]).toBe(theirs.headers.get("anthropic-version") ?? undefined);
  });
});

test("models have prices, with and without their publisher", () => {
  const priceOf = (model: string) =>
    compiledList.find("vertex", "https://eu-west4-aiplatform.googleapis.com/v1", model)?.model;
  expect(["gemini-3.5-flash", "google/gemini-3.5-flash"].map(priceOf)).toEqual([
    "gemini-3.5-flash",
    "gemini-3.5-flash",
  ]);
  expect(["claude-opus-4-6", "anthropic/claude-opus-4-6", "claude-opus-4-5@20251101"].map(priceOf)).toEqual([
    "claude-opus-4-6",
    "claude-opus-4-6",
    "claude-opus-4-5",
  ]);
});

describe("through the gateway", () => {
  const body = { messages: [{ role: "user" as const, content: "Hi" }] };

  test.each([
    "gemini-3.5-flash",
    "google/gemini-3.5-flash",
    "claude-opus-4-6",
    "anthropic/claude-opus-4-6",
    "meta/llama-4-maas",
  ])("%s answers, whole and streamed", async (name) => {
    const client = troupe.client("gateway");
    const whole = await client.chat.completions.create({ model: `vertex/${name}`, ...body });
    expect([whole.choices[0]!.message.content, whole.usage?.total_tokens]).toEqual(["Hello.", 5]);
    expect(upstream.last.headers.get("authorization")).toBe("Bearer key-of-vertex");
    if (name.startsWith("meta/")) return;
    let text = "";
    for await (const chunk of await client.chat.completions.create({ model: `vertex/${name}`, stream: true, ...body }))
      text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toBe("Hello.");
  });

  test("a Messages body passes as it came, without the model and with the version", async () => {
    const sent =
      '{"model":"vertex/claude-opus-4-6","max_tokens":5,"messages":[{"role":"user","content":"Hi"}],"top_p":1.0,"unknown":{"a":12345678901234567890}}';
    const headers = { "anthropic-beta": "context-1m-2025-08-07", "anthropic-version": "2023-06-01" };
    const answered = await troupe.post("/gateway/v1/messages", sent, { headers });
    expect(await answered.json()).toEqual(claudeAnswer);
    const { text, path, headers: got } = upstream.last;
    expect(path).toBe("/v1/projects/p/locations/europe-west4/publishers/anthropic/models/claude-opus-4-6:rawPredict");
    expect(text).toContain('"top_p":1.0');
    expect(text).toContain('{"a":12345678901234567890}');
    expect(Object.keys(JSON.parse(text) as Json).sort()).toEqual([
      "anthropic_version",
      "max_tokens",
      "messages",
      "top_p",
      "unknown",
    ]);
    expect([got.get("anthropic-beta"), got.get("anthropic-version")]).toEqual(["context-1m-2025-08-07", null]);
    const streamed = await troupe.post("/gateway/v1/messages", { ...JSON.parse(sent), stream: true });
    expect(await streamed.text()).toBe(claudeStream.join(""));
  });

  test("tokens are counted by each family's own counter", async () => {
    const messages = [{ role: "user", content: "Hi" }];
    const claude = await troupe.post("/gateway/v1/messages/count_tokens", {
      model: "vertex/claude-opus-4-6",
      messages,
    });
    expect(await claude.json()).toEqual({ input_tokens: 9 });
    expect([upstream.last.path, upstream.last.json]).toMatchObject([
      "/v1/projects/p/locations/europe-west4/publishers/anthropic/models/count-tokens:rawPredict",
      { model: "claude-opus-4-6", messages },
    ]);
    const gemini = await troupe.post(
      "/v1beta/models/vertex/gemini-3.5-flash:countTokens".replace("/v1beta", "/gateway/v1beta"),
      {
        contents: [{ role: "user", parts: [{ text: "Hi" }] }],
      },
    );
    expect(await gemini.json()).toMatchObject({ totalTokens: 7 });
  });

  test("a Gemini body passes as it came, with what Vertex alone takes", async () => {
    const sent = {
      contents: [{ role: "user", parts: [{ fileData: { fileUri: "gs://b/x.pdf", mimeType: "application/pdf" } }] }],
      labels: { a: "b" },
    };
    const answered = await troupe.post("/gateway/v1beta/models/vertex/gemini-3.5-flash:generateContent", sent);
    expect((await answered.json()) as object).toEqual(geminiAnswer);
    expect(upstream.last.json).toEqual(sent);
  });

  test("an error is the upstream's own", async () => {
    const response = await troupe.post("/gateway/v1beta/models/express/gemini-3.5-flash:generateContent", {
      contents: [{ role: "user", parts: [{ text: "Hi" }] }],
      nonsense: "x",
    });
    const message = `Invalid JSON payload received. Unknown name "nonsense" at 'body': Cannot find field.`;
    expect([response.status, await response.json()]).toEqual([
      400,
      { error: { code: 400, message, status: "INVALID_ARGUMENT" } },
    ]);
  });

  const given = asked.filter(({ tools }) => tools.length > 0);
  test("no body of any client's format holds what Vertex does not know", async () => {
    await fc.assert(
      fc.asyncProperty(given, fc.constantFrom(...formatNames), async (one, format) => {
        const model = "vertex/gemini-3.5-flash";
        const response = await troupe.post(pathOf("gateway", format, model), bodyFor(format, one, model));
        expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("Hello.")]);
        // Without ids the order of results says which call each of them answers.
        const parts = (upstream.last.json as { contents: { parts: Json[] }[] }).contents.flatMap(({ parts }) => parts);
        const named = (kind: string) => parts.flatMap((part) => (part[kind] as Json | undefined)?.["name"] ?? []);
        expect(named("functionResponse")).toEqual(named("functionCall"));
      }),
      { numRuns: runs(40) },
    );
  });

  const declared = [{ functionDeclarations: [{ name: "f" }] }];
  const call = (id: string, more: Json = {}) => ({ functionCall: { id, name: "f", args: { q: id } }, ...more });
  const result = (id: string, more: Json = {}) => ({
    functionResponse: { id, name: "f", response: { of: id }, ...more },
  });

  test("a Gemini client's body goes without what Vertex does not know, results in the order of their calls", async () => {
    const answered = await troupe.post("/gateway/v1beta/models/vertex/gemini-3.5-flash:generateContent", {
      model: "models/vertex/gemini-3.5-flash",
      contents: [
        { role: "user", parts: { text: "Hi" } },
        { role: "model", parts: [call("b", { thoughtSignature: "c2ln" }), call("a", { partMetadata: { x: 1 } })] },
        { role: "user", parts: [{ text: "So:" }, result("a", { willContinue: false }), result("b")] },
        { role: "model", parts: [{ toolCall: { id: "t", toolType: "GOOGLE_SEARCH" } }, { text: "Done." }] },
        { role: "user", parts: [{ function_response: { id: "a", name: "f", response: { id: 7 } } }] },
      ],
      tools: declared,
      toolConfig: { includeServerSideToolInvocations: true },
      generationConfig: { temperature: 1.0, enableEnhancedCivicAnswers: true },
      store: false,
    });
    expect(answered.status).toBe(200);
    const said = (id: string) => ({ functionResponse: { name: "f", response: { of: id } } });
    expect(upstream.last.json).toEqual({
      contents: [
        { role: "user", parts: { text: "Hi" } },
        {
          role: "model",
          parts: [
            { functionCall: { name: "f", args: { q: "b" } }, thoughtSignature: "c2ln" },
            { functionCall: { name: "f", args: { q: "a" } } },
          ],
        },
        { role: "user", parts: [{ text: "So:" }, said("b"), said("a")] },
        { role: "model", parts: [{ text: "Done." }] },
        { role: "user", parts: [{ function_response: { name: "f", response: { id: 7 } } }] },
      ],
      tools: declared,
      toolConfig: {},
      generationConfig: { temperature: 1 },
    });
  });

  test.each([
    ["chat", { service_tier: "flex" }, "flex"],
    ["chat", { service_tier: "priority" }, "priority"],
    ["chat", { service_tier: "default" }, null],
    ["generate-content", { serviceTier: "FLEX" }, "flex"],
    ["generate-content", { service_tier: "SERVICE_TIER_PRIORITY" }, "priority"],
    ["generate-content", { serviceTier: "standard" }, null],
  ] as const)("a tier of %s, %j, stands in a header", async (format, tier, header) => {
    const model = "vertex/gemini-3.5-flash";
    const said =
      format === "chat"
        ? { model, messages: [{ role: "user", content: "Hi" }] }
        : { contents: [{ parts: [{ text: "Hi" }] }] };
    const response = await troupe.post(pathOf("gateway", format, model), { ...said, ...tier });
    expect([response.status, upstream.last.headers.get("x-vertex-ai-llm-shared-request-type")]).toEqual([200, header]);
    expect(upstream.last.text).not.toMatch(/tier/i);
  });

  test("a Gemini client's prompt is counted in Vertex's own words", async () => {
    const contents = [
      { role: "model", parts: [call("a")] },
      { role: "user", parts: [result("a")] },
    ];
    const counted = await troupe.post("/gateway/v1beta/models/vertex/gemini-3.5-flash:countTokens", {
      generateContentRequest: {
        model: "models/vertex/gemini-3.5-flash",
        contents,
        tools: declared,
        systemInstruction: { parts: [{ text: "Be brief." }] },
        safetySettings: [],
        toolConfig: { functionCallingConfig: { mode: "AUTO" } },
      },
    });
    expect([counted.status, await counted.json()]).toMatchObject([200, { totalTokens: 7 }]);
    expect(Object.keys(upstream.last.json as Json).sort()).toEqual(["contents", "systemInstruction", "tools"]);
    expect(JSON.stringify(upstream.last.json)).not.toContain('"id"');
  });

  test("a key of express mode stands in its header", async () => {
    await troupe.client("gateway").chat.completions.create({ model: "express/gemini-3.5-flash", ...body });
    expect(upstream.last.path).toBe("/v1/publishers/google/models/gemini-3.5-flash:generateContent");
    expect([upstream.last.headers.get("x-goog-api-key"), upstream.last.headers.get("authorization")]).toEqual([
      "key-of-express",
      null,
    ]);
  });

  test("a service account's file gives the tokens that calls carry", async () => {
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    using tokens = new UpstreamServer(() =>
      jsonResponse({ access_token: "ya29.of-the-account", expires_in: 3600, token_type: "Bearer" }),
    );
    using folder = new TempFolder();
    const file = folder.file("account.json");
    await Bun.write(
      file,
      JSON.stringify({
        type: "service_account",
        project_id: "p",
        private_key_id: "1",
        private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
        client_email: "troupe@p.iam.gserviceaccount.com",
        token_uri: `${tokens.url}/token`,
      }),
    );
    await using own = await Troupe.start({
      providers: {
        vertex: {
          baseUrl: `${upstream.url}/v1`,
          apiKey: undefined as never,
          options: { project: "p", location: "global", credentials_file: file },
        },
      },
    });
    for (const name of ["gemini-3.5-flash", "claude-opus-4-6"]) {
      await own.client("gateway").chat.completions.create({ model: `vertex/${name}`, ...body });
      expect(upstream.last.headers.get("authorization")).toBe("Bearer ya29.of-the-account");
    }
    expect(tokens.requests).toHaveLength(1);
  });

  test("embeddings of both generations of models", async () => {
    const client = troupe.client("gateway");
    const first = await client.embeddings.create({
      model: "vertex/gemini-embedding-001",
      input: ["a", "b"],
      dimensions: 2,
    });
    expect([first.data.map(({ embedding }) => embedding), first.usage.total_tokens]).toEqual([
      [
        [1, 0],
        [1, 0],
      ],
      4,
    ]);
    expect(upstream.last.json).toEqual({ instances: [{ content: "b" }], parameters: { outputDimensionality: 2 } });
    const second = await client.embeddings.create({ model: "vertex/gemini-embedding-2", input: "a", dimensions: 2 });
    expect([second.data[0]!.embedding, second.usage.total_tokens]).toEqual([[0, 1], 4]);
    expect(upstream.last.json).toEqual({
      content: { parts: [{ text: "a" }] },
      embedContentConfig: { outputDimensionality: 2 },
    });
  });
});
