/** Anthropic's clients on Anthropic's models: nothing is translated, on either surface. */
import { beforeEach, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import type { SurfaceName } from "../../src/config/config.ts";
import { seal } from "../../src/protocols/state/seal.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
const model = "claude-sonnet-4-5";
let answer: () => Response | Promise<Response>;

const upstream = untilEnd(new UpstreamServer(() => answer()));
const one = { baseUrl: upstream.url, apiKey: "sk-ant-test" };
const troupe = untilEnd(
  await Troupe.start({
    providers: {
      anthropic: one,
      openai: { baseUrl: upstream.url },
      google: { baseUrl: upstream.url, apiKey: "AIza-test" },
      lenient: { baseUrl: upstream.url, dialect: "openai", unsupportedTools: "drop" },
    },
    countsTokens: true,
  }),
);
troupe.setTargets(persona, [`anthropic/${model}`]);

const message = {
  id: "msg_theirs",
  type: "message",
  role: "assistant",
  model,
  content: [
    { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "x" } },
    { type: "text", text: "Hé." },
  ],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 3, output_tokens: 2, future: { kept: 1.0 } },
};
beforeEach(() => {
  answer = () => jsonResponse(message);
});

const base = (surface: SurfaceName) => `${surface === "gateway" ? "/gateway" : ""}/v1/messages`;
const clientOf = (surface: SurfaceName) =>
  new Anthropic({
    baseURL: `${troupe.url}${surface === "gateway" ? "/gateway" : ""}`,
    apiKey: troupe.key,
    authToken: null,
    maxRetries: 0,
  });

test("the body goes with another model's name and no other change, the headers with it, the answer byte for byte", async () => {
  const text = `{"model" : "anthropic/${model}", "max_tokens":10,"temperature":1.0,"future":{"big":12345678901234567890},
    "tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[{"role":"user","content":[{"type":"new_block","x":1e2}]}]}`;
  const raw = `${JSON.stringify(message)}  `;
  answer = () => new Response(raw, { headers: { "content-type": "application/json" } });
  const response = await troupe.fetch(base("gateway"), {
    method: "POST",
    body: text,
    headers: { "content-type": "application/json", "anthropic-beta": "a-1, b-2", "anthropic-version": "2024-01-01" },
  });
  expect([response.status, await response.text()]).toEqual([200, raw]);
  expect(upstream.last.text).toBe(text.replace(`anthropic/${model}`, model));
  const { headers } = upstream.last;
  expect(headers.get("anthropic-beta")).toBe("a-1,b-2");
  expect(headers.get("anthropic-version")).toBe("2024-01-01");
  expect(headers.get("x-api-key")).toBe("sk-ant-test");
  expect(headers.get("authorization")).toBeNull();
});

const event = (value: { type: string } & Record<string, unknown>, padding = "") =>
  `event: ${value.type}\ndata: ${JSON.stringify(value)}${padding}\n\n`;
const delta = (text: string) => event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
const stream = [
  event({ type: "message_start", message: { ...message, content: [], stop_reason: null } }),
  event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
  event({ type: "ping" }),
  ...["Hel", "lo ", "wör", "ld", "."].map(delta),
  event({ type: "content_block_stop", index: 0 }, "     "),
  event({ type: "future_event", x: 1 }),
  event({
    type: "message_delta",
    delta: { stop_reason: "end_turn", stop_sequence: null },
    usage: { output_tokens: 9 },
  }),
  event({ type: "message_stop" }),
];

test.each(["gateway", "orchestrator"] as const)(
  "%s: each event comes as it came; a replay gives the same",
  async (surface) => {
    answer = () => sseResponse(stream);
    const body = {
      model: surface === "gateway" ? `anthropic/${model}` : persona,
      max_tokens: 9,
      stream: true,
      messages: [{ role: "user", content: "hi" }],
    };
    const plain = await troupe.post(base(surface), body);
    expect(await plain.text()).toBe(stream.join(""));
    const headers = { "service-request-id": `native-${surface}` };
    const kept = await (await troupe.post(base(surface), body, { headers })).text();
    expect(kept.replaceAll(/^id: .*\n/gm, "")).toBe(stream.join(""));
    const calls = upstream.requests.length;
    expect(await (await troupe.post(base(surface), body, { headers })).text()).toBe(kept);
    expect(upstream.requests.length).toBe(calls);
    const read = await clientOf(surface)
      .messages.stream(body as never)
      .finalMessage();
    expect(read.content).toEqual([{ type: "text", text: "Hello wörld." }] as never);
  },
);

