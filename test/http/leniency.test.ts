/** What clients ask for beside the formats' words, and what becomes of errors whose body says nothing. */
import { describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { ApiError } from "../../src/protocols/errors.ts";
import { formatNames, pathOf } from "../helpers/client-formats.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

let answer: () => Response;
const upstream = untilEnd(new UpstreamServer(() => answer()));
const baseUrl = upstream.url;
const troupe = untilEnd(
  await Troupe.start({
    providers: { groq: { baseUrl }, openai: { baseUrl }, anthropic: { baseUrl }, google: { baseUrl } },
  }),
);

test.each(["/v1/models", "/gateway/v1/models", "/v1beta/models", "/gateway/v1beta/models"])(
  "%s bears queries that it does not know",
  async (path) => {
    const response = await troupe.fetch(`${path}?offset=0&limit=500&sort=newest`);
    expect([response.status, Object.keys((await response.json()) as object)]).toEqual([200, expect.any(Array)]);
  },
);

test.each(["/", "/v1", "/v1/", "/v1beta", "/gateway", "/gateway/", "/gateway/v1"])(
  "HEAD %s says that it is there",
  async (path) => {
    expect((await troupe.fetch(path, { method: "HEAD", key: null })).status).toBe(200);
  },
);

test("no base address is a route, and nothing else is there by HEAD", async () => {
  expect((await troupe.fetch("/gateway/v1")).status).toBe(404);
  expect((await troupe.fetch("/gateway/v2", { method: "HEAD" })).status).toBe(404);
});

test("clients that add /openai/v1 to their address find OpenAI's routes there", async () => {
  answer = () =>
    jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }] });
  const asked = { model: "groq/m", messages: [{ role: "user", content: "hi" }] };
  const got = await troupe.post("/gateway/openai/v1/chat/completions", asked);
  expect(await got.json()).toMatchObject({ choices: [{ message: { content: "hi" } }] });
  expect(upstream.last.path).toBe("/chat/completions");
  const models = await troupe.fetch("/gateway/openai/v1/models");
  expect(await models.json()).toMatchObject({ object: "list" });
  const responses = await troupe.post("/gateway/openai/v1/responses", { model: "groq/m", input: "hi" });
  expect(await responses.json()).toMatchObject({ object: "response", status: "completed" });
  answer = () => jsonResponse({ data: [{ embedding: [1], index: 0 }], usage: { prompt_tokens: 1, total_tokens: 1 } });
  const embedded = await troupe.post("/gateway/openai/v1/embeddings", { model: "openai/e", input: "hi" });
  expect(await embedded.json()).toMatchObject({ data: [{ embedding: [1] }] });
  // Who has no key, and asks for what is not there, is told so as ever.
  expect((await troupe.post("/gateway/openai/v1/chat/completions", asked, { key: null })).status).toBe(401);
  const unknown = await troupe.fetch("/gateway/openai/v1/nothing");
  expect([unknown.status, await unknown.json()]).toEqual([
    404,
    { error: expect.objectContaining({ code: "not_found" }) },
  ]);
  expect((await troupe.post("/gateway/openai/v1/messages", asked)).status).toBe(404);
});

test("no chunk says that it has no fingerprint: some clients take a text there, or nothing", async () => {
  const choice = { index: 0, delta: { role: "assistant", content: "hi" }, finish_reason: "stop" };
  const chunk = JSON.stringify({ choices: [choice], system_fingerprint: null });
  const headers = { "content-type": "text/event-stream" };
  answer = () => new Response(`data: ${chunk}\n\ndata: [DONE]\n\n`, { headers });
  const asked = { model: "groq/m", messages: [{ role: "user", content: "hi" }], stream: true };
  const text = await (await troupe.post("/gateway/v1/chat/completions", asked)).text();
  expect(text).toContain('"content":"hi"');
  expect(text).not.toContain("fingerprint");
});

test("a completion has a fingerprint, null where nobody gave one", async () => {
  const message = { role: "assistant", content: "hi" };
  const whole = { id: "c", choices: [{ index: 0, message, finish_reason: "stop" }] };
  const asked = { model: "groq/m", messages: [{ role: "user", content: "hi" }] };
  const got = async () => (await (await troupe.post("/gateway/v1/chat/completions", asked)).json()) as object;
  answer = () => jsonResponse(whole);
  expect(await got()).toHaveProperty("system_fingerprint", null);
  answer = () => jsonResponse({ ...whole, system_fingerprint: "fp_1" });
  expect(await got()).toHaveProperty("system_fingerprint", "fp_1");
});

