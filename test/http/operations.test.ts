/** The gateway's routes beside completions, asked by official clients, against upstreams of the true format. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createOpenAI } from "@ai-sdk/openai";
import { OpenAIEmbeddings } from "@langchain/openai";
import { embedMany } from "ai";
import fc from "fast-check";
import type OpenAI from "openai";
import { boundaryOf, MultipartField } from "../../src/lib/streams/multipart.ts";
import { runs } from "../helpers/long-form.ts";
import { Troupe } from "../helpers/troupe.ts";
import { BytesServer, base64Of, googleEmbedder, openAiOperations, vectorOf } from "../helpers/upstreams/operations.ts";

let openai: BytesServer;
let floats: BytesServer;
let encoded: BytesServer;
let google: BytesServer;
/** Answers what `uncounted` is. */
let silent: BytesServer;
let uncounted: object;
let troupe: Troupe;
let client: OpenAI;

beforeAll(async () => {
  openai = new BytesServer(openAiOperations());
  floats = new BytesServer(openAiOperations({ form: "float" }));
  encoded = new BytesServer(openAiOperations({ form: "base64" }));
  google = new BytesServer(googleEmbedder);
  silent = new BytesServer(() => Response.json(uncounted));
  const apiKey = "key-of-openai";
  troupe = await Troupe.start({
    providers: {
      openai: { baseUrl: `${openai.url}/v1` },
      floats: { dialect: "openai", apiKey, baseUrl: `${floats.url}/v1` },
      encoded: { dialect: "openai", apiKey, baseUrl: `${encoded.url}/v1` },
      uncounted: { dialect: "openai", apiKey, baseUrl: `${silent.url}/v1` },
      mistral: { baseUrl: `${openai.url}/v1`, apiKey },
      google: { baseUrl: `${google.url}/v1beta` },
      anthropic: { baseUrl: openai.url },
    },
    countsTokens: true,
  });
  client = troupe.client("gateway");
});
afterAll(async () => {
  await troupe[Symbol.asyncDispose]();
  for (const server of [openai, floats, encoded, google, silent]) server[Symbol.dispose]();
});

const sentJson = (server: BytesServer) => JSON.parse(new TextDecoder().decode(server.last.bytes));
const texts = ["one", "twenty-two", "ä"];

