/** What a provider's own API takes is not judged by our ranges where it goes there as it came; where it is translated they hold. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { models, Stage } from "../clients/stage.ts";
import { pathOf } from "../helpers/client-formats.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start();
});
afterAll(async () => stage[Symbol.asyncDispose]());

const user = { role: "user", content: "hi" };
const contents = [{ role: "user", parts: [{ text: "hi" }] }];
const own = { messages: "anthropic", "generate-content": "google", responses: "responses" } as const;
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
    ["messages", messages({ top_k: -2 }), "top_k must be a number of at least 0."],
    ["generate-content", gemini({ temperature: 3 }), "generationConfig.temperature must be a number from 0 to 2."],
    ["generate-content", gemini({ topP: 2 }), "generationConfig.topP must be a number from 0 to 1."],
    ["generate-content", gemini({ presencePenalty: 3 }), "generationConfig.presencePenalty must be a number"],
    ["generate-content", gemini({ frequencyPenalty: -3 }), "generationConfig.frequencyPenalty must be a number"],
    ["responses", responses({ temperature: 3 }), "temperature must be a number from 0 to 2."],
    ["responses", responses({ top_p: 2 }), "top_p must be a number from 0 to 1."],
  ] as const)("%s %j", async (format, body, words) => {
    expect((await post(format, own[format], body)).status).toBe(200);
    expect(stage.last.json).toMatchObject(body);
    const { status, text } = await post(format, "chat", body);
    expect([status, text]).toEqual([400, expect.stringContaining(words)]);
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
