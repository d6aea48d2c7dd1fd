/** Answers of the Messages API: https://platform.claude.com/docs/en/build-with-claude/streaming */
import type { Case } from "./reading.ts";

const event = (type: string, fields: object = {}) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
const start = (usage: object | null = { input_tokens: 3, output_tokens: 1 }) =>
  event("message_start", {
    message: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "claude",
      content: [],
      stop_reason: null,
      usage,
    },
  });
const block = (index: number, content_block: object, ...deltas: object[]) =>
  event("content_block_start", { index, content_block }) +
  deltas.map((delta) => event("content_block_delta", { index, delta })).join("") +
  event("content_block_stop", { index });
const said = (...texts: string[]) => texts.map((text) => ({ type: "text_delta", text }));
const text = (index: number, ...texts: string[]) => block(index, { type: "text", text: "" }, ...said(...texts));
const thought = (index: number, thinking: string, signature = "c2ln") =>
  block(
    index,
    { type: "thinking", thinking: "", signature: "" },
    { type: "thinking_delta", thinking },
    { type: "signature_delta", signature },
  );
const tool = (index: number, id: string, name: string, ...pieces: string[]) =>
  block(
    index,
    { type: "tool_use", id, name, input: {} },
    ...pieces.map((partial_json) => ({ type: "input_json_delta", partial_json })),
  );
const end = (stop_reason: string, usage: object | null = { output_tokens: 7 }, more: object = {}) =>
  event("message_delta", { delta: { stop_reason, stop_sequence: null, ...more }, usage }) + event("message_stop");
const whole = (content: object[], stop_reason: string, more: object = {}) => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude",
  content,
  stop_reason,
  stop_sequence: null,
  usage: { input_tokens: 3, output_tokens: 7 },
  ...more,
});
const overloaded =
  '{"type":"error","error":{"details":null,"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}';
const tools = ["f", "g"].map((name) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties: {} } },
}));
const search = [
  { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} },
  {
    type: "web_search_tool_result",
    tool_use_id: "srvtoolu_1",
    content: [{ type: "web_search_result", url: "https://a.example", title: "A", encrypted_content: "x" }],
  },
];

