/** Servers that answer with reasoning in clear text and keep nothing (LM Studio, vLLM, DeepSeek behind `dialect: openai`): their items can be sent back. */
import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import OpenAI from "openai";
import type { ResponseInputItem } from "openai/resources/responses/responses";
import { openaiResponses } from "../../src/providers/responses/quirks.ts";
import { nativeResponses } from "../../src/providers/responses/responses.ts";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

/** As LM Studio 0.3 answers: https://lmstudio.ai/docs/developer/openai-compat/responses */
const reasoning = {
  id: "rs_6f1c0e5b9a7d4c3f8e2b1a0d9c8b7a6f5e4d3c2b1a09f8e7",
  type: "reasoning",
  summary: [],
  content: [{ type: "reasoning_text", text: "I need the weather." }],
};
const call = {
  id: "fc_REDACTED_1",
  type: "function_call",
  call_id: "call_1",
  name: "weather",
  arguments: "{}",
  status: "completed",
};
const responseOf = (output: object[]) => ({
  id: "resp_lm_1",
  object: "response",
  created_at: 1,
  status: "completed",
  model: "gpt-oss-20b",
  output,
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
});
const message = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: "Sunny.", annotations: [] }],
};

const model = "lmstudio2/gpt-oss-20b";
const personas = untilEnd(new TempFolder());
const upstream = untilEnd(
  new UpstreamServer(({ text }) =>
    jsonResponse(responseOf(text.includes("function_call_output") ? [message] : [reasoning, call])),
  ),
);
mkdirSync(personas.file("acme"));
writeFileSync(personas.file("acme/p.yaml"), JSON.stringify({ description: "P", model, system: "Be brief." }));
const troupe = untilEnd(
  await Troupe.start({
    personas: personas.path,
    providers: { lmstudio2: { baseUrl: upstream.url, dialect: "openai" } },
  }),
);
const client = new OpenAI({ baseURL: troupe.baseUrl("gateway"), apiKey: troupe.key, maxRetries: 0 });
afterEach(() => upstream.requests.splice(0));

const asked = { type: "message" as const, role: "user" as const, content: "Oslo?" };
const result = { type: "function_call_output" as const, call_id: "call_1", output: "sun" };

test.each([[false], [undefined]])("a loop of tools goes on with the items that came, store: %p", async (store) => {
  const first = await client.responses.create({ model, input: [asked], ...(store !== undefined && { store }) });
  const input = [asked, ...(first.output as ResponseInputItem[]), result];
  const second = await client.responses.create({ model, input, ...(store !== undefined && { store }) });
  expect(second.output_text).toBe("Sunny.");
  expect(JSON.parse(upstream.requests.at(-1)!.text).input).toEqual([asked, reasoning, call, result]);
});

test("a persona's loop goes on with them, too", async () => {
  const own = new OpenAI({ baseURL: troupe.baseUrl("orchestrator"), apiKey: troupe.key, maxRetries: 0 });
  const first = await own.responses.create({ model: "acme/p", input: [asked], store: false });
  expect(first.output as object[]).toEqual([reasoning, call]);
  const input = [asked, ...(first.output as ResponseInputItem[]), result];
  expect((await own.responses.create({ model: "acme/p", input, store: false })).output_text).toBe("Sunny.");
  expect(JSON.parse(upstream.requests.at(-1)!.text).input).toEqual([asked, reasoning, call, result]);
});

const another = { ...reasoning, id: "rs_of_another" };
describe("what only names what may be kept by another caller is refused", () => {
  test.each([
    [{ ...another, content: [] }],
    [{ ...another, content: null }],
    [{ ...another, content: [{ type: "reasoning_text", text: "" }] }],
    [{ ...another, content: undefined, encrypted_content: "" }],
    [{ type: "item_reference", id: another.id }],
    [{ type: "item_reference", id: "fc_REDACTED_9" }],
  ])("%j", async (item) => {
    const got = await troupe.post("/gateway/v1/responses", { model, input: [asked, item] });
    expect([got.status, await got.json()]).toEqual([
      400,
      { error: expect.objectContaining({ param: "input[1].id", code: "invalid_value" }) },
    ]);
    expect(upstream.requests).toEqual([]);
  });
});

test("OpenAI's own server, which refuses clear text, gets none of another's thoughts", () => {
  const body = { model: "m", input: [asked, reasoning, { ...reasoning, encrypted_content: "gAAAA" }, call, result] };
  const sentTo = (baseUrl: string) => {
    const account = { name: "openai", baseUrl, models: [], options: {}, modelRules: [] };
    const target = { model: "m", request: { model: "m", messages: [] }, extras: {}, account, media: new Map() };
    const native = nativeResponses({ ...openaiResponses, provider: "openai" });
    return native.fit!(body, target, {})["input"];
  };
  expect(sentTo("https://api.openai.com/v1")).toEqual(body.input.toSpliced(1, 1));
  expect(sentTo("https://eu.api.openai.com/v1")).toEqual(body.input.toSpliced(1, 1));
  expect(sentTo(upstream.url)).toBe(body.input);
});
