/** Answers of the Responses format: https://platform.openai.com/docs/api-reference/responses-streaming */
import type { Case } from "./reading.ts";

let number = 0;
const event = (type: string, fields: object = {}) => {
  // Each stream is made from its beginning on.
  if (type === "response.created") number = 0;
  return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number++, ...fields })}\n\n`;
};
const usage = {
  input_tokens: 8,
  input_tokens_details: { cached_tokens: 4 },
  output_tokens: 6,
  output_tokens_details: { reasoning_tokens: 2 },
  total_tokens: 14,
};
const response = (output: object[], more: object = {}) => ({
  id: "resp_1",
  object: "response",
  created_at: 1_790_000_000,
  status: "completed",
  model: "served-model",
  error: null,
  incomplete_details: null,
  output,
  usage,
  metadata: {},
  ...more,
});
const message = (...texts: string[]) => ({
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: texts.map((text) => ({ type: "output_text", text, annotations: [], logprobs: [] })),
});
const reasoning = (...texts: string[]) => ({
  type: "reasoning",
  id: "rs_1",
  summary: texts.map((text) => ({ type: "summary_text", text })),
  encrypted_content: "eA==",
  status: "completed",
});
const call = (call_id: string, name: string, args: string) => ({
  type: "function_call",
  id: `fc_${call_id}`,
  call_id,
  name,
  arguments: args,
  status: "completed",
});
const begin = () =>
  event("response.created", { response: response([], { status: "in_progress", usage: null }) }) +
  event("response.in_progress", { response: response([], { status: "in_progress", usage: null }) });
const text = (at: number, ...pieces: string[]) =>
  event("response.output_item.added", { output_index: at, item: { ...message(), status: "in_progress" } }) +
  event("response.content_part.added", {
    output_index: at,
    item_id: "msg_1",
    content_index: 0,
    part: { type: "output_text", text: "" },
  }) +
  pieces
    .map((delta) =>
      event("response.output_text.delta", {
        output_index: at,
        item_id: "msg_1",
        content_index: 0,
        delta,
        logprobs: [],
        obfuscation: "xx",
      }),
    )
    .join("") +
  event("response.output_text.done", { output_index: at, item_id: "msg_1", content_index: 0, text: pieces.join("") }) +
  event("response.output_item.done", { output_index: at, item: message(pieces.join("")) });
const calls = (at: number, id: string, name: string, ...pieces: string[]) =>
  event("response.output_item.added", { output_index: at, item: { ...call(id, name, ""), status: "in_progress" } }) +
  pieces
    .map((delta) => event("response.function_call_arguments.delta", { output_index: at, item_id: `fc_${id}`, delta }))
    .join("") +
  event("response.function_call_arguments.done", {
    output_index: at,
    item_id: `fc_${id}`,
    arguments: pieces.join("") || "{}",
  }) +
  event("response.output_item.done", { output_index: at, item: call(id, name, pieces.join("") || "{}") });
const thought = (at: number, ...pieces: string[]) =>
  event("response.output_item.added", { output_index: at, item: { ...reasoning(), encrypted_content: null } }) +
  pieces
    .map(
      (delta, summary_index) =>
        event("response.reasoning_summary_text.delta", { output_index: at, item_id: "rs_1", summary_index, delta }) +
        event("response.reasoning_summary_text.done", {
          output_index: at,
          item_id: "rs_1",
          summary_index,
          text: delta,
        }),
    )
    .join("") +
  event("response.output_item.done", { output_index: at, item: reasoning(...pieces) });
const end = (output: object[], more: object = {}, type = "response.completed") =>
  event(type, { response: response(output, more) });
const told = [8, 6, 14, 4, 2];
const tools = ["f", "g"].map((name) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties: {} } },
}));

export const responses: readonly Case[] = [
  { name: "text", json: response([message("Hi ☃")]), want: { text: "Hi ☃", usage: told } },
  {
    name: "text in two parts",
    json: response([message("First. ", "Second.")]),
    want: { text: "First. Second.", usage: told },
  },
  {
    name: "text in fragments",
    sse: begin() + text(0, "He", "y") + end([message("Hey")]),
    want: { text: "Hey", usage: told },
  },
  {
    name: "fragments alone: the end holds no output",
    sse: `${begin()}${text(0, "He", "y")}${end([])}data: [DONE]\n\n`,
    want: { text: "Hey", usage: told },
  },
  {
    name: "the end alone",
    sse: begin() + end([reasoning("Hm"), message("Hey"), call("call_1", "f", "{}")]),
    ask: { tools },
    want: { text: "Hey", thoughts: "Hm", calls: [["f", "{}"]], finish: "tool_calls", usage: told },
  },
  {
    name: "thoughts in two parts",
    sse: begin() + thought(0, "One.", "Two.") + text(1, "Yes") + end([reasoning("One.", "Two."), message("Yes")]),
    want: { text: "Yes", thoughts: "One.\n\nTwo.", usage: told },
  },
  {
    name: "thoughts, raw",
    json: response([
      { type: "reasoning", id: "rs_1", summary: [], content: [{ type: "reasoning_text", text: "Hm" }] },
      message("Yes"),
    ]),
    want: { text: "Yes", thoughts: "Hm", usage: told },
  },
  {
    name: "two calls, one without arguments",
    ask: { tools },
    sse: begin() + thought(0) + calls(1, "call_1", "f", '{"a"', ":1}") + calls(2, "call_2", "g") + end([]),
    want: {
      calls: [
        ["f", '{"a":1}'],
        ["g", "{}"],
      ],
      finish: "tool_calls",
      usage: told,
    },
  },
  {
    name: "a call, plain",
    ask: { tools },
    json: response([reasoning(), call("call_1", "f", '{"a":1}')]),
    want: { calls: [["f", '{"a":1}']], finish: "tool_calls", usage: told },
  },
  {
    name: "a search of the upstream's own, with sources",
    sse:
      begin() +
      event("response.output_item.added", {
        output_index: 0,
        item: { type: "web_search_call", id: "ws_1", status: "in_progress" },
      }) +
      event("response.web_search_call.searching", { output_index: 0, item_id: "ws_1" }) +
      event("response.output_item.done", {
        output_index: 0,
        item: { type: "web_search_call", id: "ws_1", status: "completed", action: {} },
      }) +
      text(1, "It is A.") +
      end([message("It is A.")]),
    want: { text: "It is A.", usage: told },
  },
  {
    name: "a refusal",
    json: response([{ ...message(), content: [{ type: "refusal", refusal: "No." }] }]),
    want: { refusal: "No.", usage: told },
  },
  {
    name: "cut short",
    sse:
      begin() +
      text(0, "He") +
      end([], { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }, "response.incomplete"),
    want: { text: "He", finish: "length", usage: told },
  },
  {
    name: "filtered",
    json: response([message("He")], { status: "incomplete", incomplete_details: { reason: "content_filter" } }),
    want: { text: "He", finish: "content_filter", usage: told },
  },
  { name: "nothing", json: response([]), want: { usage: told } },
  {
    name: "events that nobody has heard of",
    sse: begin() + event("response.shiny") + event("keepalive") + text(0, "A") + end([]),
    want: { text: "A", usage: told },
  },
  {
    name: "without event names, and with CRLF",
    sse: (begin() + text(0, "A") + end([])).replace(/event: .*\n/g, "").replaceAll("\n", "\r\n"),
    want: { text: "A", usage: told },
  },
  {
    name: "failed",
    sse:
      begin() +
      end([], { status: "failed", error: { code: "rate_limit_exceeded", message: "Slow" } }, "response.failed"),
    want: { error: 429 },
  },
  {
    name: "failed, with a 200",
    json: response([], { status: "failed", error: { code: "server_error", message: "Oops" } }),
    want: { error: 500 },
  },
  {
    name: "an error event",
    sse:
      begin() +
      event("error", {
        error: { type: "insufficient_quota", code: "insufficient_quota", message: "Pay", param: null },
      }),
    want: { error: 429 },
  },
  {
    name: "an error event, flat, after the text",
    sse:
      begin() +
      text(0, "He").split("event: response.output_text.done")[0]! +
      event("error", { code: "server_error", message: "Oops", param: null }),
    want: { text: "He", breaks: "Oops" },
  },
  {
    name: "an early end",
    sse: begin() + text(0, "He"),
    want: { text: "He", breaks: "ended its stream before the answer was finished" },
  },
  ...[400, 401, 403, 404, 422, 429, 500, 503].map(
    (status): Case => ({
      name: `refused with ${status}`,
      status,
      json: `{"error":{"message":"no","code":${status}}}`,
      want: { error: status, body: `{"error":{"message":"no","code":${status}}}` },
    }),
  ),
];
