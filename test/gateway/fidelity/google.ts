/** Gemini's answers: https://ai.google.dev/api/generate-content */
import type { Case } from "./reading.ts";

const usage = (prompt: number, candidates: number | undefined, thoughts?: number) => ({
  promptTokenCount: prompt,
  ...(candidates !== undefined && { candidatesTokenCount: candidates }),
  ...(thoughts !== undefined && { thoughtsTokenCount: thoughts }),
  totalTokenCount: prompt + (candidates ?? 0) + (thoughts ?? 0),
  promptTokensDetails: [{ modality: "TEXT", tokenCount: prompt }],
});
const answer = (parts: object[] | undefined, finishReason?: string, more: object = {}, candidate: object = {}) => ({
  candidates: [
    {
      content: { ...(parts !== undefined && { parts }), role: "model" },
      ...(finishReason !== undefined && { finishReason }),
      index: 0,
      ...candidate,
    },
  ],
  usageMetadata: usage(5, 2),
  modelVersion: "models/gemini",
  responseId: "r-1",
  ...more,
});
const stream = (...events: object[]) => events.map((event) => `data: ${JSON.stringify(event)}\r\n\r\n`).join("");
const t = (text: string) => ({ text });
const tools = ["f", "g"].map((name) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties: { a: {} } } },
}));
const unavailable =
  '{\n  "error": {\n    "code": 503,\n    "message": "The model is overloaded.",\n    "status": "UNAVAILABLE"\n  }\n}';
const exhausted =
  '[{\n  "error": {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}]}\n}\n]';
const told = [5, 2, 7];

