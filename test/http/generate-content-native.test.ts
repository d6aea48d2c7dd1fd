/** Gemini's clients on Google's models: nothing is translated, on either surface. */
import { beforeEach, describe, expect, test } from "bun:test";
import { GoogleGenAI } from "@google/genai";
import type { SurfaceName } from "../../src/config/config.ts";
import type { JsonObject } from "../../src/lib/json/json.ts";
import { seal } from "../../src/protocols/state/seal.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
const model = "gemini-3-flash-preview";
let answer: () => Response | Promise<Response>;

const upstream = untilEnd(new UpstreamServer(() => answer()));
const one = { baseUrl: upstream.url, apiKey: "AIza-test" };
const troupe = untilEnd(
  await Troupe.start({
    surfaces: ["orchestrator", "gateway", "raw"],
    providers: {
      google: one,
      openai: { baseUrl: upstream.url },
      lenient: { baseUrl: upstream.url, dialect: "openai", unsupportedTools: "drop" },
    },
  }),
);
troupe.setTargets(persona, [`google/${model}`]);

const whole = {
  candidates: [
    {
      content: { parts: [{ text: "Hé.", thoughtSignature: "sig" }], role: "model" },
      finishReason: "STOP",
      groundingMetadata: { future: 1.5 },
    },
  ],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
  modelVersion: model,
  responseId: "theirs",
};
beforeEach(() => {
  answer = () => jsonResponse(whole);
});

const pathOf = (surface: SurfaceName, method: string, name = surface === "gateway" ? `google/${model}` : persona) =>
  `${surface === "gateway" ? "/gateway" : ""}/v1beta/models/${name}:${method}`;
const clientOf = (surface: SurfaceName) =>
  new GoogleGenAI({
    apiKey: troupe.key,
    httpOptions: { baseUrl: `${troupe.url}${surface === "gateway" ? "/gateway" : ""}` },
  });
const hi = { contents: [{ role: "user", parts: [{ text: "hi" }] }] };
type Sent = { contents: { role: string; parts: object[] }[]; systemInstruction: { parts: { text: string }[] } };
const sent = () => upstream.last.json as Sent & Record<string, unknown>;

