/** A stream that breaks after its first words, as the clients that people use read it: an error, never half an answer. */
import { beforeEach, describe, expect, test } from "bun:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import { ChatAnthropic } from "@langchain/anthropic";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, OpenAIProvider, Runner } from "@openai/agents";
import { type LanguageModel, streamText } from "ai";
import OpenAI from "openai";
import type { SurfaceName } from "../../src/config/config.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { served } from "../helpers/served.ts";
import { jsonResponse } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
let answer: () => Response | Promise<Response>;
let held: HeldStream;

const { troupe } = await served(
  () => answer(),
  (url) => ({
    providers: { groq: { baseUrl: url } },
    config: { streams: { keepAliveSeconds: 0.05 } },
  }),
);
troupe.setTargets(persona, ["groq/x"]);
beforeEach(() => {
  held = new HeldStream();
  answer = () => held.response();
});

type Setting = { readonly baseURL: string; readonly apiKey: string; readonly headers: Record<string, string> };
/** What a program sees: the words, and whether it was told of an error. */
type Seen = { readonly text: string; readonly error: unknown };
type Client = (model: string, setting: Setting, onText: () => void) => Promise<Seen>;

async function readAll(parts: AsyncIterable<string>, onText: () => void): Promise<Seen> {
  let text = "";
  try {
    for await (const part of parts) {
      text += part;
      if (part !== "") onText();
    }
    return { text, error: undefined };
  } catch (error) {
    return { text, error };
  }
}

async function* viaOpenAi(model: string, { headers, ...setting }: Setting): AsyncGenerator<string> {
  const client = new OpenAI({ ...setting, maxRetries: 0, defaultHeaders: headers });
  const stream = await client.chat.completions.create({
    model,
    messages: [{ role: "user", content: "hi" }],
    stream: true,
  });
  for await (const chunk of stream) yield chunk.choices[0]?.delta.content ?? "";
}

async function* viaLangChain(model: string, { baseURL, apiKey, headers }: Setting): AsyncGenerator<string> {
  const configuration = { baseURL, defaultHeaders: headers };
  const chat = new ChatOpenAI({ model, apiKey, maxRetries: 0, configuration, useResponsesApi: false });
  for await (const { content } of await chat.stream("hi")) yield content as string;
}

async function* viaLangChainResponses(model: string, { baseURL, apiKey, headers }: Setting): AsyncGenerator<string> {
  const configuration = { baseURL, defaultHeaders: headers };
  const chat = new ChatOpenAI({ model, apiKey, maxRetries: 0, configuration, useResponsesApi: true });
  for await (const { text } of await chat.stream("hi")) yield text;
}

async function* viaLangChainAnthropic(model: string, { baseURL, apiKey, headers }: Setting): AsyncGenerator<string> {
  const clientOptions = { defaultHeaders: headers };
  const chat = new ChatAnthropic({ model, apiKey, anthropicApiUrl: rootOf(baseURL), maxRetries: 0, clientOptions });
  for await (const { text } of await chat.stream("hi")) yield text;
}

async function* viaAgents(model: string, { baseURL, apiKey, headers }: Setting): AsyncGenerator<string> {
  const openAIClient = new OpenAI({ baseURL, apiKey, maxRetries: 0, defaultHeaders: headers });
  const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient }), tracingDisabled: true });
  const running = await runner.run(new Agent({ name: "a", model }), "hi", { stream: true });
  for await (const text of running.toTextStream()) yield text;
  await running.completed;
}

async function viaAiSdk(model: LanguageModel, onText: () => void): Promise<Seen> {
  let text = "";
  for await (const part of streamText({ model, prompt: "hi", maxRetries: 0, onError() {} }).fullStream) {
    if (part.type === "error") return { text, error: part.error };
    if (part.type !== "text-delta") continue;
    text += part.text;
    onText();
  }
  return { text, error: undefined };
}

async function* viaResponses(model: string, { headers, ...setting }: Setting): AsyncGenerator<string> {
  const client = new OpenAI({ ...setting, maxRetries: 0, defaultHeaders: headers });
  for await (const event of await client.responses.create({ model, input: "hi", stream: true })) {
    if (event.type === "response.output_text.delta") yield event.delta;
  }
}

/** Of clients that add the version themselves. */
const rootOf = (baseURL: string) => baseURL.slice(0, -"/v1".length);

async function* viaAnthropic(model: string, { baseURL, apiKey, headers }: Setting): AsyncGenerator<string> {
  const client = new Anthropic({ baseURL: rootOf(baseURL), apiKey, maxRetries: 0, defaultHeaders: headers });
  const asked = { model, max_tokens: 100, messages: [{ role: "user" as const, content: "hi" }] };
  for await (const event of client.messages.stream(asked)) {
    if (event.type === "content_block_delta" && event.delta.type === "text_delta") yield event.delta.text;
  }
}

async function* viaGemini(model: string, { baseURL, apiKey, headers }: Setting): AsyncGenerator<string> {
  const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: rootOf(baseURL), headers } });
  for await (const { text } of await client.models.generateContentStream({ model, contents: "hi" })) yield text ?? "";
}

