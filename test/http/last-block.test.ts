/**
 * The last block of a message is its answer: `claude -p` and the Claude Agent SDK take the text of `content[-1]`, and have an empty
 * result where something else stands there. The state that a maker must get back stands before what it led to, or on its thought.
 */
import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

type Json = Record<string, unknown>;
let answer: { plain: object; events: readonly object[] };

const { troupe, upstream } = await served(
  ({ path, json }) =>
    path.includes("alt=sse") || (json as Json)["stream"] === true
      ? sseResponse(answer.events.map((event) => `data: ${JSON.stringify(event)}\n\n`))
      : jsonResponse(answer.plain),
  (url) => ({
    providers: {
      google: { baseUrl: url, apiKey: "AIza-test" },
      openai: { baseUrl: url },
      openrouter: { baseUrl: url },
      deepseek: { baseUrl: url },
    },
  }),
);

const gemini = (...parts: readonly object[]) => {
  const one = (some: readonly object[], isLast: boolean) => ({
    candidates: [{ content: { role: "model", parts: some }, ...(isLast && { finishReason: "STOP" }) }],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2, totalTokenCount: 7 },
  });
  const plain = parts.reduce<object[]>((joined, part) => {
    const [last, next] = [joined.at(-1) as Json | undefined, part as Json];
    const goesOn = last !== undefined && last["thought"] === next["thought"] && !("functionCall" in next);
    if (goesOn) joined[joined.length - 1] = { ...last, ...next, text: `${last["text"]}${next["text"]}` };
    else joined.push(part);
    return joined;
  }, []);
  return { plain: one(plain, true), events: parts.map((part, at) => one([part], at === parts.length - 1)) };
};

/** Each item as its events; a text in two fragments. */
const responses = (...output: readonly Json[]) => {
  const usage = { input_tokens: 5, output_tokens: 2, total_tokens: 7 };
  const response = { id: "resp_up", object: "response", status: "completed", output, usage };
  const events = output.flatMap((item, output_index): object[] => {
    const at = { output_index, item_id: item["id"] };
    const content = item["content"] as { text: string }[] | undefined;
    const text = content?.[0]?.text ?? "";
    const summary = item["summary"] as { text: string }[] | undefined;
    return [
      { type: "response.output_item.added", output_index, item: { ...item, content: [], summary: [] } },
      ...(summary ?? []).map((part, summary_index) => ({
        type: "response.reasoning_summary_text.delta",
        ...at,
        summary_index,
        delta: part.text,
      })),
      ...(content === undefined ? [] : [text.slice(0, 3), text.slice(3)]).map((delta) => ({
        type: "response.output_text.delta",
        ...at,
        content_index: 0,
        delta,
      })),
      { type: "response.output_item.done", output_index, item },
    ];
  });
  const created = { type: "response.created", response: { ...response, status: "in_progress", output: [] } };
  const all = [created, ...events, { type: "response.completed", response }];
  return { plain: response, events: all.map((event, sequence_number) => ({ ...event, sequence_number })) };
};

/** @param deltas of one choice */
const chat = (...deltas: readonly Json[]) => {
  const message: Json = { role: "assistant" };
  for (const [name, value] of deltas.flatMap((delta) => Object.entries(delta)))
    message[name] = Array.isArray(value)
      ? [...((message[name] as unknown[]) ?? []), ...value]
      : `${message[name] ?? ""}${value}`;
  const frame = { id: "c", created: 1, model: "m" };
  const chunk = (delta: Json, finish_reason: string | null) => ({
    ...frame,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason }],
  });
  return {
    plain: { ...frame, object: "chat.completion", choices: [{ index: 0, message, finish_reason: "stop" }] },
    events: [...deltas.map((delta) => chunk(delta, null)), chunk({}, "stop")],
  };
};