test.each<[string, JsonObject, JsonObject]>([
  [
    "the gateway",
    { contents: hi.contents[0], tools: { googleSearch: {} }, generationConfig: { maxOutputTokens: "9" } },
    {},
  ],
  [
    "the gateway, of another maker",
    { contents: { role: "user", parts: { text: "hi", thoughtSignature: seal("openai", { id: "rs" }) } } },
    { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
  ],
])("one value for a list goes as it came, but for seals: %s", async (_what, body, changed) => {
  expect((await troupe.post(pathOf("gateway", "generateContent"), body)).status).toBe(200);
  expect(upstream.last.json).toEqual({ ...body, ...changed });
});

test("the body goes as it came, and the answer comes byte for byte; the caller's key does not go up", async () => {
  const body = `{"system_instruction" : {"parts":[{"text":"Be brief."}]}, "generationConfig":{"temperature":1.0,"future":12345678901234567890},
    "tools":[{"google_search":{}}],"contents":[{"parts":[{"new_part":{"x":1e2}}]}]}`;
  const raw = `${JSON.stringify(whole)}  `;
  answer = () => new Response(raw, { headers: { "content-type": "application/json" } });
  const response = await troupe.fetch(`${pathOf("gateway", "generateContent")}?key=${troupe.key}&quotaUser=x`, {
    method: "POST",
    key: null,
    body,
    headers: { "content-type": "application/json" },
  });
  expect([response.status, await response.text()]).toEqual([200, raw]);
  expect(upstream.last.text).toBe(body);
  expect(upstream.last.path).toBe(`/v1beta/models/${model}:generateContent`);
  expect(upstream.last.headers.get("x-goog-api-key")).toBe("AIza-test");
  expect(JSON.stringify([...upstream.last.headers])).not.toContain(troupe.key);
});

const part = (text: string, rest: object = {}) =>
  `data: ${JSON.stringify({ candidates: [{ content: { parts: [{ text }], role: "model" }, index: 0, ...rest }], usageMetadata: { totalTokenCount: 9, promptTokenCount: 4, candidatesTokenCount: 5 }, responseId: "theirs" })}`;
const pieces = [
  ...["Hel", "lo ", "wör\n\n", "ld"].map((text) => part(text)),
  part("", { finishReason: "STOP", future: 1.5 }),
];

describe.each(["gateway", "orchestrator"] as const)("%s", (surface) => {
  test.each(["\n\n", "\r\n\r\n"])("each event comes as it came (%j); a replay gives the same", async (end) => {
    const stream = pieces.map((piece) => piece + end);
    answer = () => sseResponse(stream);
    const path = `${pathOf(surface, "streamGenerateContent")}?alt=sse`;
    const plain = await (await troupe.post(path, hi)).text();
    expect(plain.replaceAll("\r\n", "\n")).toBe(stream.join("").replaceAll("\r\n", "\n"));
    expect(upstream.last.path).toBe(`/v1beta/models/${model}:streamGenerateContent?alt=sse`);
    const headers = { "service-request-id": `native-${surface}-${end.length}` };
    const kept = await (await troupe.post(path, hi, { headers })).text();
    expect(kept.replaceAll(/^id: .*\n\n/gm, "")).toBe(stream.join("").replaceAll("\r\n", "\n"));
    const calls = upstream.requests.length;
    expect(await (await troupe.post(path, hi, { headers })).text()).toBe(kept);
    expect(upstream.requests.length).toBe(calls);
    let text = "";
    const asked = { model: surface === "gateway" ? `google/${model}` : persona, contents: "hi" };
    for await (const one of await clientOf(surface).models.generateContentStream(asked)) text += one.text ?? "";
    expect(text).toBe("Hello wör\n\nld");
  });

  test("comments, names and ids of a proxy between do not reach clients that read lines, however they are cut", async () => {
    const named = pieces.map((piece, at) => `: OPENROUTER\n\nid: ${at}\nevent: message\n${piece}\n\n`).join("");
    for (const noted of [named, pieces.map((piece) => `:\n\n${piece}\n\n`).join("")])
      for (const size of [1, 7, 64, named.length]) {
        const all = new TextEncoder().encode(noted);
        const cuts = Array.from({ length: Math.ceil(all.length / size) }, (_, at) =>
          all.slice(at * size, (at + 1) * size),
        );
        answer = () => sseResponse(cuts);
        const got = await troupe.post(`${pathOf(surface, "streamGenerateContent")}?alt=sse`, hi);
        expect(await got.text()).toBe(pieces.map((piece) => `${piece}\n\n`).join(""));
      }
  });

  test("a JSON list holds what came as events, however they were cut, also where it is kept", async () => {
    const stream = pieces.map((piece) => `${piece}\r\n\r\n`).join("");
    const expected = pieces.map((piece) => JSON.parse(piece.slice("data: ".length)));
    for (const size of [1, 7, 64, stream.length]) {
      const bytes = new TextEncoder().encode(stream);
      const cuts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
        bytes.slice(at * size, (at + 1) * size),
      );
      answer = () => sseResponse(cuts);
      const headers = { "service-request-id": `list-${surface}-${size}` };
      for (const more of [{}, headers, headers]) {
        const response = await troupe.post(pathOf(surface, "streamGenerateContent"), hi, { headers: more });
        expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
        const text = await response.text();
        expect(JSON.parse(text)).toEqual(expected);
        expect(text).toContain(pieces[1]!.slice("data: ".length));
      }
    }
  });

  test.each(["?alt=sse", ""])("a stream that breaks tells so in its own form (%p)", async (query) => {
    answer = () => sseResponse([`${pieces[0]}\n\n`]);
    const text = await (await troupe.post(pathOf(surface, "streamGenerateContent") + query, hi)).text();
    const parts =
      query === ""
        ? JSON.parse(text)
        : text
            .split("\n\n")
            .slice(0, -1)
            .map((one) => JSON.parse(one.slice(6)));
    expect(parts).toEqual([
      JSON.parse(pieces[0]!.slice(6)),
      { error: { code: 503, message: expect.any(String), status: "UNAVAILABLE" } },
    ]);
    const own = { error: { code: 429, message: "Quota.", status: "RESOURCE_EXHAUSTED", details: [{ "@type": "x" }] } };
    answer = () => sseResponse([`${pieces[0]}\n\n`, `data: ${JSON.stringify(own)}\n\n`]);
    const told = await (await troupe.post(pathOf(surface, "streamGenerateContent") + query, hi)).text();
    const last = query === "" ? JSON.parse(told).at(-1) : JSON.parse(told.split("\n\n").at(-2)!.slice(6));
    if (surface === "gateway") expect(last).toEqual(own);
    else expect(last).toEqual({ error: { code: 503, message: expect.any(String), status: "UNAVAILABLE" } });
  });
});