test("a persona's text stands before the caller's blocks, which keep their marks", async () => {
  const system = [{ type: "text" as const, text: "Mine.", cache_control: { type: "ephemeral" as const } }];
  await clientOf("orchestrator").messages.create({
    model: persona,
    max_tokens: 10,
    system,
    messages: [{ role: "user", content: "hi" }],
  });
  const sent = upstream.last.json as { system: { text: string }[]; model: string };
  expect(sent.model).toBe(model);
  expect(sent.system).toHaveLength(2);
  expect(sent.system[0]!.text).toStartWith("You are a tutor");
  expect(sent.system[1]).toEqual(system[0]!);
});

test("an error of Anthropic's comes byte for byte on the gateway, and tells nothing of it on the orchestrator", async () => {
  const raw =
    '{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too large","details":null},"request_id":"req_up"}';
  answer = () =>
    new Response(raw, { status: 400, headers: { "content-type": "application/json", "request-id": "req_up" } });
  const ask = { model: `anthropic/${model}`, max_tokens: 9, messages: [{ role: "user" as const, content: "hi" }] };
  const response = await troupe.post(base("gateway"), ask);
  expect([response.status, await response.text()]).toEqual([400, raw]);
  expect(response.headers.get("x-upstream-request-id")).toBe("req_up");
  const error = await clientOf("orchestrator")
    .messages.create({ ...ask, model: persona })
    .catch((one) => one);
  expect(error).toBeInstanceOf(Anthropic.BadRequestError);
  expect(error.error.error).toEqual({
    type: "invalid_request_error",
    message: "The model does not accept this request as it is.",
  });
});

test("seals of other makers are taken out; Anthropic's own pass", async () => {
  const content = [
    { type: "thinking" as const, thinking: "theirs", signature: seal("google", { calls: {} }) },
    { type: "thinking" as const, thinking: "own", signature: "EqQB" },
    { type: "text" as const, text: "ho" },
  ];
  const messages = [
    { role: "user" as const, content: "hi" },
    { role: "assistant" as const, content },
    { role: "user" as const, content: "and?" },
  ];
  await clientOf("gateway").messages.create({ model: `anthropic/${model}`, max_tokens: 9, messages });
  expect((upstream.last.json as { messages: unknown[] }).messages).toEqual([
    messages[0],
    { role: "assistant", content: content.slice(1) },
    messages[2],
  ]);
});

test("citations of other makers are taken out; Anthropic's own pass", async () => {
  const cited = (encrypted_index: string) => ({
    type: "web_search_result_location" as const,
    ...{ cited_text: "", url: "https://a.example", title: "A", encrypted_index },
  });
  const text = (...citations: ReturnType<typeof cited>[]) => ({ type: "text" as const, text: "ho", citations });
  const messages = [
    { role: "user" as const, content: "hi" },
    { role: "assistant" as const, content: [text(cited("trp1.none")), text(cited("trp1.none"), cited("Eo8B"))] },
    { role: "user" as const, content: "and?" },
  ];
  await clientOf("gateway").messages.create({ model: `anthropic/${model}`, max_tokens: 9, messages });
  expect((upstream.last.json as { messages: unknown[] }).messages[1]).toEqual({
    role: "assistant",
    content: [{ type: "text", text: "ho" }, text(cited("Eo8B"))],
  });
});

const hosted = {
  max_tokens: 9,
  tools: [{ type: "web_search_20250305" as const, name: "web_search" as const }],
  messages: [{ role: "user" as const, content: "hi" }],
};

test("what only Anthropic runs is refused elsewhere, naming its place, or left out where the operator says so", async () => {
  const error = await clientOf("gateway")
    .messages.create({ ...hosted, model: "openai/x" })
    .catch((one) => one);
  expect(error).toBeInstanceOf(Anthropic.BadRequestError);
  expect(error.error.error.message).toBe("tools[0].type: the tool 'web_search_20250305' is known to Anthropic alone.");
  answer = () =>
    jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }] });
  await clientOf("gateway").messages.create({ ...hosted, model: "lenient/x", tool_choice: { type: "any" } });
  expect(upstream.last.json).toEqual({ model: "x", messages: hosted.messages, max_completion_tokens: 9 });
  const block = { type: "container_upload" as const, file_id: "f" };
  const refused = await clientOf("gateway")
    .messages.create({ max_tokens: 9, model: "openai/x", messages: [{ role: "user", content: [block] }] })
    .catch((one) => one);
  expect(refused.error.error.message).toStartWith("messages[0].content[0].type: a block of type 'container_upload'");
});

test("cache marks and error flags stay with those who know them", async () => {
  answer = () =>
    jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }] });
  const cache_control = { type: "ephemeral" as const };
  await clientOf("gateway").messages.create({
    model: "openai/x",
    max_tokens: 9,
    system: [{ type: "text", text: "S", cache_control }],
    tools: [{ name: "t", input_schema: { type: "object" }, cache_control }],
    messages: [
      { role: "user", content: [{ type: "text", text: "hi", cache_control }] },
      { role: "assistant", content: [{ type: "tool_use", id: "c", name: "t", input: {}, cache_control }] },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "c", content: "no", is_error: true, cache_control }],
      },
    ],
  });
  expect(JSON.stringify(upstream.last.json)).not.toMatch(/cache_control|is_error/);
});