test("who is to come back after more than two minutes is told not to wait for it", () => {
  const waiting = (retryAfterSeconds: number) =>
    ApiError.unavailable("upstream_unavailable", "All rest.", { retryAfterSeconds }).headers;
  expect(waiting(120)).toEqual({ "retry-after": "120" });
  expect(waiting(121)).toEqual({ "retry-after": "121", "x-should-retry": "false" });
});

const bodies = {
  chat: { messages: [{ role: "user", content: "hi" }] },
  responses: { input: "hi", store: false },
  messages: { messages: [{ role: "user", content: "hi" }], max_tokens: 9 },
  "generate-content": { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
};
const models = ["groq/m", "openai/gpt-5", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-flash"];
const whole = gzipSync(JSON.stringify({ error: { message: "no" } }));
const unreadable = { empty: new Uint8Array(), damaged: new Uint8Array(40).fill(7), cut: whole.subarray(0, 12) };

describe.each(Object.entries(unreadable))("an error whose compressed body is %s", (_, body) => {
  test.each([429, 401, 400, 500, 529])("keeps its status: %d", async (status) => {
    for (const model of models)
      for (const format of formatNames) {
        answer = () => new Response(body, { status, headers: { "content-encoding": "gzip", "retry-after": "3" } });
        const asked = { ...bodies[format], ...(format !== "generate-content" && { model }) };
        const response = await troupe.post(pathOf("gateway", format, model), asked);
        expect([model, format, response.status, response.headers.get("retry-after")]).toEqual([
          model,
          format,
          status,
          "3",
        ]);
      }
  });
});

test("a 200 whose error has a status is an error of that status, in every format", async () => {
  const error = { error: { message: "filtered", code: "content_filter", status: 400 } };
  for (const model of models.slice(0, 2))
    for (const format of formatNames)
      for (const stream of [false, true]) {
        if (stream && format === "generate-content") continue;
        answer = () => jsonResponse(error);
        const asked = { ...bodies[format], ...(format !== "generate-content" && { model, stream }) };
        const response = await troupe.post(pathOf("gateway", format, model), asked);
        expect([model, format, stream, response.status]).toEqual([model, format, stream, 400]);
      }
});

describe("a vendor's word for a tier is one of OpenAI's", () => {
  const choice = { index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" };
  test.each([
    ["on_demand", "default"],
    ["performance", "priority"],
    ["anything", "default"],
    ["flex", "flex"],
    ["constructor", "default"],
  ])("%s: %s", async (given, told) => {
    for (const [path, body] of [
      ["chat/completions", bodies.chat],
      ["responses", bodies.responses],
    ] as const)
      for (const stream of [false, true]) {
        const whole = { id: "c", choices: [choice], service_tier: given };
        answer = () => jsonResponse(whole);
        const response = await troupe.post(`/gateway/v1/${path}`, { ...body, model: "groq/m", stream });
        const tiers = [...(await response.text()).matchAll(/"service_tier":"(\w+)"/g)].map(([, tier]) => tier);
        expect([path, stream, new Set(tiers)]).toEqual([path, stream, new Set([...tiers.slice(0, -1), told])]);
        expect(tiers).not.toContain(given === told ? "" : given);
      }
  });
});

test.each(models)("an answer of null, as ours was, can be sent back to %s", async (model) => {
  const silent = {
    id: "c",
    choices: [{ index: 0, message: { role: "assistant", content: null }, finish_reason: "length" }],
  };
  answer = () => jsonResponse(silent);
  const first = await troupe.post("/gateway/v1/chat/completions", { ...bodies.chat, model: "groq/m" });
  const { choices } = (await first.json()) as { choices: { message: { content: unknown } }[] };
  expect(choices[0]!.message.content).toBe("");
  for (const content of ["", null]) {
    const messages = [...bodies.chat.messages, { role: "assistant", content, refusal: null }, ...bodies.chat.messages];
    answer = () => jsonResponse({ error: { message: "asked" } }, 418);
    const next = await troupe.post("/gateway/v1/chat/completions", { model, messages });
    expect([content, next.status]).toEqual([content, 418]);
    expect(upstream.last.text).not.toMatch(/"content":null/);
  }
});
