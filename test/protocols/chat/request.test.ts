import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { largeBody, parseBody } from "../../../src/protocols/body/body.ts";
import { checkChatRequest } from "../../../src/protocols/chat/request.ts";
import { ApiError } from "../../../src/protocols/errors.ts";
import { runs } from "../../helpers/long-form.ts";

const hello = [{ role: "user", content: "hi" }];
const valid = (changes: object) => JSON.stringify({ model: "a/b", messages: hello, ...changes });

const limits = { jsonDepth: 64, jsonValues: 250_000, jsonKeys: 100_000, jsonStringBytes: 20 * 1024 * 1024 };
const parseChatRequest = (text: string, depth: number) =>
  checkChatRequest(parseBody(new TextEncoder().encode(text), { ...limits, jsonDepth: depth }).parsed);

function faultOf(text: string, depth = 64): { code: string; param: string; message: string } {
  try {
    parseChatRequest(text, depth);
  } catch (error) {
    if (error instanceof ApiError) return { code: error.code, param: error.param, message: error.message };
    throw error;
  }
  throw new Error(`accepted: ${text}`);
}

describe("parseChatRequest", () => {
  test("takes every field and role of the format, and carries unknown ones", () => {
    const request = {
      model: "openai/gpt-4.1",
      messages: [
        { role: "developer", content: "d" },
        { role: "system", content: [{ type: "text", text: "s" }], name: "n" },
        {
          role: "user",
          content: [
            { type: "text", text: "t", cache_control: { type: "ephemeral" } },
            { type: "image_url", image_url: { url: "https://x/y.png", detail: "low" } },
            { type: "input_audio", input_audio: { data: "AA==", format: "wav" } },
            { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AA==" } },
          ],
        },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "c1", type: "function", function: { name: "f", arguments: "{}" } },
            { id: "c2", type: "custom", custom: { name: "g", input: "x" } },
          ],
          thinking_blocks: [{ type: "thinking", thinking: "t", signature: "s" }],
        },
        { role: "tool", tool_call_id: "c1", content: "r" },
        { role: "function", name: "f", content: null },
        { role: "assistant", content: [{ type: "refusal", refusal: "no" }], refusal: "no", audio: null },
      ],
      stream: true,
      stream_options: { include_usage: true },
      temperature: 0,
      top_p: 1,
      max_tokens: 1,
      max_completion_tokens: 1,
      presence_penalty: -2,
      frequency_penalty: 2,
      seed: -5,
      reasoning_effort: "xhigh",
      verbosity: "low",
      n: 128,
      stop: ["a", "b", "c", "d"],
      logit_bias: { "50256": -100 },
      logprobs: true,
      top_logprobs: 20,
      tools: [{ type: "function", function: { name: "f", parameters: { type: "object" }, strict: true } }],
      tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [{ type: "function" }] } },
      parallel_tool_calls: false,
      functions: [{ name: "f" }],
      function_call: { name: "f" },
      response_format: { type: "json_schema", json_schema: { name: "x", schema: {} } },
      modalities: ["text", "audio"],
      audio: { voice: "alloy", format: "wav" },
      prediction: { type: "content", content: "x" },
      web_search_options: { search_context_size: "low" },
      store: true,
      metadata: { k: "v" },
      service_tier: "flex",
      user: "u",
      safety_identifier: "s",
      prompt_cache_key: "p",
      previous_response_id: "chatcmpl-1",
      system_cache_control: { type: "ephemeral" },
      never_heard_of: [1, { two: null }],
    };
    expect(parseChatRequest(JSON.stringify(request), 64) as unknown).toEqual(request);
  });

  test("null is absent for every optional key", () => {
    const request = parseChatRequest(valid({ temperature: null, stop: null, tools: null, stream: null }), 64);
    expect(Object.keys(request)).toEqual(["model", "messages"]);
  });

  test.each([
    ["", "it is empty"],
    ['{"model":"a/b",\n  "messages": [}', "value expected at line 2, column 16"],
    ['{"a":1', "close brace expected at line 1, column 7"],
  ])("malformed JSON is told by line and column: %j", (text, where) => {
    const fault = faultOf(text);
    expect(fault).toMatchObject({ code: "invalid_json", param: "" });
    expect(fault.message).toContain(where);
  });

  test("a body that is no object, or nests too deeply, is refused", () => {
    expect(faultOf("[]").code).toBe("invalid_json");
    expect(faultOf('"x"').code).toBe("invalid_json");
    expect(faultOf(valid({ deep: [[[[]]]] }), 4)).toMatchObject({ code: "invalid_json" });
    expect(() => parseChatRequest(valid({ deep: [[[]]] }), 4)).not.toThrow();
    // Brackets inside strings are no nesting, escaped quotes do not end strings.
    expect(() => parseChatRequest(valid({ text: `"[[[[[[[[${"\\".repeat(3)}` }), 4)).not.toThrow();
    expect(faultOf("[".repeat(100_000))).toMatchObject({
      code: "invalid_json",
      message: expect.stringContaining("deep"),
    });
    expect(faultOf(`{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}`).message).toContain("deeper than 64 levels");
  });

  test.each([
    [{ model: undefined }, "missing_field", "model"],
    [{ messages: undefined }, "missing_field", "messages"],
    [{ messages: [] }, "invalid_value", "messages"],
    [{ messages: "hi" }, "invalid_value", "messages"],
    [{ model: 5 }, "invalid_value", "model"],
    [{ model: "" }, "invalid_value", "model"],
    [{ messages: [{ role: "bob", content: "x" }] }, "invalid_value", "messages[0].role"],
    [{ messages: [{ content: "x" }] }, "missing_field", "messages[0].role"],
    [{ messages: [...hello, { role: "user" }] }, "missing_field", "messages[1].content"],
    [{ messages: [{ role: "user", content: 5 }] }, "invalid_value", "messages[0].content"],
    [{ messages: [{ role: "user", content: [] }] }, "invalid_value", "messages[0].content"],
    [{ messages: [{ role: "user", content: [{ type: "video" }] }] }, "invalid_value", "messages[0].content[0].type"],
    [
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: {} }] }] },
      "missing_field",
      "messages[0].content[0].image_url.url",
    ],
    [{ messages: [{ role: "tool", content: "x" }] }, "missing_field", "messages[0].tool_call_id"],
    [
      { messages: [{ role: "assistant", tool_calls: [{ id: "c", type: "function", function: { name: "f" } }] }] },
      "missing_field",
      "messages[0].tool_calls[0].function.arguments",
    ],
    [{ temperature: 2.1 }, "invalid_value", "temperature"],
    [{ temperature: -0.1 }, "invalid_value", "temperature"],
    [{ temperature: "1" }, "invalid_value", "temperature"],
    [{ max_tokens: 0 }, "invalid_value", "max_tokens"],
    [{ max_tokens: 1.5 }, "invalid_value", "max_tokens"],
    [{ max_completion_tokens: 0 }, "invalid_value", "max_completion_tokens"],
    [{ n: 0 }, "invalid_value", "n"],
    [{ n: 129 }, "invalid_value", "n"],
    [{ top_p: 1.1 }, "invalid_value", "top_p"],
    [{ presence_penalty: 2.1 }, "invalid_value", "presence_penalty"],
    [{ stream: "true" }, "invalid_value", "stream"],
    [{ stop: ["1", "2", "3", "4", "5"] }, "invalid_value", "stop"],
    [{ logit_bias: { a: 101 } }, "invalid_value", "logit_bias.a"],
    [{ metadata: { a: 1 } }, "invalid_value", "metadata.a"],
    [{ metadata: { "": "x" } }, "invalid_value", 'metadata[""]'],
    [{ extra_body: "x" }, "invalid_value", "extra_body"],
    [{ reasoning_effort: "" }, "invalid_value", "reasoning_effort"],
    [{ reasoning_effort: "x".repeat(65) }, "invalid_value", "reasoning_effort"],
    [{ reasoning_effort: 3 }, "invalid_value", "reasoning_effort"],
    [{ response_format: { type: "xml" } }, "invalid_value", "response_format.type"],
    [{ response_format: { type: "json_schema" } }, "missing_field", "response_format.json_schema"],
    [{ tools: [{ type: "function", function: {} }] }, "missing_field", "tools[0].function.name"],
    [{ tool_choice: { type: "function" } }, "missing_field", "tool_choice.function"],
    [{ tools: [{ type: "custom" }] }, "missing_field", "tools[0].custom"],
    [{ tools: [{ function: { name: "f" } }] }, "missing_field", "tools[0].type"],
    [{ tools: [{ type: "x".repeat(65) }] }, "invalid_value", "tools[0].type"],
    [{ tools: [{ type: "" }] }, "invalid_value", "tools[0].type"],
    [{ tool_choice: "maybe" }, "invalid_value", "tool_choice"],
    [{ stream_options: { include_usage: true } }, "invalid_value", "stream_options"],
    [{ top_logprobs: 3 }, "invalid_value", "top_logprobs"],
    [{ store: "yes" }, "invalid_value", "store"],
    [{ previous_response_id: 5 }, "invalid_value", "previous_response_id"],
  ])("%j is %s at %s", (changes, code, param) => {
    const fault = faultOf(valid(changes));
    expect(fault).toMatchObject({ code, param });
    expect(fault.message).toContain(param);
  });

  test("a key of metadata that is too long is named, and cut", () => {
    const fault = faultOf(valid({ metadata: { ["k".repeat(10_000)]: "v" } }));
    expect(fault.code).toBe("invalid_value");
    expect(fault.param).toMatch(/^metadata\["k{64,}…$/);
    expect(fault.param.length).toBeLessThanOrEqual(256);
    expect(fault.message).toBe(`${fault.param} must be named by 1 to 64 characters.`);
  });

  test("metadata is taken exactly when each key and value is within its bounds", () => {
    const key = fc.oneof(
      fc.string({ maxLength: 70, unit: "binary" }),
      fc.nat(70).map((length) => "k".repeat(length)),
    );
    fc.assert(
      fc.property(
        fc.dictionary(key, fc.string({ maxLength: 3 }), { maxKeys: 4, noNullPrototype: true }),
        (metadata) => {
          const fits = Object.keys(metadata).every((name) => name.length >= 1 && name.length <= 64);
          const check = () => checkChatRequest({ model: "a/b", messages: hello, metadata });
          if (fits) expect(check().metadata).toEqual(metadata);
          else expect(check).toThrow("must be named by 1 to 64 characters");
        },
      ),
    );
  });

  test("a tool of a type that is not known is carried as it came, and so is a choice of it", () => {
    const changes = {
      tools: [
        { type: "mcp", server_label: "x", function: {} },
        { type: "builtin_function", function: { name: "$web" } },
      ],
      tool_choice: { type: "mcp", server_label: "x" },
      reasoning_effort: "default",
    };
    expect(parseChatRequest(valid(changes), 64) as unknown).toEqual(JSON.parse(valid(changes)));
  });

  test("a message says what is allowed", () => {
    expect(faultOf(valid({ temperature: 3 })).message).toBe("temperature must be a number from 0 to 2.");
    expect(faultOf(valid({ verbosity: "x" })).message).toBe('verbosity must be "low" or "medium" or "high".');
  });

  test("standard fields in a literal extra_body count and are checked; the top level wins", () => {
    const extra = { temperature: 1, stream: true, top_k: 5, include_thoughts: true };
    expect(parseChatRequest(valid({ temperature: 0, extra_body: extra }), 64) as unknown).toEqual({
      model: "a/b",
      messages: hello,
      temperature: 0,
      stream: true,
      extra_body: { top_k: 5, include_thoughts: true },
    });
    expect(faultOf(valid({ extra_body: { temperature: 3 } }))).toMatchObject({ param: "extra_body.temperature" });
  });
});