describe("embeddings", () => {
  test.each(["openai/e", "floats/e", "encoded/e", "google/gemini-embedding-001"])(
    "%s: the official client gets the same vectors in either form",
    async (model) => {
      const asked = await client.embeddings.create({ model, input: texts });
      expect(asked.data.map(({ embedding, index }) => [index, [...embedding]])).toEqual(
        texts.map((text, index) => [index, vectorOf(text)]),
      );
      const plain = await client.embeddings.create({ model, input: texts[1]!, encoding_format: "float" });
      expect(plain.data).toEqual([{ object: "embedding", index: 0, embedding: vectorOf(texts[1]!) }]);
    },
  );

  test("the body goes up as it came but for the model's name, and the answer comes back byte for byte", async () => {
    const body = `{ "model":"openai/text-embedding-3-small", "input":["a",  "b"], "dimensions": 3, "encoding_format":"base64", "user":"u","new":1.0 }`;
    const response = await troupe.post("/gateway/v1/embeddings", body);
    expect(new TextDecoder().decode(openai.last.bytes)).toBe(body.replace("openai/", ""));
    const data = ["a", "b"].map((text, index) => ({ object: "embedding", index, embedding: base64Of(vectorOf(text)) }));
    expect(await response.text()).toBe(
      JSON.stringify({
        object: "list",
        data,
        model: "text-embedding-3-small",
        usage: { prompt_tokens: 7, total_tokens: 7 },
      }),
    );
    expect(openai.last.headers.get("authorization")).toBe("Bearer key-of-openai");
    const metrics = await (await troupe.fetch("/metrics")).text();
    expect(metrics).toMatch(
      /gen_ai_client_token_usage_sum\{gen_ai_token_type="input",gen_ai_provider_name="openai",gen_ai_request_model="text-embedding-3-small",gen_ai_operation_name="embeddings"\} 7\b/,
    );
  });

  test("tokens go as they came where the upstream knows them, and are refused where it has others", async () => {
    for (const input of [
      [1, 2],
      [[1, 2], [3]],
    ]) {
      expect((await troupe.post("/gateway/v1/embeddings", { model: "openai/e", input })).status).toBe(200);
      expect(sentJson(openai).input).toEqual(input);
      const refused = await troupe.post("/gateway/v1/embeddings", { model: "google/e", input });
      expect([refused.status, await refused.json()]).toMatchObject([
        400,
        { error: { param: "input", code: "unsupported_parameter", message: expect.stringContaining("google") } },
      ]);
    }
  });

  test("Gemini's are asked for in batches of its limit, in order, with its options", async () => {
    const before = google.requests.length;
    const input = Array.from({ length: 250 }, (_, at) => "x".repeat(at + 1));
    const answer = await client.embeddings.create({
      model: "google/gemini-embedding-001",
      input,
      dimensions: 768,
      ...({ google: { task_type: "RETRIEVAL_QUERY" } } as object),
    });
    expect(answer.data.map(({ embedding }) => embedding[0])).toEqual(input.map((_, at) => at + 1));
    const batches = google.requests
      .slice(before)
      .map(({ bytes }) => JSON.parse(new TextDecoder().decode(bytes)).requests);
    expect(batches.map((batch) => batch.length)).toEqual([100, 100, 50]);
    expect(batches[0][0]).toEqual({
      model: "models/gemini-embedding-001",
      outputDimensionality: 768,
      taskType: "RETRIEVAL_QUERY",
      content: { parts: [{ text: "x" }] },
    });
  });

  test.each<[string, object, unknown, object, string | null]>([
    [
      "counts of its own",
      { prompt_tokens: 7, total_tokens: 7 },
      ["a b c"],
      { prompt_tokens: 7, total_tokens: 7 },
      null,
    ],
    ["no counts", {}, ["a b c", "d"], { prompt_tokens: 4, total_tokens: 4 }, "true"],
    ["null for counts", { usage: null }, "a b c", { prompt_tokens: 3, total_tokens: 3 }, "true"],
    ["tokens, and no counts", {}, [[1, 2], [3]], { prompt_tokens: 3, total_tokens: 3 }, "true"],
    [
      "one count of two",
      { usage: { total_tokens: 5, cost: 1 } },
      "a",
      { prompt_tokens: 5, total_tokens: 5, cost: 1 },
      "true",
    ],
  ])("an answer with %s has counts", async (what, told, input, usage, mark) => {
    const body = { object: "list", data: [{ object: "embedding", index: 0, embedding: [1] }], model: "e" };
    uncounted = { ...body, ...(what === "counts of its own" ? { usage: told } : told) };
    const ask = () => troupe.post("/gateway/v1/embeddings", { model: "uncounted/e", input, encoding_format: "float" });
    // A caller waits 400 ms for the tokenizer: a busy machine may take longer to load its tables, or to come to a count.
    await troupe.server.services.tokenizer.count(["words"], 60_000);
    let answer = await ask();
    for (let calls = 1; calls < 5 && answer.headers.get("x-troupe-estimated") === "length"; calls += 1)
      answer = await ask();
    expect([answer.headers.get("x-troupe-estimated"), await answer.json()]).toEqual([mark, { ...body, usage }]);
  });

  test("Mistral's names of fields are its own", async () => {
    await troupe.post("/gateway/v1/embeddings", {
      model: "mistral/codestral-embed",
      input: "a",
      dimensions: 3,
      user: "u",
    });
    expect(sentJson(openai)).toEqual({ model: "codestral-embed", input: "a", output_dimension: 3 });
  });

  test("the AI SDK and LangChain get them too", async () => {
    const sdk = createOpenAI({ baseURL: troupe.baseUrl("gateway"), apiKey: troupe.key });
    const many = await embedMany({ model: sdk.textEmbeddingModel("google/gemini-embedding-001"), values: texts });
    expect(many.embeddings).toEqual(texts.map(vectorOf));
    const chain = new OpenAIEmbeddings({
      model: "floats/e",
      apiKey: troupe.key,
      configuration: { baseURL: troupe.baseUrl("gateway") },
    });
    expect((await chain.embedDocuments(texts)).map((vector) => [...vector])).toEqual(texts.map(vectorOf));
  });

  test.each([
    [{ model: "openai/e" }, "input", "missing_field"],
    [{ input: "a" }, "model", "missing_field"],
    [{ model: "openai/e", input: [1, "a"] }, "input", "invalid_value"],
    [{ model: "openai/e", input: "a", dimensions: 0 }, "dimensions", "invalid_value"],
    [{ model: "openai/e", input: "a", encoding_format: "hex" }, "encoding_format", "invalid_value"],
    [{ model: "nobody/e", input: "a" }, "model", "unknown_provider"],
    [{ model: "anthropic/claude-x", input: "a" }, "model", "unsupported_parameter"],
    [{ model: "builtin/echo", input: "a" }, "model", "invalid_value"],
  ])("%j is refused, with its place: %s", async (body, param, code) => {
    const response = await troupe.post("/gateway/v1/embeddings", body);
    const { error } = (await response.json()) as { error: { param: string; code: string } };
    expect([response.status, code]).toEqual([400, error.code]);
    expect(error.param).toStartWith(param);
  });

  test("a persona has none", async () => {
    const persona = await troupe.post("/v1/embeddings", { model: "troupe/guide", input: "a" });
    expect([persona.status, await persona.json()]).toMatchObject([400, { error: { param: "model" } }]);
    expect((await troupe.post("/v1/embeddings", { model: "no/such", input: "a" })).status).toBe(404);
  });

  test("a key's globs hold, and a retry under one service-request-id is answered from the store", async () => {
    const key = await troupe.createKey({ name: "e", tier: "pro", models: ["openai/e"] });
    const asked = (model: string) => troupe.post("/gateway/v1/embeddings", { model, input: "a" }, { key });
    expect((await asked("openai/other")).status).toBe(403);
    const before = openai.requests.length;
    const again = () =>
      troupe.post(
        "/gateway/v1/embeddings",
        { model: "openai/e", input: "a" },
        { key, headers: { "service-request-id": "e-1" } },
      );
    const first = await (await again()).text();
    const second = await again();
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    expect(await second.text()).toBe(first);
    expect(openai.requests.length).toBe(before + 1);
  });
});

