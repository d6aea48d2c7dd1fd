/** What single upstreams refuse of bodies that others take: each is asked so that it answers. */
import { describe, expect, test } from "bun:test";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import { basePath, simpleAnswer, strictCompatible } from "../helpers/upstreams/compatible.ts";

type Json = Record<string, unknown>;

const user = { role: "user", content: "Hi" };

async function asked(name: string, model: string, body: object): Promise<Json> {
  using upstream = new UpstreamServer(strictCompatible(name, `key-of-${name}`, () => simpleAnswer()));
  await using troupe = await Troupe.start({ providers: { [name]: { baseUrl: upstream.url + basePath(name) } } });
  const answered = await troupe.post("/gateway/v1/chat/completions", {
    model: `${name}/${model}`,
    messages: [user],
    ...body,
  });
  expect([name, answered.status, await answered.text()]).toEqual([name, 200, expect.stringContaining("Hello")]);
  return upstream.last.json as Json;
}

describe("an earlier answer without a word, at Mistral", () => {
  const empty = { role: "assistant", content: "" };
  test.each([
    ["in the midst", [user, empty, user]],
    ["at the end", [user, empty]],
    ["of parts", [user, { ...empty, content: [{ type: "text", text: "" }] }, user]],
  ])("%s is left out", async (_, messages) => {
    const sent = await asked("mistral", "mistral-large-latest", { messages });
    expect(new Set((sent["messages"] as Json[]).map(({ role }) => role))).toEqual(new Set(["user"]));
  });

  test("one with calls alone stays", async () => {
    const call = { id: "abcdefghi", type: "function", function: { name: "f", arguments: "{}" } };
    const messages = [
      user,
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", tool_call_id: "abcdefghi", content: "1" },
    ];
    const sent = await asked("mistral", "mistral-large-latest", { messages });
    expect(sent["messages"]).toHaveLength(3);
  });
});

describe("Kimi", () => {
  const parameters = {
    type: "object",
    properties: {
      pair: { type: "array", items: [{ type: "string" }, { type: "number" }] },
      one: { type: "string", anyOf: [{ enum: ["a"] }, { type: "string", pattern: "b" }] },
    },
    $defs: { x: { type: "object", anyOf: [{ required: ["a"] }], properties: { a: { type: "array", items: [{}] } } } },
  };
  const tools = [{ type: "function", function: { name: "f", parameters } }];

  test("is not made to call, and gets tuples and variants in its own words", async () => {
    const sent = await asked("moonshot", "kimi-k2.6", { tools, tool_choice: "required" });
    expect(sent["tool_choice"]).toBe("auto");
    expect(((sent["tools"] as Json[])[0]!["function"] as Json)["parameters"]).toEqual({
      type: "object",
      properties: {
        pair: { type: "array", prefixItems: [{ type: "string" }, { type: "number" }] },
        one: {
          anyOf: [
            { type: "string", enum: ["a"] },
            { type: "string", pattern: "b" },
          ],
        },
      },
      $defs: {
        x: { anyOf: [{ type: "object", required: ["a"] }], properties: { a: { type: "array", prefixItems: [{}] } } },
      },
    });
  });

  test("gets an answer's schema so too, and keeps what it takes as it came", async () => {
    const json_schema = { name: "n", schema: { type: "object", anyOf: [{ required: ["a"] }] } };
    const choice = { type: "function", function: { name: "g" } };
    const plain = [{ type: "function", function: { name: "g", parameters: { type: "object", properties: {} } } }];
    const sent = await asked("moonshot", "kimi-k2.6", {
      ...{ tools: plain, tool_choice: choice },
      response_format: { type: "json_schema", json_schema },
    });
    expect([sent["tools"], sent["tool_choice"]]).toEqual([plain, choice]);
    expect((sent["response_format"] as { json_schema: Json }).json_schema["schema"]).toEqual({
      anyOf: [{ type: "object", required: ["a"] }],
    });
  });
});

test.each([
  ["mistral", "mistral-large-latest"],
  ["groq", "openai/gpt-oss-120b"],
  ["vllm", "some-model"],
  ["deepseek", "deepseek-v4-pro"],
  ["xai", "grok-4.5"],
])("%s is not told of OpenAI's cache options and moderation", async (name, model) => {
  const fields = { prompt_cache_options: { ttl: "12h" }, moderation: { model: "omni" }, prompt_cache_retention: "24h" };
  const sent = await asked(name, model, fields);
  expect(Object.keys(fields).filter((field) => field in sent)).toEqual([]);
});

test("a server by OpenAI's dialect that has chat completions alone serves Responses' clients, translated", async () => {
  using upstream = new UpstreamServer(({ path }) =>
    path.endsWith("/chat/completions") ? simpleAnswer() : jsonResponse({ error: { message: "Not Found" } }, 404),
  );
  const one = { baseUrl: `${upstream.url}/v1`, dialect: "openai", apiKey: "k" };
  await using troupe = await Troupe.start({
    providers: {
      closed: { ...one, options: { responses_base_url: false } },
      open: one,
      moved: { ...one, options: { responses_base_url: `${upstream.url}/elsewhere/` } },
    },
  });
  const ask = (model: string, more: object = {}) =>
    troupe.post("/gateway/v1/responses", { model, input: "Hi", store: false, ...more });
  const answered = await ask("closed/gpt-6-sol", {
    tools: [{ type: "function", name: "f", parameters: { type: "object" } }],
  });
  expect([answered.status, await answered.text()]).toEqual([200, expect.stringContaining("Hello")]);
  expect(upstream.last.path).toBe("/v1/chat/completions");
  expect((await troupe.post("/gateway/v1/responses/compact", { model: "closed/m", input: "Hi" })).status).toBe(200);
  expect((await ask("open/m")).status).toBe(404);
  await ask("moved/m");
  expect(upstream.last.path).toBe("/elsewhere/responses");
});
