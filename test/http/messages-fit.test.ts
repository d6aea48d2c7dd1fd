/** What Claude Code sends to names that it does not know, on every model of Anthropic's: each takes it, as it came where it can. */
import { expect, test } from "bun:test";
import { served } from "../helpers/served.ts";
import { jsonResponse } from "../helpers/upstream-server.ts";
import { anthropicKey, anthropicUpstream, strictModels } from "../helpers/upstreams/anthropic.ts";

const persona = "troupe/tutor";

const answered = (model: string) => ({
  ...{ id: "msg_1", type: "message", role: "assistant", model, content: [{ type: "text", text: "Hi." }] },
  ...{ stop_reason: "end_turn", stop_sequence: null, usage: { input_tokens: 3, output_tokens: 2 } },
});

const { troupe, upstream } = await served(
  anthropicUpstream(({ model }) => jsonResponse(answered(model))),
  (url) => ({ providers: { anthropic: { baseUrl: url, apiKey: anthropicKey } } }),
);

const headers = { "anthropic-version": "2023-06-01" };
const ask = (model: string, body: object, surface = "/gateway") =>
  troupe.post(`${surface}/v1/messages`, { model, max_tokens: 4000, ...body }, { headers });
const text = (value: string) => ({ type: "text", text: value });
const user = (value: string) => ({ role: "user", content: [text(value)] });
const system = (value: string) => ({ role: "system", content: [text(value)] });
const assistant = (value: string) => ({ role: "assistant", content: [text(value)] });
const called = [
  { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "look", input: {} }] },
  { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "seen" }] },
];
const tools = [{ name: "look", input_schema: { type: "object", properties: {} } }];

/** Claude Code says so beside adaptive thinking, which is not every model's. */
const cleared = { edits: [{ type: "clear_thinking_20251015", keep: "all" }] };

const bodies: readonly object[] = [
  { thinking: { type: "adaptive" }, output_config: { effort: "max" } },
  { thinking: { type: "adaptive" }, tools, tool_choice: { type: "auto" }, output_config: { effort: "low" } },
  { thinking: { type: "enabled", budget_tokens: 2000 } },
  { output_config: { effort: "xhigh" } },
  { messages: [user("hi"), system("Be brief.")] },
  { messages: [user("hi"), system("Be brief."), assistant("Hi."), user("and")] },
  { messages: [system("Be brief."), user("hi"), system("A."), system("B."), user("and")] },
  { messages: [user("hi"), ...called, system("Be brief.")], tools, thinking: { type: "adaptive" } },
  { messages: [user("hi"), system("A."), system("B.")] },
  { thinking: { type: "adaptive" }, max_tokens: 500, context_management: cleared },
  { thinking: { type: "adaptive" }, messages: [user("hi"), ...called], tools, context_management: cleared },
];

test.each(strictModels)("%s takes what Claude Code sends", async (model) => {
  troupe.setTargets(persona, [`anthropic/${model}`]);
  for (const body of bodies) {
    for (const [surface, name] of [
      ["/gateway", `anthropic/${model}`],
      ["", persona],
    ] as const) {
      const got = await ask(name, { messages: [user("hi")], ...body }, surface);
      expect([JSON.stringify(body), got.status, await got.text()]).toEqual([
        JSON.stringify(body),
        200,
        expect.any(String),
      ]);
    }
  }
});

/** What SDKs send of themselves, or for structured output: on the gateway the caller knows the model, and gets its own words. */
const demanding: readonly object[] = [
  { temperature: 0.5 },
  { temperature: 0.5, top_p: 0.9, top_k: 5 },
  { temperature: 0.5, top_p: 0.95, thinking: { type: "adaptive" } },
  { temperature: 0.5, thinking: { type: "enabled", budget_tokens: 2000 } },
  { tools, tool_choice: { type: "any" } },
  { tools, tool_choice: { type: "tool", name: "look", disable_parallel_tool_use: true } },
  { messages: [user("hi"), assistant("Once ")] },
  { max_tokens: 1_000_000 },
];

