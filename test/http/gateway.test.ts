import { beforeEach, describe, expect, test } from "bun:test";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

const messages = [{ role: "user", content: "hi" }];
let answer: () => Response | Promise<Response>;

const { troupe, upstream } = await served(
  () => answer(),
  (url) => ({
    providers: { openai: { baseUrl: url }, own: { dialect: "openai", baseUrl: `${url}/own/v1` } },
  }),
);
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

describe("what an upstream takes as it came is copied, not written anew", () => {
  const send = async (body: string) => {
    await (await troupe.post("/gateway/v1/chat/completions", body)).text();
    return upstream.last.text;
  };
  const said = String.raw`"messages": [{"content":"caf\u00e9 \/ 1\n \"model\\","role":"user"}]`;
  const spelled = `"seed":9007199254740993, "temperature": 1.0, "top_p":1e0, "x": {"seed":-0, "y":1E400}`;

  test("but for the model's name", async () => {
    const body = (model: string) => `\n{ ${said},\t"model" : "${model}",${spelled} }\r\n`;
    expect(await send(body("openai/gpt"))).toBe(body("gpt"));
  });

  test("the wish for counts stands beside it", async () => {
    const stream = (model: string) => `{"stream":true,"model":${model},${spelled},${said}}`;
    answer = () => sseResponse(["data: [DONE]\n\n"]);
    expect(await send(stream('"openai/gpt"'))).toBe(stream('"gpt","stream_options":{"include_usage":true}'));
    const counted = (model: string) =>
      `{"stream_options":{"include_usage": true},"stream":true,"model":"${model}",${said}}`;
    expect(await send(counted("openai/gpt"))).toBe(counted("gpt"));
  });

  test("a large one too, by its bytes", async () => {
    const body = (model: string) =>
      `\ufeff{"messages":[{"role":"user","content":"${"日本 \\n".repeat(60_000)}"}],"model":"${model}",${spelled}}`;
    expect(await send(body("openai/gpt"))).toBe(body("gpt").slice(1));
  });

  test.each([
    [
      "an image, a call and its result",
      `[{"role":"system","content":[{"type":"text","text":"s"}]},
      {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},{"type":"text","text":"?"}]},
      {"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\\"n\\": 1.0}"}}]},
      {"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r"}]}]`,
    ],
  ])("%s too", async (_, messages) => {
    const body = (model: string) => `{"messages":${messages},"model":"${model}","seed":1.0}`;
    expect(await send(body("openai/gpt"))).toBe(body("gpt"));
  });

  test.each([
    ["the key stands in a tool too", `{"model":"openai/gpt","seed":1.0,"x":{"model":"openai/no"},${said}}`],
    ["the key is escaped", String.raw`{"\u006dodel":"openai/gpt","seed":1.0,"x":{"model":"openai/no"},${said}}`],
    ["the name is escaped", String.raw`{"model":"openai\/gpt","seed":1.0,${said}}`],
    ["a field is not for the upstream", `{"model":"openai/gpt","seed":1.0,"include_thoughts":true,${said}}`],
    ["a field is null", `{"model":"openai/gpt","seed":1.0,"user":null,${said}}`],
    [
      "a message holds what only answers do",
      `{"model":"openai/gpt","seed":1.0,"messages":[{"role":"assistant","content":"a","reasoning_content":"r"}]}`,
    ],
  ])("it is patched, and the rest copied, where %s", async (_, body) => {
    const { user: _u, include_thoughts: _i, ...expected } = JSON.parse(body);
    for (const message of expected.messages) delete message.reasoning_content;
    const text = await send(body);
    expect(JSON.parse(text)).toEqual({ ...expected, model: "gpt" });
    expect(text).toContain('"seed":1.0,');
  });
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