const reasoning = (id: string | undefined, summary: string[], encrypted_content: string) => ({
  ...(id !== undefined && { id }),
  type: "reasoning",
  summary: summary.map((text) => ({ type: "summary_text", text })),
  encrypted_content,
});
const message = (text: string) => ({
  id: "msg_up",
  type: "message",
  role: "assistant",
  status: "completed",
  phase: "final_answer",
  content: [{ type: "output_text", text, annotations: [] }],
});
const encrypted = (data: string) => ({ type: "reasoning.encrypted", data, format: "anthropic-claude-v1" });

/** The state, as the upstream gets it back: names of members and their values. */
function statesIn(value: unknown): unknown[] {
  if (Array.isArray(value)) return value.flatMap(statesIn);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    ["thoughtSignature", "encrypted_content", "data", "phase", "reasoning_content"].includes(name)
      ? [`${name} ${inner}`]
      : statesIn(inner),
  );
}

type Case = readonly [name: string, model: string, answer: typeof answer, types: string[], back: string[]];
/** Called by Responses, whatever the client speaks. */
const gpt = "openai/gpt-5.3-codex";
const cases: readonly Case[] = [
  [
    "Gemini's signature behind its last text, with thoughts",
    "google/gemini-3-flash-preview",
    gemini({ text: "Hm.", thought: true }, { text: "Hel" }, { text: "lo." }, { text: "", thoughtSignature: "sig" }),
    ["thinking", "text"],
    ["thoughtSignature sig"],
  ],
  [
    "Gemini's signature on its only text",
    "google/gemini-3-flash-preview",
    gemini({ text: "Hello.", thoughtSignature: "sig" }),
    ["redacted_thinking", "text"],
    ["thoughtSignature sig"],
  ],
  [
    "OpenAI's reasoning, with a summary",
    gpt,
    responses(reasoning("rs_1", ["Hm."], "enc"), message("Hello.")),
    ["thinking", "text"],
    ["encrypted_content enc", "phase final_answer"],
  ],
  [
    "OpenAI's reasoning, without a summary",
    gpt,
    responses(reasoning("rs_1", [], "enc"), message("Hello.")),
    ["redacted_thinking", "text"],
    ["encrypted_content enc", "phase final_answer"],
  ],
  [
    "reasoning without an id",
    gpt,
    responses(reasoning(undefined, ["Hm."], "enc"), message("Hello.")),
    ["thinking", "text"],
    ["encrypted_content enc", "phase final_answer"],
  ],
  [
    "OpenRouter's details",
    "openrouter/anthropic/claude-sonnet-4.6",
    chat(
      { reasoning: "Hm.", reasoning_details: [{ type: "reasoning.text", text: "Hm.", index: 0 }] },
      { reasoning_details: [encrypted("enc")] },
      { content: "Hel" },
      { content: "lo." },
    ),
    ["thinking", "text"],
    ["data enc"],
  ],
  [
    "thoughts that nobody signed",
    "deepseek/deepseek-reasoner",
    chat({ reasoning_content: "Hm." }, { content: "Hello." }),
    ["thinking", "text"],
    ["reasoning_content Hm."],
  ],
];

describe.each(cases)("%s", (_name, model, given, types, back) => {
  test.each([false, true])("the text is last, and the state comes back (streamed: %p)", async (stream) => {
    const client = new Anthropic({ baseURL: `${troupe.url}/gateway`, apiKey: troupe.key, maxRetries: 0 });
    const tools = [{ name: "weather", input_schema: { type: "object" as const } }];
    const ask = { model, max_tokens: 50, tools, thinking: { type: "adaptive" as const } };
    const first = { role: "user" as const, content: "hi" };
    answer = given;
    const asked = { ...ask, messages: [first] };
    const made = stream ? await client.messages.stream(asked).finalMessage() : await client.messages.create(asked);
    expect(made.content.map(({ type }) => type as string)).toEqual(types);
    expect(made.content.at(-1)).toMatchObject({ type: "text", text: "Hello." });
    for (const block of made.content) if (block.type === "thinking") expect(block.signature).toStartWith("trp1.");
    const again = { role: "user" as const, content: "go on" };
    await client.messages.create({ ...ask, messages: [first, { role: "assistant", content: made.content }, again] });
    expect(statesIn(upstream.last.json)).toEqual(back);
  });
});
