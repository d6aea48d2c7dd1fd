/** Requests of the Responses format in the inner form, and what is refused, by its place. */
import { describe, expect, test } from "bun:test";
import { ApiError } from "../../../src/protocols/errors.ts";
import { parseResponsesRequest } from "../../../src/protocols/responses/request.ts";
import { responses } from "../../../src/protocols/responses/responses.ts";
import { seal } from "../../../src/protocols/state/seal.ts";

const parse = (body: object) => parseResponsesRequest({ model: "a/b", input: "hi", ...body });
const messagesOf = (...input: object[]) => parse({ input }).request.messages as object[];
const call = (id: string, more: object = {}) => ({
  type: "function_call",
  call_id: id,
  name: "f",
  arguments: "{}",
  ...more,
});
const output = (id: string, value: unknown = `of ${id}`) => ({
  type: "function_call_output",
  call_id: id,
  output: value,
});
const inner = (id: string) => ({ id, type: "function", function: { name: "f", arguments: "{}" } });
const result = (id: string) => ({ role: "tool", tool_call_id: id, content: `of ${id}` });

describe("input", () => {
  test("a text, and instructions before it", () => {
    expect(parse({ instructions: "Be brief." }).request.messages).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "hi" },
    ]);
  });

  test("parts of every kind", () => {
    const content = [
      { type: "input_text", text: "a" },
      { type: "input_image", image_url: "https://x/y.png", detail: "low" },
      { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,AA" },
      { type: "input_file", file_url: "https://x/y.pdf" },
      { type: "input_audio", input_audio: { data: "AA", format: "wav" } },
    ];
    expect(messagesOf({ role: "user", content })).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "image_url", image_url: { url: "https://x/y.png", detail: "low" } },
          { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AA" } },
          { type: "file", file: { file_data: "https://x/y.pdf" } },
          { type: "input_audio", input_audio: { data: "AA", format: "wav" } },
        ],
      },
    ]);
  });

  test("what one answer said is one message, and the results of its calls follow in the order of the calls", () => {
    const said = { type: "message", role: "assistant", content: [{ type: "output_text", text: "Wait." }] };
    expect(messagesOf({ role: "user", content: "hi" }, said, call("1"), call("2"), output("2"), output("1"))).toEqual([
      { role: "user", content: "hi" },
      { role: "assistant", content: "Wait.", tool_calls: [inner("1"), inner("2")] },
      result("1"),
      result("2"),
    ]);
  });

  test("calls behind a result are another answer, unless their ids say that it is the same", () => {
    const turn = (...ids: string[]) => ({ role: "assistant", content: null, tool_calls: ids.map(inner) });
    expect(messagesOf(call("1"), output("1"), call("2"), output("2"))).toEqual([
      turn("1"),
      result("1"),
      turn("2"),
      result("2"),
    ]);
    const numbered = (answer: string) => {
      const [first, second] = [call("1", { id: `fc_${answer}_0` }), call("2", { id: `fc_${answer}_1` })];
      return messagesOf(first, output("1"), second, output("2"));
    };
    const ours = "01a223e8f10f724498ff70c2a05d72e4";
    expect(numbered(ours)).toEqual([turn("1", "2"), result("1"), result("2")]);
    // Others number their items too.
    for (const others of ["REDACTED", "abc", ours.toUpperCase(), `${ours}0`, "25de2f84-aaaa-bbbb-cccc-000000000000"])
      expect(numbered(others)).toEqual([turn("1"), result("1"), turn("2"), result("2")]);
  });

  test("two calls of one id are answered in their order, and a later turn's come first", () => {
    const first = [call("c"), call("c"), output("c", "one"), output("c", "two")];
    expect(messagesOf(...first, { role: "user", content: "more" }, call("c"), output("c", "three"))).toMatchObject([
      { role: "assistant" },
      { content: "one" },
      { content: "two" },
      { content: "more" },
      { role: "assistant" },
      { content: "three" },
    ]);
  });

  test("a result without its call is told as text, and a call without its result gets one", () => {
    expect(messagesOf(output("1"), call("2"), { role: "user", content: "go on" })).toEqual([
      { role: "user", content: "Result of the tool call 1:\nof 1" },
      { role: "assistant", content: null, tool_calls: [inner("2")] },
      { role: "tool", tool_call_id: "2", content: "No result was given." },
      { role: "user", content: "go on" },
    ]);
    expect(parse({ input: [output("1")], previous_response_id: "resp_1" }).request.messages).toEqual([
      result("1"),
    ] as never);
  });

  test("thinking state of every maker stands where its provider looks for it", () => {
    const block = { type: "thinking", thinking: "Hm.", signature: "sig" };
    const reasoning = (encrypted_content: string, id = "rs_x_0") => ({
      type: "reasoning",
      id,
      summary: [{ type: "summary_text", text: "Hm." }],
      encrypted_content,
    });
    const [anthropic] = messagesOf(reasoning(seal("anthropic", { blocks: [block] })), call("1"));
    expect(anthropic).toMatchObject({ thinking_blocks: [block], reasoning_content: "Hm." });
    const google = seal("google", { calls: { 1: { thought_signature: "s" } } });
    expect(messagesOf(reasoning(google), call("1"))[0]).toMatchObject({
      tool_calls: [{ id: "1", extra_content: { google: { thought_signature: "s" } } }],
    });
    const native = (id: string) => [{ id, encrypted_content: "gAAA", summary: ["Hm."], call_id: "1" }];
    expect(messagesOf(reasoning("gAAA", "rs_0f"), call("1"))[0]).toMatchObject({
      extra_content: { openai: { reasoning: native("rs_0f") } },
    });
    const uuid = "rs_25de2f84-aaaa-bbbb-cccc-000000000000";
    expect(messagesOf(reasoning("gAAA", uuid), call("1"))[0]).toMatchObject({
      extra_content: { xai: { reasoning: native(uuid) } },
    });
    expect(messagesOf(reasoning("trp1.anthropic.broken!"), call("1"))[0]).not.toHaveProperty("extra_content");
    expect(messagesOf(reasoning("x"))).toEqual([]);
  });
});