const clients: Record<string, Client> = {
  "openai, by Responses": (model, setting, onText) => readAll(viaResponses(model, setting), onText),
  "@ai-sdk/openai, by Responses": (model, setting, onText) => viaAiSdk(createOpenAI(setting).responses(model), onText),
  "@langchain/openai, by Responses": (model, setting, onText) => readAll(viaLangChainResponses(model, setting), onText),
  "@langchain/anthropic": (model, setting, onText) => readAll(viaLangChainAnthropic(model, setting), onText),
  "@ai-sdk/anthropic": (model, setting, onText) => viaAiSdk(createAnthropic(setting)(model), onText),
  "@openai/agents": (model, setting, onText) => readAll(viaAgents(model, setting), onText),
  "@anthropic-ai/sdk": (model, setting, onText) => readAll(viaAnthropic(model, setting), onText),
  "@google/genai": (model, setting, onText) => readAll(viaGemini(model, setting), onText),
  openai: (model, setting, onText) => readAll(viaOpenAi(model, setting), onText),
  "@langchain/openai": (model, setting, onText) => readAll(viaLangChain(model, setting), onText),
  "@ai-sdk/openai": (model, setting, onText) => viaAiSdk(createOpenAI(setting).chat(model), onText),
  "@ai-sdk/openai-compatible": (model, setting, onText) =>
    viaAiSdk(createOpenAICompatible({ name: "troupe", ...setting })(model), onText),
};

const surfaces: [SurfaceName, string][] = [
  ["gateway", "groq/x"],
  ["orchestrator", persona],
];
let ids = 0;
const settingFor = (surface: SurfaceName, kept: boolean): Setting => ({
  baseURL: troupe.baseUrl(surface),
  apiKey: troupe.key,
  headers: kept ? { "service-request-id": `broken-${ids++}` } : {},
});

describe.each(Object.entries(clients))("%s", (_name, client) => {
  describe.each(surfaces)("%s", (surface, model) => {
    test.each([
      ["as it comes", false],
      ["with a service-request-id", true],
    ])("reads a whole answer, %s", async (_way, kept) => {
      held.fragment("Do not ");
      held.fragment("delete it.");
      held.finish();
      const seen = await client(model, settingFor(surface, kept), () => {});
      expect(seen).toEqual({ text: "Do not delete it.", error: undefined });
    });

    test.each<[string, boolean, () => void]>([
      ["an error event", false, () => held.event({ error: { message: "boom", type: "t", code: null } })],
      ["an error event of odd types", false, () => held.event({ error: { message: 1, type: {}, code: [], param: 2 } })],
      ["an end without a finish", false, () => held.close()],
      ["a reset connection", false, () => held.break()],
      ["a reset connection, with a service-request-id", true, () => held.break()],
      ["an end without a finish, with a service-request-id", true, () => held.close()],
    ])("is told of %s", async (_break, kept, act) => {
      const begun = Promise.withResolvers<void>();
      held.fragment("Do not ");
      const reading = client(model, settingFor(surface, kept), begun.resolve);
      await begun.promise;
      act();
      const seen = await reading;
      expect(seen.text).toBe("Do not ");
      expect(seen.error).toBeInstanceOf(Error);
    });

    test("is told of an error that comes when the 200 is already out", async () => {
      const late = Promise.withResolvers<Response>();
      answer = () => late.promise;
      const asked = new Promise<void>((resolve) => {
        const { streams } = troupe.server.services.httpMetrics;
        const known = streams.series;
        streams.series = function (area) {
          streams.series = known;
          resolve();
          return known.call(this, area);
        };
      });
      const reading = client(model, settingFor(surface, false), () => {});
      await asked;
      late.resolve(jsonResponse({ error: { message: "late no", type: "t", param: null, code: "c" } }, 429));
      const seen = await reading;
      expect([seen.text, seen.error === undefined]).toEqual(["", false]);
    });
  });
});

describe.each(surfaces)("%s", (surface, model) => {
  const ask = (id?: string) =>
    troupe.post(
      `${surface === "gateway" ? "/gateway" : ""}/v1/chat/completions`,
      { model, messages: [{ role: "user", content: "hi" }], stream: true },
      { headers: id === undefined ? {} : { "service-request-id": id } },
    );
  const faultLine = new RegExp(
    `^data: {"error":{[^{}]*},"id":"chatcmpl-[0-9a-f]{32}","object":"chat\\.completion\\.chunk","created":\\d+,"model":"${model}"}$`,
  );
  const dataOf = (text: string) => text.split("\n").filter((line) => line.startsWith("data: "));

  test("live: `error` is the first key, the envelope follows, and nothing else; then the same with a name", async () => {
    held.fragment("one");
    const response = await ask();
    held.close();
    const text = await response.text();
    const lines = dataOf(text);
    const fault = expect.stringMatching(faultLine);
    expect(lines).toEqual([expect.stringContaining('"choices"'), fault, fault, "data: [DONE]"]);
    expect(text).toEndWith(`${lines[1]}\n\n${lines[1]}\nevent: error\n\ndata: [DONE]\n\n`);
    expect(JSON.parse(lines[1]!.slice(6)).id).toBe(JSON.parse(lines[0]!.slice(6)).id);
  });

  test("kept: all who read it see the same, and the next to ask makes a new call", async () => {
    const id = `line-${surface}`;
    held.fragment("one");
    const [first, second] = [await ask(id), await ask(id)];
    held.close();
    const text = await first.text();
    const fault = expect.stringMatching(faultLine);
    expect(dataOf(text).slice(1)).toEqual([fault, fault, "data: [DONE]"]);
    expect(dataOf(await second.text())).toEqual(dataOf(text));
    held = new HeldStream();
    held.fragment("whole");
    held.finish();
    const third = await ask(id);
    expect([third.headers.get("idempotent-replayed"), await third.text()]).toEqual([
      null,
      expect.stringContaining("whole"),
    ]);
  });
});