test.each(strictModels)("a persona on %s takes what the model refuses", async (model) => {
  troupe.setTargets(persona, [`anthropic/${model}`]);
  for (const body of demanding) {
    const got = await ask(persona, { messages: [user("hi")], ...body }, "");
    expect([JSON.stringify(body), got.status, await got.text()]).toEqual([
      JSON.stringify(body),
      200,
      expect.any(String),
    ]);
  }
});

test("what it takes stays as it came, and what can't be forced is asked for", async () => {
  const sent = () => upstream.last.json as Record<string, unknown>;
  troupe.setTargets(persona, ["anthropic/claude-opus-5-5"]);
  const choice = { type: "tool", name: "look", disable_parallel_tool_use: true };
  await ask(
    persona,
    { messages: [user("hi"), assistant("So")], tools, tool_choice: choice, temperature: 1, top_k: 5 },
    "",
  );
  expect(sent()["tool_choice"]).toEqual({ type: "auto", disable_parallel_tool_use: true });
  expect((sent()["system"] as unknown[]).at(-1)).toEqual(text("Answer by calling the tool look, and in no other way."));
  expect((sent()["messages"] as unknown[]).at(-1)).toEqual(user("Continue."));
  expect(Object.keys(sent()).filter((name) => ["temperature", "top_p", "top_k"].includes(name))).toEqual([]);
  troupe.setTargets(persona, ["anthropic/claude-sonnet-4-5"]);
  const taken = { messages: [user("hi"), assistant("So")], tools, tool_choice: choice, temperature: 0.5, top_k: 5 };
  await ask(persona, taken, "");
  expect(sent()).toMatchObject(taken);
  // Who names the model is told what it refuses.
  const refused = await ask("anthropic/claude-opus-5-5", { messages: [user("hi")], temperature: 0.5 });
  expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining("deprecated for this model")]);
});

test("system turns in a row at a turn's end stay turns where the model takes them", async () => {
  const messages = [user("hi"), system("A."), system("B.")];
  await ask("anthropic/claude-sonnet-5-5", { messages });
  expect((upstream.last.json as { messages: unknown[] }).messages).toEqual(messages);
});

test("what a model refuses is said in its own words, and the rest stays as it came", async () => {
  const later = [user("one"), system("A."), assistant("Hm."), system("B."), user("two")];
  await ask("anthropic/claude-sonnet-4-5", {
    system: [text("S.")],
    messages: [system("First."), ...later],
    thinking: { type: "adaptive" },
    output_config: { effort: "medium" },
    temperature: 1,
  });
  const { model: _, ...sent } = upstream.last.json as Record<string, unknown>;
  expect(sent).toEqual({
    max_tokens: 4000,
    system: [text("S."), text("First.")],
    messages: [
      { role: "user", content: [text("one"), text("A.")] },
      assistant("Hm."),
      { role: "user", content: [text("two"), text("B.")] },
    ],
    thinking: { type: "enabled", budget_tokens: 3999 },
  });
  const taken = {
    messages: [user("one"), system("A.")],
    thinking: { type: "adaptive" },
    output_config: { effort: "max" },
  };
  await ask("anthropic/claude-opus-4-8", taken);
  expect(upstream.last.json).toEqual({ model: "claude-opus-4-8", max_tokens: 4000, ...taken });
});

test.each([[{}], [{ stream: true }]])(
  "a persona never has the provider keep a thread, which clients go on without %j",
  async (more) => {
    troupe.setTargets(persona, ["anthropic/claude-sonnet-4-5"]);
    const before = upstream.requests.length;
    for (const path of ["/v1/messages", "/v1/messages/count_tokens"]) {
      const body = {
        model: persona,
        messages: [user("hi")],
        thread: { type: "create" },
        ...(path.endsWith("s") && !path.endsWith("tokens") && { max_tokens: 9, ...more }),
      };
      const got = await troupe.post(path, body, { headers });
      const { error } = (await got.json()) as { error: { details: { error_code: string } } };
      expect([got.status, error.details.error_code]).toEqual([400, "thread_unsupported_request"]);
    }
    expect(upstream.requests.length).toBe(before);
  },
);