test("tools of every kind are functions, named within their namespace", () => {
  const tools = [
    { type: "function", name: "f", description: "F", parameters: { type: "object" }, strict: true },
    { type: "custom", name: "patch", description: "P", format: { type: "grammar", syntax: "lark", definition: "x" } },
    { type: "namespace", name: "mcp__fs", description: "", tools: [{ type: "function", name: "read" }] },
  ];
  const input = [{ type: "function_call", call_id: "1", name: "read", namespace: "mcp__fs", arguments: "{}" }];
  const tool_choice = { type: "allowed_tools", mode: "auto", tools: [{ type: "custom", name: "patch" }] };
  const { request } = parse({ tools, tool_choice, input, parallel_tool_calls: false });
  expect(request.tools).toEqual([
    { type: "function", function: { name: "f", description: "F", parameters: { type: "object" }, strict: true } },
    {
      type: "function",
      function: {
        name: "patch",
        description: expect.stringMatching(/^P\n\nThe input must follow this grammar: .*lark/),
        parameters: { type: "object", properties: { input: { type: "string" } }, required: ["input"] },
      },
    },
    { type: "function", function: { name: "mcp__fs__read", parameters: { type: "object", properties: {} } } },
  ] as never);
  expect(request.messages[0]).toMatchObject({ tool_calls: [{ function: { name: "mcp__fs__read" } }] });
  expect(request.tool_choice).toEqual({
    type: "allowed_tools",
    allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "patch" } }] },
  });
});