test("seals of other makers are taken out, and calls get what Google takes in their place", async () => {
  const foreign = seal("anthropic", { blocks: [] });
  const contents = [
    { role: "user", parts: [{ text: "hi" }] },
    {
      role: "model",
      parts: [
        { text: "Hm.", thought: true, thoughtSignature: foreign },
        { text: "Let me see." },
        { functionCall: { name: "f", args: {} }, thoughtSignature: foreign },
        { functionCall: { name: "g", args: {} }, thoughtSignature: "native" },
        { text: "", thoughtSignature: foreign },
      ],
    },
    { role: "model", parts: [{ text: "", thought_signature: foreign }] },
    {
      role: "user",
      parts: [{ functionResponse: { name: "f", response: {} } }, { functionResponse: { name: "g", response: {} } }],
    },
  ];
  await troupe.post(pathOf("gateway", "generateContent"), { contents });
  expect(sent().contents).toEqual([
    contents[0],
    {
      role: "model",
      parts: [
        { text: "Let me see." },
        { functionCall: { name: "f", args: {} }, thoughtSignature: "skip_thought_signature_validator" },
        { functionCall: { name: "g", args: {} }, thoughtSignature: "native" },
      ],
    },
    contents[3],
  ] as never);
  await troupe.post(pathOf("gateway", "generateContent", "google/gemini-2.5-flash"), { contents });
  expect(sent().contents[1]!.parts[1]).toEqual({ functionCall: { name: "f", args: {} } });
});

test("a persona's text stands before the caller's, which stays as it came", async () => {
  for (const name of ["systemInstruction", "system_instruction"]) {
    const body = {
      [name]: { parts: [{ text: "Mine." }] },
      generation_config: { max_output_tokens: 7, future: 1 },
      ...hi,
    };
    await troupe.post(pathOf("orchestrator", "generateContent"), body);
    const { systemInstruction, contents, ...rest } = sent();
    expect(systemInstruction.parts[0]!.text).toStartWith("You are a tutor");
    expect(systemInstruction.parts.at(-1)).toEqual({ text: "Mine." });
    expect(contents.at(-1)).toEqual(hi.contents[0] as never);
    expect(JSON.stringify(rest)).toContain('"future":1');
    expect(rest).not.toHaveProperty("system_instruction");
  }
});

test("an error of Google's comes byte for byte on the gateway, and tells nothing of it on the orchestrator", async () => {
  const raw =
    '{"error":{"code":400,"message":"Invalid JSON payload received.","status":"INVALID_ARGUMENT","details":[{"@type":"x"}]}}';
  answer = () => new Response(raw, { status: 400, headers: { "content-type": "application/json" } });
  const theirs = await troupe.post(pathOf("gateway", "generateContent"), hi);
  expect([theirs.status, await theirs.text()]).toEqual([400, raw]);
  expect(theirs.headers.get("x-troupe-error-source")).toBe("upstream");
  const ours = await troupe.post(pathOf("orchestrator", "generateContent"), hi);
  expect(ours.status).toBe(400);
  expect(await ours.text()).not.toContain("payload");
});