describe("images, audio, moderations, rerank", () => {
  test("the official client's calls reach the provider that the model names", async () => {
    const image = await client.images.generate({ model: "openai/gpt-image-1", prompt: "a fox" });
    expect(image.data).toEqual([{ b64_json: "aGk=" }]);
    expect(sentJson(openai)).toEqual({ model: "gpt-image-1", prompt: "a fox" });
    const moderation = await client.moderations.create({ model: "openai/omni-moderation-latest", input: "hi" });
    expect([moderation.model, moderation.results[0]!.flagged]).toEqual(["omni-moderation-latest", false]);
    const ranked = await troupe.post("/gateway/v1/rerank", {
      model: "openai/rerank",
      query: "q",
      documents: ["a", "b"],
    });
    expect(await ranked.json()).toEqual({ results: [{ index: 1, relevance_score: 0.9 }] });
  });

  test("a body of some MB goes up as it came", async () => {
    const prompt = "a fox, ".repeat(500_000);
    const body = `{"model": "openai/gpt-image-1", "prompt": "${prompt}", "size" : "auto"}`;
    expect((await troupe.post("/gateway/v1/images/generations", body)).status).toBe(200);
    expect(new TextDecoder().decode(openai.last.bytes) === body.replace("openai/", "")).toBe(true);
    const named = await troupe.post("/gateway/v1/images/generations", body, {
      headers: { "service-request-id": "fox" },
    });
    expect(named.status).toBe(200);
    expect(sentJson(openai).prompt === prompt).toBe(true);
  });

  test("events stream as they come, where they are asked for", async () => {
    const events = ["event: image_generation.partial_image\ndata: {}\n\n", "data: {}\n\n"];
    using server = new BytesServer(
      () => new Response(events.join(""), { headers: { "content-type": "text/event-stream" } }),
    );
    await using own = await Troupe.start({ providers: { openai: { baseUrl: server.url } } });
    const asked = { model: "openai/gpt-image-1", prompt: "x", stream: true, partial_images: 1 };
    const response = await own.post("/gateway/v1/images/generations", asked);
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    expect(await response.text()).toBe(events.join(""));
  });

  test("speech comes as bytes, as they are made, with their content type and nothing else of the provider's", async () => {
    const speech = await client.audio.speech.create({ model: "openai/tts-1", voice: "alloy", input: "la" });
    expect(speech.headers.get("content-type")).toBe("audio/mpeg");
    expect(speech.headers.get("set-cookie")).toBeNull();
    expect(Buffer.from(await speech.arrayBuffer()).equals(Buffer.alloc(700_000, "la"))).toBe(true);
  });

  test.each(["file first", "model first"])("a recording of some MB goes up whole: %s", async (order) => {
    const bytes = Buffer.alloc(5_000_003, "sound");
    const file = new File([bytes], "talk.mp3", { type: "audio/mpeg" });
    const model = "openai/whisper-1";
    const body = order === "file first" ? { file, model } : { model, file };
    const { text } = await client.audio.transcriptions.create(body);
    const hash = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
    expect(text).toBe(`whisper-1 ${bytes.length} ${hash}`);
    expect(openai.last.path).toBe("/v1/audio/transcriptions");
  });

  test("errors of the provider come back byte for byte, and are marked", async () => {
    const response = await troupe.post("/gateway/v1/rerank", { model: "floats/a/b", query: "q" });
    expect([response.status, await response.text()]).toEqual([
      404,
      JSON.stringify({
        error: { message: "The model 'a/b' does not exist", type: "invalid_request_error", param: "model", code: null },
      }),
    ]);
    expect(response.headers.get("x-troupe-error-source")).toBe("upstream");
  });

  const form = (parts: string, headers: Record<string, string> = {}) =>
    troupe.fetch("/gateway/v1/audio/transcriptions", {
      method: "POST",
      headers: { "content-type": "multipart/form-data; boundary=b", ...headers },
      body: parts,
    });
  const part = (name: string, value: string) =>
    `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;

  test.each([
    ["no model", `${part("file", "x")}--b--\r\n`, "missing_field"],
    ["no end", part("file", "x"), "invalid_value"],
    ["a model twice", `${part("model", "openai/a")}${part("model", "openai/b")}--b--\r\n`, "invalid_value"],
    ["no provider", `${part("model", "a")}--b--\r\n`, "unknown_provider"],
    ["a provider without the route", `${part("model", "anthropic/a")}--b--\r\n`, "unsupported_parameter"],
  ])("a form is refused for %s", async (_, body, code) => {
    const response = await form(body);
    expect([response.status, await response.json()]).toMatchObject([400, { error: { code } }]);
  });

  test("a retry of a form can't be told from another call, and says so", async () => {
    const response = await form(`${part("model", "openai/a")}--b--\r\n`, { "service-request-id": "x" });
    expect([response.status, await response.json()]).toMatchObject([400, { error: { param: "service-request-id" } }]);
  });

  test("what the model is behind may be as large as a body, and no larger", async () => {
    await using small = await Troupe.start({
      providers: { openai: { baseUrl: `${openai.url}/v1` } },
      config: { limits: { ...troupe.server.services.live.config.limits, bodyBytes: 100_000 } },
    });
    const ask = (body: string) =>
      small.fetch("/gateway/v1/audio/transcriptions", {
        method: "POST",
        headers: { "content-type": "multipart/form-data; boundary=b" },
        body,
      });
    const file = `--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n${"x".repeat(300_000)}\r\n`;
    expect((await ask(`${file}${part("model", "openai/w")}--b--\r\n`)).status).toBe(413);
    const passed = await ask(`${part("model", "openai/w")}${file}--b--\r\n`);
    expect([passed.status, await passed.text()]).toMatchObject([200, expect.stringContaining("w 300000 ")]);
  });
});

describe("JSON that is not whole", () => {
  const whole: Record<string, object> = {
    embeddings: {
      data: [{ object: "embedding", index: 0, embedding: [0.5, -1e-3] }],
      usage: { prompt_tokens: 1, total_tokens: 1 },
    },
    moderations: { id: "m", results: [{ flagged: false, categories: { "a]": true } }] },
    rerank: { results: [{ index: 1, relevance_score: 0.9, document: { text: 'said: "{\\' } }] },
    "images/generations": { created: 1, data: [{ b64_json: "aGk=" }] },
    "audio/transcriptions": { text: "hé [" },
  };
  const body = (model: string) => ({ model, input: "a", prompt: "a", query: "q", documents: ["a"] });
  let answer: () => Response;
  let upstream: BytesServer;
  let own: Troupe;

  beforeAll(async () => {
    upstream = new BytesServer(() => answer());
    own = await Troupe.start({ providers: { openai: { baseUrl: upstream.url } } });
  });
  afterAll(async () => {
    await own[Symbol.asyncDispose]();
    upstream[Symbol.dispose]();
  });

  /** With its length, or in pieces that tell none. */
  const answered = (text: string, inPieces: boolean, type = "application/json") => {
    const bytes = new TextEncoder().encode(text);
    const half = Math.floor(bytes.length / 2);
    const pieces = new Blob([bytes.subarray(0, half), bytes.subarray(half)]).stream();
    return new Response(inPieces ? pieces : bytes, { headers: { "content-type": type } });
  };

  test.each(Object.keys(whole))("%s: is an error, and nothing that is kept for a retry", async (operation) => {
    const said = JSON.stringify(whole[operation]);
    const cuts = [
      "",
      " ",
      "null",
      "{}",
      "[]",
      "7",
      said.slice(0, 1),
      said.slice(0, -1),
      said.slice(0, said.length / 2),
      `${said}}`,
    ];
    for (const [at, text] of [...cuts, ...(operation.startsWith("audio") ? [] : ["<html></html>"])].entries()) {
      for (const inPieces of [false, true]) {
        answer = () => answered(text, inPieces);
        const ask = (headers: Record<string, string>) =>
          own.post(`/gateway/v1/${operation}`, body("openai/x"), { headers });
        const id = { "service-request-id": `${operation}-${at}-${inPieces}` };
        for (const headers of [{}, id]) {
          const got = await ask(headers as Record<string, string>);
          const { error } = (await got.json()) as { error: { code: string } };
          expect([text, inPieces, got.status, error.code]).toEqual([text, inPieces, 503, "upstream_invalid_response"]);
        }
        answer = () => answered(said, inPieces);
        const again = await ask(id);
        expect([again.status, again.headers.get("idempotent-replayed"), await again.text()]).toEqual([200, null, said]);
      }
    }
  });

  test("a text or sound of no length stays one", async () => {
    answer = () => answered("", false, "text/plain");
    expect((await own.post("/gateway/v1/audio/transcriptions", body("openai/x"))).status).toBe(200);
    answer = () => answered("ID3", true, "audio/mpeg");
    expect(await (await own.post("/gateway/v1/audio/speech", body("openai/x"))).text()).toBe("ID3");
  });

  test("what is too long to be held streams, and its connection breaks where it ends before its end", async () => {
    const said = JSON.stringify({ data: [{ b64_json: 'a]\\"}'.repeat(200_000), size: [1, 2] }] });
    const headers = { authorization: `Bearer ${own.key}`, "content-type": "application/json" };
    const call = { method: "POST", headers, body: JSON.stringify(body("openai/x")) };
    const ask = () => fetch(`${own.url}/gateway/v1/images/generations`, call);
    for (const inPieces of [true, false]) {
      answer = () => answered(said, inPieces);
      expect((await (await ask()).text()) === said).toBe(true);
      answer = () => answered(said.slice(0, -2), inPieces);
      const got = await ask();
      expect(got.status).toBe(200);
      await expect(got.text()).rejects.toThrow();
    }
  });
});

test("a form passes through as it is but for one field, whatever its pieces", () => {
  const word = fc.stringMatching(/^[a-z]{1,8}$/);
  const content = fc.oneof(fc.string(), fc.constantFrom("", "--b", "\r\n--", "\r\n--bo", "-", "\r"));
  const parts = fc.array(fc.tuple(word, content), { maxLength: 5 });
  fc.assert(
    fc.property(
      parts,
      parts,
      content,
      fc.integer({ min: 1, max: 40 }),
      fc.constantFrom("", "pre\r\n"),
      (before, after, old, size, preamble) => {
        const written = (list: (readonly [string, string])[]) =>
          list
            .map(
              ([name, value]) =>
                `--bound\r\nContent-Disposition: form-data; name="${name}"; filename="model"\r\n\r\n${value}\r\n`,
            )
            .join("");
        const form = (model: string) =>
          Buffer.from(
            `${preamble}${written(before.filter(([name]) => name !== "model"))}--bound\r\nx: y\r\ncontent-disposition: form-data; name=model\r\n\r\n${model}\r\n${written(after.filter(([name]) => name !== "model"))}--bound--\r\n`,
          );
        const seen: string[] = [];
        const field = new MultipartField("bound", "model", (value) => {
          seen.push(value);
          return "new name";
        });
        const whole = form(old);
        const out: Buffer[] = [];
        for (let at = 0; at < whole.length; at += size) out.push(...field.push(whole.subarray(at, at + size)));
        out.push(...field.end());
        expect(seen).toEqual([old]);
        expect(Buffer.concat(out).toString()).toBe(form("new name").toString());
        expect(field.growth).toBe(8 - Buffer.byteLength(old));
      },
    ),
    { numRuns: runs(300) },
  );
});

test("the boundary of a form is what its content type says", () => {
  expect(boundaryOf('multipart/form-data; charset=x; boundary="a b"')).toBe("a b");
  expect(boundaryOf("multipart/form-data; boundary=----x")).toBe("----x");
  expect(boundaryOf("application/json")).toBeUndefined();
});
