/** What a provider's own API takes is not judged by our ranges where it goes there as it came; where it is translated they hold. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { models, Stage } from "../clients/stage.ts";
import { pathOf } from "../helpers/client-formats.ts";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const folder = untilEnd(new TempFolder());
const limits = { max_tokens: 50, temperature: 1 };
const brief = JSON.stringify({ description: "Brief.", model: models.chat, limits, system: "Be brief." });
mkdirSync(folder.file("acme"));
writeFileSync(folder.file("acme/brief.yaml"), brief);
const stage = untilEnd(await Stage.start({ personas: folder.path }));

const user = { role: "user", content: "hi" };
const contents = [{ role: "user", parts: [{ text: "hi" }] }];
const own = { chat: "chat", messages: "anthropic", "generate-content": "google", responses: "responses" } as const;
type Format = keyof typeof own;

async function post(format: Format, family: keyof typeof models, body: object) {
  stage.native = family;
  const model = models[family];
  const named = format === "generate-content" ? body : { ...body, model };
  const got = await stage.troupe.post(pathOf("gateway", format, model), named);
  return { status: got.status, text: await got.text() };
}

const messages = (more: object) => ({ messages: [user], max_tokens: 9, ...more });
const gemini = (generationConfig: object) => ({ contents, generationConfig });
const responses = (more: object) => ({ input: "hi", store: false, ...more });
const chat = (more: object) => ({ messages: [user], ...more });
const thinking = (thinkingConfig: object) => gemini({ thinkingConfig });
const calling = (mode: string) => ({
  contents,
  tools: [{ functionDeclarations: [{ name: "f" }] }],
  toolConfig: { functionCallingConfig: { mode } },
});
const tools = [{ type: "function", name: "f", parameters: { type: "object", properties: {} } }];
const chatTools = [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }];
const enabled = (budget_tokens: number) => messages({ thinking: { type: "enabled", budget_tokens } });
const kind = (type: string) => chat({ response_format: { type, grammar: { type: "gbnf" } } });

// LangChain.js says so by default what is not set.
describe("what is not set", () => {
  test.each([
    ["messages", messages({ top_p: -1, top_k: -1 })],
    ["generate-content", gemini({ topP: -1, topK: -1 })],
    ["responses", responses({ top_p: -1 })],
  ] as const)("%s", async (format, body) => {
    expect((await post(format, own[format], body)).status).toBe(200);
    expect(stage.last.json).toMatchObject(body);
    expect((await post(format, "chat", body)).status).toBe(200);
    expect(stage.last.text).not.toMatch(/top_[pk]|:-1/);
  });
});

describe("what is out of range", () => {
  test.each([
    ["messages", messages({ temperature: 1.5 }), "temperature must be a number from 0 to 1."],
    ["messages", messages({ top_p: 2 }), "top_p must be a number from 0 to 1."],
    ["messages", messages({ top_k: -2 }), "top_k must be an integer of at least 0."],
    ["generate-content", gemini({ temperature: 3 }), "generationConfig.temperature must be a number from 0 to 2."],
    ["generate-content", gemini({ topP: 2 }), "generationConfig.topP must be a number from 0 to 1."],
    ["generate-content", gemini({ presencePenalty: 3 }), "generationConfig.presencePenalty must be a number"],
    ["generate-content", gemini({ frequencyPenalty: -3 }), "generationConfig.frequencyPenalty must be a number"],
    ["responses", responses({ temperature: 3 }), "temperature must be a number from 0 to 2."],
    ["responses", responses({ top_p: 2 }), "top_p must be a number from 0 to 1."],
    ["messages", enabled(0), "thinking.budget_tokens must be an integer of at least 1."],
    ["generate-content", gemini({ maxOutputTokens: 0 }), "generationConfig.maxOutputTokens must be an integer"],
    ["generate-content", gemini({ candidateCount: 0 }), "generationConfig.candidateCount must be an integer"],
    ["generate-content", gemini({ logprobs: 30 }), "generationConfig.logprobs must be an integer from 0 to 20."],
    ["generate-content", thinking({ thinkingBudget: -2 }), "thinkingConfig.thinkingBudget must be an integer"],
    ["generate-content", thinking({ thinkingBudget: 9, thinkingLevel: "low" }), "generationConfig.thinkingConfig: "],
    ["generate-content", calling("SOME"), "toolConfig.functionCallingConfig.mode must be"],
    ["generate-content", { contents: [{ role: "system", parts: [{ text: "hi" }] }] }, "contents[0].role must be"],
    ["responses", responses({ max_tool_calls: 0 }), "max_tool_calls must be an integer of at least 1."],
    ["responses", responses({ top_logprobs: 30 }), "top_logprobs must be an integer from 0 to 20."],
    ["responses", responses({ tools, tool_choice: "NONE" }), "tool_choice must be"],
    ["responses", responses({ truncation: "middle" }), "truncation must be"],
    ["responses", responses({ text: { verbosity: "most" } }), "text.verbosity must be"],
    ["responses", responses({ input: [] }), "input must not be empty."],
    ["chat", chat({ temperature: 3 }), "temperature must be a number from 0 to 2."],
    ["chat", chat({ top_p: -1 }), "top_p must be a number from 0 to 1."],
    ["chat", chat({ stop: ["a", "b", "c", "d", "e"] }), "stop must have at most 4 items."],
    ["chat", chat({ stop: [] }), "stop must not be empty."],
    ["chat", chat({ presence_penalty: 3 }), "presence_penalty must be a number from -2 to 2."],
    ["chat", chat({ logprobs: true, top_logprobs: 30 }), "top_logprobs must be an integer from 0 to 20."],
    ["chat", chat({ top_logprobs: 3 }), "top_logprobs needs logprobs: true."],
    ["chat", chat({ max_tokens: -1 }), "max_tokens must be an integer of at least 1."],
    ["chat", chat({ tools: chatTools, tool_choice: "any" }), "tool_choice must be"],
    ["chat", kind("grammar"), "response_format.type must be"],
  ] as const)("%s %j", async (format, body, words) => {
    expect((await post(format, own[format], body)).status).toBe(200);
    expect(stage.last.json).toMatchObject(body);
    for (const family of ["chat", "anthropic", "google"] as const) {
      if (family === own[format]) continue;
      const before = stage.last;
      const { status, text } = await post(format, family, body);
      expect([status, JSON.parse(text).error.message]).toEqual([400, expect.stringContaining(words)]);
      expect(stage.last).toBe(before);
    }
  });

  test("what is no value of the field's type is refused everywhere", async () => {
    expect((await post("chat", "chat", chat({ temperature: "3" }))).status).toBe(400);
    expect((await post("chat", "chat", chat({ temperature: 3, n: 0 }))).text).toContain("n must be an integer");
    expect((await post("messages", "anthropic", enabled(0.5))).status).toBe(400);
  });

  test("a persona's limit holds for as many tokens as the model likes", async () => {
    const got = await stage.troupe.post("/v1/chat/completions", { ...chat({ max_tokens: -1 }), model: "acme/brief" });
    expect(got.status).toBe(200);
    expect(stage.last.json).toMatchObject({ max_tokens: 50 });
    expect(
      (await stage.troupe.post("/v1/chat/completions", { ...chat({ temperature: 3 }), model: "acme/brief" })).status,
    ).toBe(200);
    expect(stage.last.json).toMatchObject({ temperature: 1 });
  });
});

describe("a user who says nothing", () => {
  const silent = { role: "user", content: "" };
  const answer = { role: "assistant", content: "yo" };
  const bodies: Readonly<Record<Format, readonly object[]>> = {
    chat: [{ messages: [silent] }],
    messages: [
      messages({ messages: [silent] }),
      messages({ messages: [{ ...silent, content: [{ type: "text", text: "" }] }] }),
    ],
    "generate-content": [{ contents: [{ role: "user", parts: [{ text: "" }] }] }],
    responses: [responses({ input: "" }), responses({ input: [silent] })],
  };
  const formats = Object.keys(own) as Format[];

  test.each(formats)("%s, alone", async (format) => {
    for (const body of bodies[format]) {
      expect((await post(format, own[format], body)).status).toBe(200);
      expect(stage.last.json).toMatchObject(body);
      expect((await post(format, "chat", body)).status).toBe(200);
      expect(stage.last.json).toMatchObject({ messages: [silent] });
      if (format === "generate-content") continue;
      expect((await post(format, "google", body)).status).toBe(200);
      expect(stage.last.json).toMatchObject({ contents: [{ role: "user", parts: [{ text: " " }] }] });
      if (format === "messages") continue;
      // "text content blocks must be non-empty", nor of white space alone: there is nothing that could be sent.
      const { status, text } = await post(format, "anthropic", body);
      expect([status, text]).toEqual([400, expect.stringContaining("must hold some text or other content.")]);
    }
  });

  // It is a turn of theirs: what the model said before is no beginning of its answer.
  test.each(["chat", "messages"] as const)("%s, at the end", async (format) => {
    const body = { ...(format === "messages" && { max_tokens: 9 }), messages: [user, answer, silent] };
    expect((await post(format, "chat", body)).status).toBe(200);
    expect(stage.last.json).toMatchObject({ messages: [user, answer, silent] });
    expect((await post(format, "google", body)).status).toBe(200);
    expect((stage.last.json as { contents: object[] }).contents.at(-1)).toEqual({
      role: "user",
      parts: [{ text: " " }],
    });
    expect((await post("chat", "anthropic", body)).status).toBe(200);
    expect((stage.last.json as { messages: { role: string }[] }).messages.at(-1)!.role).toBe("user");
  });

  test("beside something else it is left out", async () => {
    const blocks = [
      { type: "text", text: "" },
      { type: "text", text: "hi" },
    ];
    for (const family of ["anthropic", "google"] as const) {
      expect((await post("chat", family, { messages: [{ role: "user", content: blocks }] })).status).toBe(200);
      expect(stage.last.text).not.toContain('"text":""');
    }
  });
});

describe("a functionResponse that names nothing", () => {
  const call = (name: string) => ({ functionCall: { name, args: {} } });
  const response = (said: string, name?: string) => ({
    functionResponse: { ...(name !== undefined && { name }), response: { said } },
  });
  const body = (calls: object[], responses: object[]) => ({
    contents: [...contents, { role: "model", parts: calls }, { role: "user", parts: responses }],
  });
  type Sent = { messages: { role: string; tool_call_id?: string; content: string }[] };

  test.each([
    ["one", [call("f")], [response("first")]],
    ["an empty name", [call("f"), call("g")], [response("first", ""), response("second", "")]],
    ["one of two named", [call("f"), call("f")], [response("first"), response("second", "f")]],
  ])("is of the call in its place: %s", async (_, calls, responses) => {
    const asked = body(calls, responses);
    expect((await post("generate-content", "google", asked)).status).toBe(200);
    expect(stage.last.json).toMatchObject(asked);
    expect((await post("generate-content", "chat", asked)).status).toBe(200);
    const results = (stage.last.json as Sent).messages.filter(({ role }) => role === "tool");
    expect(results.map(({ tool_call_id, content }) => [tool_call_id, JSON.parse(content).said])).toEqual(
      [
        ["call_0", "first"],
        ["call_1", "second"],
      ].slice(0, calls.length),
    );
  });

  test("is refused where several may be meant", async () => {
    const asked = body([call("f"), call("g")], [response("first")]);
    expect((await post("generate-content", "google", asked)).status).toBe(200);
    const { status, text } = await post("generate-content", "chat", asked);
    expect(status).toBe(400);
    expect(text).toContain("contents[2].parts[0].functionResponse must name the function or the id of the call");
  });
});

test.each([
  ["google", true],
  ["chat", false],
  ["anthropic", false],
] as const)("a functionResponse named by its call's id, to %s", async (family, isNative) => {
  const call = (id: string, name: string) => ({ functionCall: { id, name, args: {} } });
  const result = (name: string) => ({ functionResponse: { name, response: { said: `of ${name}` } } });
  const body = {
    contents: [
      ...contents,
      { role: "model", parts: [call("call_8", "time"), call("call_9", "time")] },
      { role: "user", parts: [result("call_9"), result("call_8")] },
    ],
  };
  expect((await post("generate-content", family, body)).status).toBe(200);
  if (isNative) expect(stage.last.json).toMatchObject(body);
  else expect(stage.last.text).toMatch(/call_[89].*of call_[89]/);
  if (family === "chat") {
    const { messages: sent } = stage.last.json as {
      messages: { role: string; tool_call_id?: string; content: string }[];
    };
    for (const { role, tool_call_id, content } of sent)
      if (role === "tool") expect(content).toContain(`of ${tool_call_id}`);
  }
});