test("what Google alone has is refused elsewhere by its place, and tools are left out where that is set", async () => {
  const refusals: [object, string][] = [
    [{ tools: [{ googleSearch: {} }], ...hi }, "tools[0].googleSearch"],
    [{ tools: [{ functionDeclarations: [{ name: "f" }] }, { code_execution: {} }], ...hi }, "tools[1].codeExecution"],
    [{ cachedContent: "cachedContents/x", ...hi }, "cachedContent"],
    [
      { contents: [{ parts: [{ fileData: { fileUri: "https://youtu.be/x" } }] }] },
      "contents[0].parts[0].fileData.fileUri",
    ],
    [
      { contents: [{ role: "model", parts: [{ executableCode: { code: "1" } }] }, ...hi.contents] },
      "contents[0].parts[0].executableCode",
    ],
    [{ generationConfig: { responseMimeType: "text/x.enum" }, ...hi }, "generationConfig.responseMimeType"],
  ];
  for (const [body, field] of refusals) {
    const refused = await troupe.post(pathOf("gateway", "generateContent", "openai/x"), body);
    const { error } = (await refused.json()) as { error: { details: { fieldViolations: { field: string }[] }[] } };
    expect([refused.status, error.details[0]!.fieldViolations[0]!.field]).toEqual([400, field]);
    expect((await troupe.post(pathOf("gateway", "generateContent"), body)).status).toBe(200);
  }
  answer = () =>
    jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content: "x" }, finish_reason: "stop" }] });
  const dropped = await troupe.post(pathOf("gateway", "generateContent", "lenient/x"), refusals[0]![0]);
  expect(dropped.status).toBe(200);
});

test("countTokens asks Google: with the caller's own body, and with the persona's text", async () => {
  answer = () => jsonResponse({ totalTokens: 31, promptTokensDetails: [] });
  const ask = (surface: SurfaceName) =>
    clientOf(surface).models.countTokens({
      model: surface === "gateway" ? `google/${model}` : persona,
      contents: "hi",
    });
  expect((await ask("gateway")).totalTokens).toBe(31);
  expect(upstream.last.path).toBe(`/v1beta/models/${model}:countTokens`);
  expect(Object.keys(sent())).toEqual(["contents"]);
  expect((await ask("orchestrator")).totalTokens).toBe(31);
  const { generateContentRequest } = sent() as unknown as { generateContentRequest: Sent & { model: string } };
  expect(generateContentRequest.model).toBe(`models/${model}`);
  expect(generateContentRequest.systemInstruction.parts[0]!.text).toStartWith("You are a tutor");
});

test("large texts go whole, to be answered, counted and embedded", async () => {
  answer = () => jsonResponse({ ...whole, totalTokens: 3, embedding: { values: [1] } });
  const data = "QUJD".repeat(30_000);
  const content = { role: "user", parts: [{ text: "a" }, { inlineData: { mimeType: "image/png", data } }] };
  for (const surface of ["gateway", "orchestrator"] as const) {
    for (const method of ["generateContent", "countTokens"]) {
      await (await troupe.post(pathOf(surface, method), { contents: [content] })).text();
      const { generateContentRequest, ...body } = sent();
      const { contents } = (generateContentRequest as Sent | undefined) ?? (body as unknown as Sent);
      expect(contents.at(-1)).toEqual(content as never);
    }
  }
  await (await troupe.post(pathOf("gateway", "embedContent"), { content: { parts: [{ text: data }] } })).text();
  expect(sent()).toMatchObject({ content: { parts: [{ text: data }] } });
});

