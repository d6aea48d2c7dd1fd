/** Answers whose upstream tells several ends, or a false one: the last one counts, in every client format, and none stands before what it ends. */
import { describe, expect, test } from "bun:test";
import { type Format, formats, readers } from "../helpers/answers-by-sdk.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

let answer: () => Response;

const upstream = untilEnd(new UpstreamServer(() => answer()));
const google = { baseUrl: upstream.url, apiKey: "AIza-test" };
const others = Object.fromEntries(["together", "openrouter", "groq"].map((name) => [name, { baseUrl: upstream.url }]));
const troupe = untilEnd(await Troupe.start({ providers: { google, ...others } }));

const events = (...given: readonly object[]) => given.map((event) => `data: ${JSON.stringify(event)}\n\n`);
const counts = { promptTokenCount: 5, candidatesTokenCount: 2, totalTokenCount: 7 };
const gemini = (text: string | object, finishReason?: string) => ({
  candidates: [{ content: { role: "model", parts: [typeof text === "string" ? { text } : text] }, finishReason }],
  usageMetadata: counts,
});
const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };
const chat = (delta: object, finish_reason: string | null = null, more: object = {}) => ({
  id: "c",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, finish_reason, ...more }],
});
const call = (index: number, city: string) => ({
  tool_calls: [
    { index, id: `c${index}`, type: "function", function: { name: "weather", arguments: `{"city":"${city}"}` } },
  ],
});

type Ends = Readonly<Record<Format, string>>;
const stopped: Ends = { chat: "stop", responses: "completed", messages: "end_turn", gemini: "STOP" };
const called: Ends = { chat: "tool_calls", responses: "completed", messages: "tool_use", gemini: "STOP" };
const cut: Ends = { chat: "length", responses: "incomplete", messages: "max_tokens", gemini: "MAX_TOKENS" };

const model = "google/gemini-3-flash-preview";
const texts: [name: string, model: string, string[], ends: Ends][] = [
  ["Gemini's STOP in every event", model, events(gemini("Hel", "STOP"), gemini("lo", "STOP")), stopped],
  ["Gemini's empty STOP first", model, events(gemini("", "STOP"), gemini("Hel"), gemini("lo", "STOP")), stopped],
  [
    "Gemini's STOP before code that ran",
    model,
    events(
      gemini("Hel", "STOP"),
      gemini({ executableCode: { language: "PYTHON", code: "1" } }),
      gemini({ codeExecutionResult: { outcome: "OUTCOME_OK", output: "1" } }),
      gemini("lo", "STOP"),
    ),
    stopped,
  ],
  ["Gemini's last reason", model, events(gemini("Hel", "STOP"), gemini("lo", "MAX_TOKENS")), cut],
  ["Gemini's last reason, alone", model, events(gemini("Hello", "STOP"), gemini("", "MAX_TOKENS")), cut],
  [
    "an end with every fragment",
    "groq/m",
    events(chat({ content: "Hel" }, "stop"), chat({ content: "lo" }, "stop")),
    stopped,
  ],
  [
    "the last end of a chat",
    "groq/m",
    events(chat({ content: "Hel" }, "stop"), chat({ content: "lo" }), chat({}, "length"), { choices: [], usage }),
    cut,
  ],
];

describe.each(texts)("%s", (_name, model, given, ends) => {
  test.each(formats)("%s", async (format) => {
    answer = () => sseResponse([...given, ...(model.startsWith("google") ? [] : ["data: [DONE]\n\n"])]);
    expect(await readers[format](troupe, model, true)).toEqual({ text: "Hello", calls: [], end: ends[format] });
  });
});

test("natively everything goes as it came", async () => {
  const given = events(gemini("Hel", "STOP"), gemini({ executableCode: { code: "1" } }), gemini("lo", "STOP")).join("");
  answer = () => sseResponse([given]);
  const response = await fetch(`${troupe.url}/gateway/v1beta/models/${model}:streamGenerateContent?alt=sse`, {
    method: "POST",
    headers: { "x-goog-api-key": troupe.key },
    body: JSON.stringify({ contents: [{ parts: [{ text: "hi" }] }] }),
  });
  expect(await response.text()).toBe(given);
});

test.each(formats)("parallel calls that each bring an end (Together's) are both made, in %s", async (format) => {
  answer = () =>
    sseResponse([
      ...events(chat(call(0, "Oslo"), "tool_calls"), chat(call(1, "Rome"), "tool_calls")),
      "data: [DONE]\n\n",
    ]);
  const calls = ["Oslo", "Rome"].map((city) => ["weather", `{"city":"${city}"}`]);
  const made = await readers[format](troupe, "together/m", true);
  expect(made).toEqual({ text: "", calls, end: called[format] });
});

test.each(["an event twice", "more behind an end"])("%s is told, and no answer", async (what) => {
  const [first, last] = [chat({ content: "a" }), chat({ content: "b" }, "stop")];
  const given = what === "an event twice" ? [first, last, last] : [last, first];
  answer = () => sseResponse([...events(...given), "data: [DONE]\n\n"]);
  await expect(readers.chat(troupe, "groq/m", true)).rejects.toThrow("groq sent");
});

describe.each([
  ["OpenRouter's own word", "openrouter/m", { native_finish_reason: "max_output_tokens" }],
  ["arguments that are no JSON", "groq/m", {}],
])("half a call, by %s", (_name, model, more) => {
  const half = '{"summary":"The cache warmer raced';
  const delta = {
    tool_calls: [{ index: 0, id: "c0", type: "function", function: { name: "weather", arguments: half } }],
  };
  const whole = { id: "c", object: "chat.completion", created: 1, model: "m", usage };

  test.each(formats)("%s, plain and streamed", async (format) => {
    const choice = { index: 0, message: { role: "assistant", content: null, ...delta }, finish_reason: "tool_calls" };
    answer = () => jsonResponse({ ...whole, choices: [{ ...choice, ...more }] });
    expect((await readers[format](troupe, model, false)).end).toBe(cut[format]);
    answer = () => sseResponse([...events(chat(delta), chat({}, "tool_calls", more)), "data: [DONE]\n\n"]);
    expect((await readers[format](troupe, model, true)).end).toBe(cut[format]);
  });
});

test("a whole call that the limit ended says so too", async () => {
  const reason = { native_finish_reason: "MAX_TOKENS" };
  answer = () => sseResponse([...events(chat(call(0, "Oslo")), chat({}, "tool_calls", reason)), "data: [DONE]\n\n"]);
  expect((await readers.chat(troupe, "openrouter/m", true)).end).toBe("length");
});