export const google: readonly Case[] = [
  {
    name: "text, with thoughts in the counts",
    json: answer([t("4")], "STOP", { usageMetadata: { ...usage(15, 1, 72), cachedContentTokenCount: 8 } }),
    want: { text: "4", usage: [15, 73, 88, 8, 72] },
  },
  {
    name: "text in fragments, whose last is empty and signed",
    sse: stream(answer([t("A ")]), answer([t("☃")]), answer([{ text: "", thoughtSignature: "c2ln" }], "STOP")),
    want: { text: "A ☃", usage: told },
  },
  {
    name: "a call without arguments and without an id",
    ask: { tools },
    json: answer([{ functionCall: { name: "f" } }], "STOP"),
    want: { calls: [["f", "{}"]], finish: "tool_calls", usage: told },
  },
  {
    name: "calls in several events, the end in another",
    ask: { tools },
    sse: stream(
      answer([t("So"), { functionCall: { name: "f", args: { a: 1 } }, thoughtSignature: "c2ln" }]),
      answer([{ functionCall: { name: "g", args: { a: "x" }, id: "abcd1234" } }]),
      answer([t("")], "STOP"),
    ),
    want: {
      text: "So",
      calls: [
        ["f", '{"a":1}'],
        ["g", '{"a":"x"}'],
      ],
      finish: "tool_calls",
      usage: told,
    },
  },
  {
    name: "arguments in pieces, the last without an end of its own",
    ask: { tools },
    sse: stream(
      answer([{ functionCall: { name: "f", willContinue: true }, thoughtSignature: "c2ln" }]),
      answer([
        {
          functionCall: {
            partialArgs: [{ jsonPath: "$.a[0].b", stringValue: "Ro", willContinue: true }],
            willContinue: true,
          },
        },
      ]),
      answer([{ functionCall: { partialArgs: [{ jsonPath: "$.a[0].b", stringValue: "me" }], willContinue: true } }]),
      answer([{ functionCall: { partialArgs: [{ jsonPath: "$.a[0].c", numberValue: 0.5 }] } }]),
      answer([t("")], "STOP"),
    ),
    want: { calls: [["f", '{"a":[{"b":"Rome","c":0.5}]}']], finish: "tool_calls", usage: told },
  },
  {
    name: "thoughts that were asked for",
    ask: { include_thoughts: true },
    sse: stream(answer([{ text: "Hm", thought: true }]), answer([{ text: ".", thought: true }, t("Yes")], "STOP")),
    want: { text: "Yes", thoughts: "Hm.", usage: told },
  },
  {
    name: "thoughts that nobody asked for",
    json: answer([{ text: "Hm.", thought: true }, t("Yes")], "STOP"),
    want: { text: "Yes", usage: told },
  },
  {
    name: "all tokens went into thoughts",
    json: answer(undefined, "MAX_TOKENS", { usageMetadata: usage(5, undefined, 95) }),
    want: { finish: "length", usage: [5, 95, 100, 0, 95] },
  },
  {
    name: "unsafe, without content",
    json: {
      candidates: [{ content: {}, finishReason: "SAFETY", index: 0, safetyRatings: [] }],
      usageMetadata: usage(5, undefined),
    },
    want: { finish: "content_filter", usage: [5, 0, 5] },
  },
  {
    name: "recited, after some text",
    sse: stream(answer([t("Once")]), answer([t("")], "RECITATION")),
    want: { text: "Once", finish: "content_filter", usage: told },
  },
  {
    name: "a blocked prompt",
    sse: stream({ promptFeedback: { blockReason: "PROHIBITED_CONTENT" }, usageMetadata: usage(9, undefined) }),
    want: { refusal: "The prompt was blocked: PROHIBITED_CONTENT.", finish: "content_filter", usage: [9, 0, 9] },
  },
  {
    name: "code that the upstream ran, between texts",
    json: answer(
      [
        t("Let me see."),
        { executableCode: { language: "PYTHON", code: "1" } },
        { codeExecutionResult: { outcome: "OUTCOME_OK", output: "1" } },
        t(" 1."),
      ],
      "STOP",
    ),
    want: { text: "Let me see. 1.", usage: told },
  },
  {
    name: "pages that the upstream read",
    json: answer([t("42")], "STOP", {
      usageMetadata: {
        promptTokenCount: 19,
        candidatesTokenCount: 4,
        toolUsePromptTokenCount: 63,
        thoughtsTokenCount: 56,
        totalTokenCount: 142,
      },
    }),
    want: { text: "42", usage: [82, 60, 142, 0, 56] },
  },
  {
    name: "a malformed call",
    json: {
      candidates: [
        {
          content: {},
          finishReason: "MALFORMED_FUNCTION_CALL",
          finishMessage: "Malformed function call: print(f())",
          index: 0,
        },
      ],
      usageMetadata: usage(5, undefined),
    },
    want: { usage: [5, 0, 5] },
  },
  {
    name: "no reason to finish, no index, an average",
    json: {
      candidates: [{ content: { parts: [t("Hello")], role: "model" }, avgLogprobs: -0.1 }],
      usageMetadata: usage(5, 2),
    },
    want: { text: "Hello", usage: told },
  },
  {
    name: "running totals: the last ones",
    sse: stream(
      answer([t("A")], undefined, { usageMetadata: usage(55, 1) }),
      answer([t("B")], "STOP", { usageMetadata: usage(257, 9) }),
    ),
    want: { text: "AB", usage: [257, 9, 266] },
  },
  {
    name: "a stream without counts",
    sse: stream({ candidates: [{ content: { parts: [t("A")] }, finishReason: "STOP" }] }),
    want: { text: "A" },
  },
  {
    name: "a stream in one list",
    sse: `[${JSON.stringify(answer([t("A")]))},\n${JSON.stringify(answer([t("B")], "STOP"))}]`,
    want: { text: "AB", usage: told },
  },
  {
    name: "parts of no known kind",
    json: answer([t("A"), { shiny: { a: 1 } }, t("B")], "STOP", { shiny: 1 }, { shiny: 2 }),
    want: { text: "AB", usage: told },
  },
  {
    name: "an error as the first event",
    sse: `data: ${JSON.stringify(JSON.parse(unavailable))}\r\n\r\n`,
    want: { error: 503 },
  },
  { name: "an error in place of the stream", sse: unavailable, want: { error: 503, body: unavailable } },
  {
    name: "an error that breaks in without a field",
    sse: stream(answer([t("He")])) + unavailable,
    want: { text: "He", breaks: "The model is overloaded." },
  },
  {
    name: "an error in the middle",
    sse: stream(answer([t("He")]), JSON.parse(unavailable)),
    want: { text: "He", breaks: "The model is overloaded." },
  },
  {
    name: "an early end",
    sse: stream(answer([t("He")])),
    want: { text: "He", breaks: "ended its stream before the answer was finished" },
  },
  { name: "a refusal in a list", status: 429, json: exhausted, want: { error: 429, body: exhausted } },
  ...(
    [
      [400, "INVALID_ARGUMENT"],
      [403, "PERMISSION_DENIED"],
      [404, "NOT_FOUND"],
      [429, "RESOURCE_EXHAUSTED"],
      [500, "INTERNAL"],
      [503, "UNAVAILABLE"],
      [504, "DEADLINE_EXCEEDED"],
    ] as const
  ).map(
    ([status, named]): Case => ({
      name: `refused with ${status}`,
      status,
      json: `{"error":{"code":${status},"message":"no","status":"${named}"}}`,
      want: { error: status, body: `{"error":{"code":${status},"message":"no","status":"${named}"}}` },
    }),
  ),
];