describe("embeddings", () => {
  const texts = ["one", "two"];

  test("go to Google as they came, but for the model's name", async () => {
    answer = () => jsonResponse({ embeddings: [{ values: [1, 2] }, { values: [3, 4] }], future: 1.5 });
    const made = await clientOf("gateway").models.embedContent({
      model: "google/gemini-embedding-001",
      contents: texts,
      config: { outputDimensionality: 2, taskType: "RETRIEVAL_QUERY" },
    });
    expect(made.embeddings).toEqual([{ values: [1, 2] }, { values: [3, 4] }]);
    expect(upstream.last.path).toBe("/v1beta/models/gemini-embedding-001:batchEmbedContents");
    const { requests } = sent() as unknown as { requests: { model: string; taskType: string }[] };
    expect(requests.map(({ model, taskType }) => [model, taskType])).toEqual(
      texts.map(() => ["models/gemini-embedding-001", "RETRIEVAL_QUERY"]),
    );
  });

  test("are asked of other providers in OpenAI's form", async () => {
    const embedding = (index: number, values: number[]) => ({ object: "embedding", index, embedding: values });
    answer = () =>
      jsonResponse({
        object: "list",
        data: [embedding(1, [3, 4]), embedding(0, [1, 2])],
        model: "x",
        usage: { prompt_tokens: 2, total_tokens: 2 },
      });
    const config = { outputDimensionality: 2 };
    const made = await clientOf("gateway").models.embedContent({ model: "openai/x", contents: texts, config });
    expect(made.embeddings).toEqual([{ values: [1, 2] }, { values: [3, 4] }]);
    expect(upstream.last.json).toEqual({ model: "x", input: texts, dimensions: 2, encoding_format: "float" });
    answer = () => jsonResponse({ data: [embedding(0, [5])], usage: { prompt_tokens: 1, total_tokens: 1 } });
    const headers = { "service-request-id": "embedding" };
    const post = () =>
      troupe.post(
        pathOf("gateway", "embedContent", "openai/x"),
        { content: { parts: [{ text: "one" }] } },
        { headers },
      );
    const first = await post();
    expect(await first.json()).toEqual({ embedding: { values: [5] }, usageMetadata: { promptTokenCount: 1 } });
    expect((await post()).headers.get("idempotent-replayed")).toBe("true");
  });

  test("errors name the place, the provider's come in this form, and personas have none", async () => {
    const image = { content: { parts: [{ text: "a" }, { inlineData: { mimeType: "image/png", data: "AA" } }] } };
    const wrong = await troupe.post(pathOf("gateway", "embedContent", "openai/x"), image);
    expect([wrong.status, await wrong.text()]).toEqual([400, expect.stringContaining('"field":"content.parts[1]"')]);
    answer = () => jsonResponse({ error: { message: "Too many." } }, 429, { "retry-after": "3" });
    const limited = await troupe.post(pathOf("gateway", "embedContent", "openai/x"), {
      content: { parts: [{ text: "a" }] },
    });
    expect([limited.status, limited.headers.get("retry-after"), await limited.json()]).toEqual([
      429,
      "3",
      { error: { code: 429, message: "Too many.", status: "RESOURCE_EXHAUSTED" } },
    ]);
    const none = await troupe.post(pathOf("orchestrator", "embedContent"), { content: { parts: [{ text: "a" }] } });
    expect([none.status, await none.text()]).toEqual([400, expect.stringContaining("A persona has no embeddings.")]);
  });
});

describe("models", () => {
  test("are listed page by page, and found by their names", async () => {
    const pager = await clientOf("gateway").models.list({ config: { pageSize: 5 } });
    const found: string[] = [];
    for await (const one of pager) found.push(one.name!);
    const { data } = (await (await troupe.fetch("/gateway/v1/models")).json()) as { data: { id: string }[] };
    expect(found).toEqual(data.map(({ id }) => `models/${id}`));
    expect(found.length).toBeGreaterThan(5);
    const got = await clientOf("orchestrator").models.get({ model: persona });
    expect(got.name).toBe(`models/${persona}`);
    const older = new GoogleGenAI({ apiKey: troupe.key, httpOptions: { baseUrl: troupe.url, apiVersion: "v1" } });
    expect((await older.models.get({ model: persona })).name).toBe(`models/${persona}`);
    const wrong = await troupe.fetch("/v1beta/models?pageToken=nothing");
    expect([wrong.status, await wrong.text()]).toEqual([400, expect.stringContaining('"field":"pageToken"')]);
    expect((await troupe.fetch("/v1beta/models/troupe/nobody")).status).toBe(404);
  });
});