describe("a large body", () => {
  const encode = (text: string) => new TextEncoder().encode(text);
  /** As a large body, as a small one, and as JSON.parse has it: the value, or that there is none. */
  const readings = (text: string) => {
    const large = " ".repeat(largeBody) + text;
    return [
      parseOf(() => parseBody(encode(large), limits).parsed),
      parseOf(() => parseBody(encode(text), limits).parsed),
    ];
  };
  const parseOf = (parse: () => unknown) => {
    try {
      return { value: parse() };
    } catch (error) {
      return { error: error instanceof ApiError ? error.code : error };
    }
  };

  test("is read as a small one is, whatever is wrong with it", () => {
    const one = fc.json({ maxDepth: 3, stringUnit: "grapheme" });
    const edit = fc.record({
      at: fc.nat(),
      length: fc.nat(2),
      text: fc.constantFrom("", ",", "}", '"', "\\", "{}", "\n", "\0", "\u2028", "0", "-"),
    });
    fc.assert(
      fc.property(one, fc.array(edit, { maxLength: 2 }), (json, edits) => {
        let text = `{"a":${json}}`;
        for (const { at, length, text: put } of edits) {
          const start = at % (text.length + 1);
          text = text.slice(0, start) + put + text.slice(start + length);
        }
        const [large, small] = readings(text);
        expect(large).toEqual(small!);
      }),
      { numRuns: runs(500) },
    );
  });

  test.each([
    '{"a":1}{"b":2}',
    '{"a":1}\n{"b":2}',
    '{"a":1}\n',
    '{"a":1',
    "[1]",
    "null",
    "",
    '{"a":1}\0',
    "{'a':1}",
    '{"a":1,}',
    '{"__proto__":1,"a":1,"a":2}',
  ])("%p is no exception", (text) => {
    const [large, small] = readings(text);
    expect(large).toEqual(small!);
  });

  test("keeps the bytes that came, without a byte-order mark", () => {
    const text = `{"a":"${"é".repeat(largeBody)}"}`;
    const bytes = encode(text);
    expect(parseBody(bytes, limits).body).toBe(bytes);
    const marked = parseBody(encode(`\ufeff${text}`), limits);
    expect(marked).toEqual({ body: bytes, parsed: JSON.parse(text), keys: 1, hasOddNumbers: false });
    expect(parseBody(encode(`\ufeff{"a":"é"}`), limits)).toEqual({ body: '{"a":"é"}', parsed: { a: "é" }, keys: 1 });
  });

  test("tells that it breaks (where is not looked for), that it is no UTF-8, or nests too deeply", () => {
    const filling = `"${"x".repeat(largeBody)}"`;
    expect(() => parseBody(encode(`{"a":${filling},\n "b":}`), limits)).toThrow(/is not valid JSON\.$/);
    expect(() =>
      parseBody(
        Uint8Array.from(encode(`{"a":${filling}}`), (byte, at) => (at === 99 ? 0xff : byte)),
        limits,
      ),
    ).toThrow("not valid UTF-8");
    expect(() => parseBody(encode(`{"a":${filling},"b":[[[1]]]}`), { ...limits, jsonDepth: 4 })).not.toThrow();
    expect(() => parseBody(encode(`{"a":${filling},"b":[{"c":[[]]}]}`), { ...limits, jsonDepth: 4 })).toThrow(
      "deeper than 4 levels",
    );
  });
});