test("fields with other names, and those with the same", () => {
  const schema = { type: "object" };
  const { request } = parse({
    max_output_tokens: 99,
    reasoning: { effort: "low", summary: "auto" },
    text: { format: { type: "json_schema", name: "n", schema, strict: true }, verbosity: "low" },
    include: ["message.output_text.logprobs"],
    top_logprobs: 2,
    store: false,
    metadata: { a: "b" },
    temperature: 0.5,
    max_tool_calls: 3,
    truncation: "auto",
    client_metadata: { x: 1 },
  });
  expect(request).toEqual({
    model: "a/b",
    messages: [{ role: "user", content: "hi" }],
    max_completion_tokens: 99,
    reasoning_effort: "low",
    include_thoughts: true,
    reasoning_summary: "auto",
    response_format: { type: "json_schema", json_schema: { name: "n", schema, strict: true } },
    verbosity: "low",
    logprobs: true,
    top_logprobs: 2,
    store: false,
    metadata: { a: "b" },
    temperature: 0.5,
    use_responses_api: true,
  } as never);
});

test.each<[object, string]>([
  [{ model: null }, "model"],
  [{ input: null }, "input"],
  [{ input: [] }, "input"],
  [{ input: [{ role: "boss", content: "x" }] }, "input[0].role"],
  [{ input: [{ role: "user" }] }, "input[0].content"],
  [{ input: [{ text: "x" }] }, "input[0].type"],
  [{ input: [{ type: 3 }] }, "input[0].type"],
  [{ input: [{ role: "user", content: [{ type: "input_text" }] }] }, "input[0].content[0].text"],
  [{ input: [{ role: "user", content: [{ type: "text", text: "x" }] }] }, "input[0].content[0].type"],
  [{ input: [{ role: "user", content: [{ type: "input_image" }] }] }, "input[0].content[0].image_url"],
  [{ input: [{ type: "function_call", call_id: "1", name: "f" }] }, "input[0].arguments"],
  [{ input: [{ type: "function_call_output", output: "x" }] }, "input[0].call_id"],
  [
    { input: [{ type: "function_call_output", call_id: "1", output: [{ type: "output_text", text: "x" }] }] },
    "input[0].output[0].type",
  ],
  [{ tools: [{ type: "function" }] }, "tools[0].name"],
  [{ tools: [{ type: "namespace", name: "n", tools: [{ type: "function" }] }] }, "tools[0].tools[0].name"],
  [{ tool_choice: { type: "function" } }, "tool_choice.name"],
  [{ tool_choice: "any" }, "tool_choice"],
  [{ text: { format: { type: "json_schema", name: "n" } } }, "text.format.schema"],
  [{ text: { format: { type: "xml" } } }, "text.format.type"],
  [{ reasoning: { effort: 3 } }, "reasoning.effort"],
  [{ temperature: "3" }, "temperature"],
  [{ max_output_tokens: 0 }, "max_output_tokens"],
  [{ conversation: "conv_1" }, "conversation"],
])("%j is refused at %s", (body, param) => {
  try {
    throw parse(body).nativeOnly.refusal ?? new Error("it was taken");
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 400, param });
    expect((error as ApiError).message).toContain(param);
  }
});

test.each([
  ["messages[0].content[1].image_url.url", "input[1].content[1].image_url"],
  ["messages[1].tool_calls[0].function.arguments", "input[3].arguments"],
  ["messages[2].content[0]", "input[4].output[0]"],
  ["messages", "input"],
  ["tools[1].function.parameters", "tools[0].tools[1].parameters"],
  ["max_completion_tokens", "max_output_tokens"],
  ["response_format.json_schema.schema", "text.format.schema"],
  ["tool_choice.function.name", "tool_choice.name"],
  ["model", "model"],
])("%s of the inner form is %s here", (innerPath, own) => {
  const { options } = parse({
    input: [
      { type: "reasoning", summary: [] },
      {
        role: "user",
        content: [
          { type: "input_text", text: "a" },
          { type: "input_image", image_url: "x" },
        ],
      },
      { role: "assistant", content: "b" },
      call("1"),
      output("1"),
    ],
    tools: [
      {
        type: "namespace",
        name: "n",
        tools: [
          { type: "function", name: "a" },
          { type: "function", name: "b" },
        ],
      },
    ],
  });
  expect(responses.param!(innerPath, options)).toBe(own);
});