const prompt = { max_tokens: undefined as never, messages: [{ role: "user" as const, content: "Hello, world!" }] };

test("a beginning that a gateway sends twice goes out once; that of another message is an error", async () => {
  const written = (events: readonly object[]) =>
    events.map((event) => `event: ${(event as { type: string }).type}\ndata: ${JSON.stringify(event)}\n\n`);
  const begin = (id: string) => ({
    type: "message_start",
    message: { ...message, id, content: [], stop_reason: null },
  });
  const rest = [
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    ...["a", "b", "c", "d"].map((text) => ({
      type: "content_block_delta",
      index: 0,
      delta: { type: "text_delta", text },
    })),
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } },
    { type: "message_stop" },
  ];
  const once = [begin("msg_1"), ...rest];
  for (const at of [1, 2, 4]) {
    const twice = written(once.toSpliced(at, 0, begin("msg_1")));
    for (const pieces of [twice, [twice.join("")]]) {
      answer = () => sseResponse(pieces);
      const got = await troupe.post(base("gateway"), {
        model: `anthropic/${model}`,
        max_tokens: 9,
        messages: [{ role: "user", content: "Hi" }],
        stream: true,
      });
      expect(await got.text()).toBe(written(once).join(""));
      const stream = clientOf("orchestrator").messages.stream({
        model: persona,
        max_tokens: 9,
        messages: [{ role: "user", content: "Hi" }],
      });
      expect((await stream.finalMessage()).content as unknown[]).toEqual([{ type: "text", text: "abcd" }]);
    }
    answer = () => sseResponse(written(once.toSpliced(at, 0, begin("msg_2"))));
    const got = await troupe.post(base("gateway"), {
      model: `anthropic/${model}`,
      max_tokens: 9,
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
    });
    expect(await got.text()).toContain("a second answer within one stream");
  }
});

test("count_tokens is asked of Anthropic, with the client's own body", async () => {
  answer = () => jsonResponse({ input_tokens: 14 });
  const { max_tokens: _, ...ask } = {
    ...prompt,
    model: `anthropic/${model}`,
    betas: ["x-1"],
    context_management: { edits: [] },
  };
  const client = clientOf("gateway");
  expect(await client.beta.messages.countTokens(ask as never)).toMatchObject({ input_tokens: 14 });
  expect(upstream.last.path).toBe("/v1/messages/count_tokens");
  expect(upstream.last.headers.get("anthropic-beta")).toContain("x-1");
  expect(upstream.last.json).toEqual({ model, messages: prompt.messages, context_management: { edits: [] } });
  const raw = '{"type":"error","error":{"type":"invalid_request_error","message":"no"}}';
  answer = () => new Response(raw, { status: 400, headers: { "content-type": "application/json" } });
  const refused = await troupe.post(`${base("gateway")}/count_tokens`, ask);
  expect([refused.status, await refused.text()]).toEqual([400, raw]);
});

test("a persona's text is counted with the caller's", async () => {
  answer = () => jsonResponse({ input_tokens: 99 });
  const counted = await clientOf("orchestrator").messages.countTokens({ model: persona, messages: prompt.messages });
  expect(counted).toMatchObject({ input_tokens: 99 });
  expect(Object.keys(upstream.last.json as object).sort()).toEqual(["messages", "model", "system"]);
});

test.each([
  ["openai/x", { object: "response.input_tokens", input_tokens: 7 }, "/responses/input_tokens"],
  ["google/gemini-3-flash", { totalTokens: 8 }, "/models/gemini-3-flash:countTokens"],
])("count_tokens of %s is asked of its provider", async (id, counted, path) => {
  answer = () => jsonResponse(counted);
  const response = await troupe.post(`${base("gateway")}/count_tokens`, { model: id, messages: prompt.messages });
  expect(await response.json()).toEqual({
    input_tokens: Object.values(counted).find((one) => typeof one === "number")!,
  });
  expect(response.headers.get("x-troupe-estimated")).toBeNull();
  expect(upstream.last.path).toEndWith(path);
});

test.each(["openai/x", `anthropic/${model}`, "builtin/echo"])(
  "count_tokens of %s is estimated where nobody counts",
  async (id) => {
    // A caller waits 5 s for the tokenizer, which a busy machine may take to load its tables.
    await troupe.server.services.tokenizer.count(["words"], 60_000);
    answer = () => jsonResponse({ error: { message: "No such route." } }, 404);
    const response = await troupe.post(`${base("gateway")}/count_tokens`, { model: id, messages: prompt.messages });
    expect(await response.json()).toEqual({ input_tokens: 8 });
    expect(response.headers.get("x-troupe-estimated")).toBe("true");
  },
);
