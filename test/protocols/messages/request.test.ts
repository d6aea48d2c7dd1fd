import { expect, test } from "bun:test";
import { checkMessages, innerRequest } from "../../../src/protocols/messages/request.ts";

const ask = { model: "m", max_tokens: 5, messages: [{ role: "user", content: "hi" }] };
const block = (one: object) => ({ ...ask, messages: [{ role: "user", content: [one] }] });

test.each<[object, string]>([
  [{ ...ask, model: undefined }, "Missing required field: model."],
  [{ ...ask, model: "" }, "model must not be empty."],
  [{ ...ask, max_tokens: undefined }, "Missing required field: max_tokens."],
  [{ ...ask, max_tokens: 1.5 }, "max_tokens must be an integer of at least 0."],
  [{ ...ask, messages: "hi" }, "messages must be an array."],
  [
    { ...ask, messages: [{ role: "robot", content: "hi" }] },
    'messages[0].role must be one of "user", "assistant", "system".',
  ],
  [{ ...ask, messages: [{ role: "user" }] }, "Missing required field: messages[0].content."],
  [block({ type: "text" }), "Missing required field: messages[0].content[0].text."],
  [
    block({ type: "image", source: { type: "base64", data: "A" } }),
    "Missing required field: messages[0].content[0].source.media_type.",
  ],
  [block({ type: "tool_result", content: "x" }), "Missing required field: messages[0].content[0].tool_use_id."],
  [{ ...ask, system: [{ type: "text", text: 1 }] }, "system[0].text must be a string."],
  [{ ...ask, tools: [{ name: "f" }] }, "Missing required field: tools[0].input_schema."],
  [{ ...ask, tool_choice: { type: "tool" } }, "Missing required field: tool_choice.name."],
  [{ ...ask, temperature: "2" }, "temperature must be a number from 0 to 1."],
  [{ ...ask, thinking: { type: "enabled" } }, "Missing required field: thinking.budget_tokens."],
  [{ ...ask, stop_sequences: "END" }, "stop_sequences must be an array."],
  [{ ...ask, stream: "yes" }, "stream must be true or false."],
  [
    { ...ask, output_config: { format: { type: "json_schema" } } },
    "Missing required field: output_config.format.schema.",
  ],
])("%j is refused by its place", (body, message) => {
  const given = JSON.parse(JSON.stringify(body));
  expect(() => checkMessages(given)).toThrow(message);
});

const inner = (body: object) => innerRequest(checkMessages(body as never));

test("everything with a place in the inner form is there", () => {
  const cache_control = { type: "ephemeral" };
  const { request, nativeOnly } = inner({
    model: "m",
    max_tokens: 2000,
    system: [{ type: "text", text: "S", cache_control }],
    temperature: 0.5,
    top_k: 3,
    stop_sequences: ["END"],
    metadata: { user_id: "u" },
    service_tier: "standard_only",
    thinking: { type: "enabled", budget_tokens: 1024 },
    output_config: {
      format: { type: "json_schema", schema: { type: "object", properties: {}, additionalProperties: false } },
    },
    tools: [{ name: "f", description: "d", input_schema: { type: "object" } }],
    tool_choice: { type: "tool", name: "f", disable_parallel_tool_use: true },
    future_field: 1,
    messages: [
      { role: "user", content: "hi" },
      {
        role: "assistant",
        content: [
          { type: "text", text: "Let me." },
          { type: "tool_use", id: "a", name: "f", input: { x: 1 } },
          { type: "tool_use", id: "b", name: "f", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "text", text: "see" },
          {
            type: "tool_result",
            tool_use_id: "a",
            content: [
              { type: "text", text: "r" },
              { type: "image", source: { type: "url", url: "https://x.test/i.png" } },
            ],
          },
          { type: "tool_result", tool_use_id: "b", content: "no", is_error: true },
          { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
          { type: "document", title: "T", source: { type: "base64", media_type: "application/pdf", data: "BBBB" } },
          {
            type: "document",
            title: "T",
            context: "C",
            source: { type: "text", media_type: "text/plain", data: "words" },
          },
        ],
      },
    ],
  });
  expect(nativeOnly).toEqual({ refusal: undefined, toolRefusal: undefined } as never);
  expect(request).toEqual({
    model: "m",
    max_completion_tokens: 2000,
    temperature: 0.5,
    top_k: 3,
    stop: ["END"],
    user: "u",
    service_tier: "default",
    thinking: { type: "enabled", budget_tokens: 1024 },
    include_thoughts: true,
    reasoning_effort: "low",
    response_format: {
      type: "json_schema",
      json_schema: {
        name: "answer",
        schema: { type: "object", properties: {}, additionalProperties: false },
        strict: true,
      },
    },
    tools: [{ type: "function", function: { name: "f", description: "d", parameters: { type: "object" } } }],
    tool_choice: { type: "function", function: { name: "f" } },
    parallel_tool_calls: false,
    messages: [
      { role: "system", content: [{ type: "text", text: "S", cache_control }] },
      { role: "user", content: "hi" },
      {
        role: "assistant",
        content: "Let me.",
        tool_calls: [
          { id: "a", type: "function", function: { name: "f", arguments: '{"x":1}' } },
          { id: "b", type: "function", function: { name: "f", arguments: "{}" } },
        ],
      },
      {
        role: "tool",
        tool_call_id: "a",
        content: [
          { type: "text", text: "r" },
          { type: "image_url", image_url: { url: "https://x.test/i.png" } },
        ],
      },
      { role: "tool", tool_call_id: "b", content: "no", is_error: true },
      {
        role: "user",
        content: [
          { type: "text", text: "see" },
          { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
          { type: "file", file: { filename: "T", file_data: "data:application/pdf;base64,BBBB" } },
          { type: "text", text: "T\nC" },
          { type: "text", text: "words" },
        ],
      },
    ],
  } as never);
});

test("what is absent stays absent, and thinking that is turned off stays off", () => {
  expect(inner(ask).request).toEqual({ model: "m", max_completion_tokens: 5, messages: ask.messages } as never);
  expect(inner({ ...ask, thinking: { type: "disabled" } }).request.reasoning_effort).toBe("none");
  expect(inner({ ...ask, thinking: { type: "adaptive" } }).request.reasoning_effort).toBeUndefined();
  expect(inner({ ...ask, tool_choice: { type: "any" } }).request.tool_choice).toBeUndefined();
});

test("a long user id is named by its hash", () => {
  const { user } = inner({ ...ask, metadata: { user_id: "u".repeat(65) } }).request;
  expect(user).toMatch(/^[0-9a-f]{64}$/);
});
