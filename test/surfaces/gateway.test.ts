import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const messages = [{ role: "user", content: "hi" }];
let upstream: UpstreamServer;
let troupe: Troupe;
let answer: () => Response | Promise<Response>;

beforeAll(async () => {
  upstream = new UpstreamServer(() => answer());
  troupe = await Troupe.start({
    providers: { openai: { baseUrl: upstream.url }, own: { dialect: "openai", baseUrl: `${upstream.url}/own/v1` } },
  });
});
afterAll(async () => {
  await troupe[Symbol.asyncDispose]();
  upstream[Symbol.dispose]();
});
beforeEach(() => {
  answer = () =>
    jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content: "x" }, finish_reason: "stop" }] });
});

const ask = (body: object) => troupe.post("/gateway/v1/chat/completions", { messages, ...body });

describe("a model's name", () => {
  test.each([
    ["openai/gpt", "/chat/completions", "gpt"],
    ["openai/a/b/c", "/chat/completions", "a/b/c"],
    ["openai/ft:gpt:acme::1", "/chat/completions", "ft:gpt:acme::1"],
    ["own/gpt", "/own/v1/chat/completions", "gpt"],
  ])("%s goes to its provider: the first slash splits", async (model, path, theirs) => {
    const response = await ask({ model });
    expect((await response.json()) as object).toMatchObject({ model });
    expect(upstream.last.path).toBe(path);
    expect(upstream.last.json).toMatchObject({ model: theirs });
  });

  test.each(["openai", "openai/", "/gpt", "OpenAI/gpt", "nowhere/gpt", "__proto__/gpt"])(
    "%s names none",
    async (model) => {
      const before = upstream.requests.length;
      const response = await ask({ model });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { code: "unknown_provider", param: "model" } });
      expect(upstream.requests.length).toBe(before);
    },
  );
});

test("unknown fields travel upstream; options, namespaces and nulls do not", async () => {
  await ask({
    model: "openai/gpt",
    custom: { a: [1] },
    user: null,
    include_thoughts: true,
    google: { thinking_budget: 3 },
    extra_body: { more: 2, system_cache_control: { type: "ephemeral" } },
  });
  expect(upstream.last.json).toEqual({ model: "gpt", messages, custom: { a: [1] }, more: 2 });
});

describe("one request is one call", () => {
  test.each<[string, typeof answer, number]>([
    ["429", () => jsonResponse({ error: { message: "slow" } }, 429), 429],
    ["500", () => jsonResponse({ error: { message: "oops" } }, 500), 500],
    ["503", () => jsonResponse({ error: { message: "busy" } }, 503), 503],
    ["half an answer", () => new Response('{"choices":[', { headers: { "content-type": "application/json" } }), 503],
  ])("whatever fails: %s is neither retried nor taken elsewhere", async (_name, next, status) => {
    answer = next;
    for (const stream of [false, true]) {
      const before = upstream.requests.length;
      expect((await ask({ model: "openai/gpt", stream })).status).toBe(status);
      expect(upstream.requests.length).toBe(before + 1);
    }
  });
});