export const anthropic: readonly Case[] = [
  {
    name: "cache written and read",
    json: whole([{ type: "text", text: "Hi" }], "end_turn", {
      usage: {
        input_tokens: 3,
        cache_creation_input_tokens: 418,
        cache_read_input_tokens: 1111,
        output_tokens: 33,
        cache_creation: { ephemeral_5m_input_tokens: 418, ephemeral_1h_input_tokens: 0 },
      },
    }),
    want: { text: "Hi", usage: [1532, 33, 1565, 1111] },
  },
  {
    name: "padded lines, pings, and an input that grows",
    sse:
      start().replaceAll("\n\n", "          \n\n") +
      event("ping") +
      text(0, "H", "i ☃") +
      event("ping") +
      end("end_turn", { input_tokens: 61, output_tokens: 2 }),
    want: { text: "Hi ☃", usage: [61, 2, 63] },
  },
  {
    name: "a call without arguments",
    ask: { tools },
    sse: start() + tool(0, "toolu_1", "f", "") + end("tool_use"),
    want: { calls: [["f", "{}"]], finish: "tool_calls", usage: [3, 7, 10] },
  },
  {
    name: "text, then two calls",
    ask: { tools },
    sse:
      start() +
      text(0, "Let me see.") +
      tool(1, "toolu_1", "f", "", '{"a": ', '"b \\" c"}') +
      tool(2, "toolu_2", "g", '{"x":1}') +
      end("tool_use"),
    want: {
      text: "Let me see.",
      calls: [
        ["f", '{"a": "b \\" c"}'],
        ["g", '{"x":1}'],
      ],
      finish: "tool_calls",
      usage: [3, 7, 10],
    },
  },
  {
    name: "thoughts, hidden ones among them",
    ask: { thinking_budget: 2000 },
    sse:
      start() +
      thought(0, "Hm.") +
      block(1, { type: "redacted_thinking", data: "eA==" }) +
      text(2, "Yes") +
      end("end_turn", { output_tokens: 9, output_tokens_details: { thinking_tokens: 4 } }),
    want: { text: "Yes", thoughts: "Hm.", usage: [3, 9, 12, 0, 4] },
  },
  {
    name: "thoughts between texts and calls",
    ask: { thinking_budget: 2000, tools },
    sse:
      start() +
      text(0, "\n\n") +
      thought(1, "One.") +
      text(2, "So") +
      thought(3, "Two.") +
      tool(4, "toolu_1", "f", "{}") +
      end("tool_use"),
    want: { text: "\n\nSo", thoughts: "One.\n\nTwo.", calls: [["f", "{}"]], finish: "tool_calls", usage: [3, 7, 10] },
  },
  {
    name: "a search of the upstream's own, with text around it",
    json: whole(
      [
        { type: "text", text: "I'll search. " },
        ...search,
        {
          type: "text",
          text: "It is A.",
          citations: [
            {
              type: "web_search_result_location",
              url: "https://a.example",
              title: "A",
              cited_text: "x",
              encrypted_index: "y",
            },
          ],
        },
      ],
      "end_turn",
    ),
    want: { text: "I'll search. It is A.", usage: [3, 7, 10] },
  },
  {
    name: "the same, streamed, with the caller's own call after it",
    ask: { tools },
    sse:
      start() +
      text(0, "I'll search. ") +
      block(1, search[0]!, { type: "input_json_delta", partial_json: '{"query":"a"}' }) +
      block(2, search[1]!) +
      tool(3, "toolu_1", "f", '{"a":1}') +
      end("tool_use"),
    want: { text: "I'll search. ", calls: [["f", '{"a":1}']], finish: "tool_calls", usage: [3, 7, 10] },
  },
  {
    name: "a pause",
    json: whole([{ type: "text", text: "So far" }, search[0]!], "pause_turn"),
    want: { text: "So far", usage: [3, 7, 10] },
  },
  {
    name: "a refusal before any text",
    sse:
      start() +
      end(
        "refusal",
        { output_tokens: 5 },
        { stop_details: { type: "refusal", category: "cyber", explanation: "Blocked." } },
      ),
    want: { refusal: "Blocked.", finish: "content_filter", usage: [3, 5, 8] },
  },
  { name: "no content", json: whole([], "end_turn"), want: { usage: [3, 7, 10] } },
  {
    name: "cut within a call",
    ask: { tools },
    sse: start() + tool(0, "toolu_1", "f", '{"a": "lon') + end("max_tokens"),
    want: { calls: [["f", '{"a": "lon']], finish: "length", usage: [3, 7, 10] },
  },
  {
    name: "the window is full",
    json: whole([{ type: "text", text: "x" }], "model_context_window_exceeded"),
    want: { text: "x", finish: "length", usage: [3, 7, 10] },
  },
  {
    name: "a stop sequence",
    json: whole([{ type: "text", text: "x" }], "stop_sequence", { stop_sequence: "END" }),
    want: { text: "x", usage: [3, 7, 10] },
  },
  {
    name: "an answer by a tool, as a schema asks for it of an older model",
    model: "claude-3-5-haiku-20241022",
    ask: {
      response_format: {
        type: "json_schema",
        json_schema: { name: "city", schema: { type: "object", properties: {} } },
      },
    },
    sse: start() + tool(0, "toolu_1", "city", "", '{"name":', '"Rome"}') + end("tool_use"),
    want: { text: '{"name":"Rome"}', usage: [3, 7, 10] },
  },
  {
    name: "blocks, fragments and events that nobody has heard of",
    sse:
      start() +
      event("shiny") +
      block(0, { type: "fallback", from: {}, to: {} }) +
      block(1, { type: "text", text: "" }, { type: "shiny_delta", shine: 1 }, ...said("Hi")) +
      block(2, { type: "container_upload", file_id: "f" }) +
      end("end_turn"),
    want: { text: "Hi", usage: [3, 7, 10] },
  },
  {
    name: "blocks in the beginning already",
    ask: { tools },
    sse:
      event("message_start", {
        message: whole(
          [
            { type: "code_execution_tool_result", tool_use_id: "s", content: {} },
            { type: "tool_use", id: "toolu_1", name: "f", input: { a: 1 } },
          ],
          "tool_use",
        ),
      }) + event("message_stop"),
    want: { calls: [["f", '{"a":1}']], finish: "tool_calls", usage: [3, 7, 10] },
  },
  {
    name: "without event names, and with CRLF",
    sse: (start() + text(0, "Hi") + end("end_turn")).replace(/event: .*\n/g, "").replaceAll("\n", "\r\n"),
    want: { text: "Hi", usage: [3, 7, 10] },
  },
  {
    name: "overloaded, as a 200",
    sse: `event: error\ndata: ${overloaded}\n\n`,
    want: { error: 529, body: overloaded },
  },
  {
    name: "overloaded, after the frame only",
    sse: `${start()}event: error\ndata: ${overloaded}\n\n`,
    want: { error: 529, body: overloaded },
  },
  {
    name: "overloaded, in the middle",
    sse: `${start()}${text(0, "He")}event: error\ndata: ${overloaded}\n\n`,
    want: { text: "He", breaks: "Overloaded" },
  },
  {
    name: "an early end",
    sse: start() + text(0, "He"),
    want: { text: "He", breaks: "ended its stream before the answer was finished" },
  },
  ...(
    [
      [400, "invalid_request_error"],
      [401, "authentication_error"],
      [403, "permission_error"],
      [404, "not_found_error"],
      [413, "request_too_large"],
      [429, "rate_limit_error"],
      [500, "api_error"],
      [529, "overloaded_error"],
    ] as const
  ).map(
    ([status, type]): Case => ({
      name: `refused with ${status}`,
      status,
      json: `{"type":"error","error":{"type":"${type}","message":"no"},"request_id":"r"}`,
      want: { error: status, body: `{"type":"error","error":{"type":"${type}","message":"no"},"request_id":"r"}` },
    }),
  ),
];
