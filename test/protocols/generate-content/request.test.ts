/** What a request in Gemini's format becomes, and how what is wrong with it is named. */
import { describe, expect, test } from "bun:test";
import type { JsonObject } from "../../../src/lib/json/json.ts";
import { ApiError } from "../../../src/protocols/errors.ts";
import { generateContent } from "../../../src/protocols/generate-content/generate-content.ts";
import { toJsonSchema } from "../../../src/protocols/generate-content/json-schema.ts";
import { seal } from "../../../src/protocols/state/seal.ts";

const client = (path = "/v1beta/models/a/b:generateContent") => ({
  request: { headers: new Headers() },
  path,
  query: new URLSearchParams(),
});
const parse = (body: JsonObject) => generateContent.parse({ body: "", parsed: body }, client());
const inner = (body: JsonObject) => parse(body).request as JsonObject;
const hi = { contents: [{ parts: [{ text: "hi" }] }] };
const call = (name: string, more: object = {}, args: object = {}) => ({ functionCall: { name, args, ...more } });
const result = (name: string, response: object, more: object = {}) => ({
  functionResponse: { name, response, ...more },
});

const lists = {
  contents: [{ parts: [{ text: "hi" }] }],
  systemInstruction: { parts: [{ text: "S" }] },
  tools: [{ functionDeclarations: [{ name: "f", parameters: { type: "OBJECT", properties: {} } }] }],
  toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["f"] } },
  safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
  generationConfig: {
    ...{ temperature: 0.5, topP: 0.25, topK: 40, maxOutputTokens: 100, candidateCount: 2, seed: 7 },
    ...{ presencePenalty: -1.5, frequencyPenalty: 0.25, responseLogprobs: true, logprobs: 3 },
    ...{ stopSequences: ["x"], responseModalities: ["TEXT"], thinkingConfig: { thinkingBudget: 1024 } },
  },
};

/** One value for each list of one, and each number in a string, as Google's parser takes them. */
function loosened(value: unknown, isSnake: boolean): unknown {
  if (typeof value === "number") return `${value}`;
  if (Array.isArray(value)) return loosened(value[0], isSnake);
  if (typeof value !== "object" || value === null) return value;
  const spelt = (name: string) => (isSnake ? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) : name);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [spelt(name), loosened(one, isSnake)]));
}

test.each([[false], [true]])("one value stands for a list, and a string for a number; snake case: %p", (isSnake) => {
  expect(inner(loosened(lists, isSnake) as JsonObject)).toEqual(inner(lists));
  const config = (maxOutputTokens: string) => ({ ...hi, generationConfig: { maxOutputTokens } });
  expect(inner(config("1e3"))["max_completion_tokens"]).toBe(1000);
  for (const wrong of ["", " 5", "0x10", "5 tokens", "1.5", "NaN"])
    expect(() => parse(config(wrong))).toThrow(ApiError);
});

test.each([["none"], ["Any"], ["auto"], ["validated"]])("an enum's word is read in any case: %s", (mode) => {
  const asked = (word: string) =>
    inner({
      ...hi,
      tools: [{ functionDeclarations: [{ name: "f" }] }],
      toolConfig: { functionCallingConfig: { mode: word } },
    });
  expect(asked(mode)).toEqual(asked(mode.toUpperCase()));
});

test.each<[string, JsonObject, string]>([
  ["no contents", {}, "Missing required field: contents."],
  ["no list of parts", { contents: [{ parts: "hi" }] }, "contents[0].parts must be"],
  ["a text that is none", { contents: [{ parts: [{ text: 1 }] }] }, "contents[0].parts[0].text must be"],
  ["another role", { contents: [{ role: "assistant", parts: [{ text: "hi" }] }] }, "contents[0].role must be"],
  [
    "a call without a name",
    { contents: [{ parts: [{ function_call: { args: {} } }] }] },
    "contents[0].parts[0].functionCall.name",
  ],
  [
    "arguments that are none",
    { contents: [{ parts: [{ functionCall: { name: "f", args: "{}" } }] }] },
    "contents[0].parts[0].functionCall.args must be",
  ],
  [
    "a wrong temperature",
    { ...hi, generation_config: { temperature: "warm" } },
    "generationConfig.temperature must be",
  ],
  ["no tokens", { ...hi, generationConfig: { max_output_tokens: 0 } }, "generationConfig.maxOutputTokens must be"],
  [
    "another mode",
    { ...hi, toolConfig: { functionCallingConfig: { mode: "SOME" } } },
    "toolConfig.functionCallingConfig.mode must be",
  ],
  [
    "two amounts of thinking",
    { ...hi, generationConfig: { thinkingConfig: { thinkingBudget: 1, thinkingLevel: "LOW" } } },
    "generationConfig.thinkingConfig: ",
  ],
  ["a tool that is none", { ...hi, tools: [{ functionDeclarations: [{}] }] }, "tools[0].functionDeclarations[0].name"],
])("%s is named", (_what, body, message) => {
  let thrown: unknown;
  try {
    thrown = parse(body).nativeOnly;
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(ApiError);
  expect((thrown as ApiError).message).toContain(message);
});

describe("contents", () => {
  test("one content, a text, a part, in both spellings, are contents", () => {
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "user", content: "hi" },
    ];
    for (const contents of [
      hi.contents,
      hi.contents[0],
      "hi",
      { text: "hi" },
      { role: "user", parts: { text: "hi" } },
    ]) {
      for (const system of [
        { parts: [{ text: "Be brief." }] },
        { parts: { text: "Be brief." } },
        { text: "Be brief." },
        "Be brief.",
      ]) {
        expect(inner({ contents, systemInstruction: system })).toEqual({ model: "a/b", messages });
        expect(inner({ contents, system_instruction: system })["messages"]).toEqual(messages);
      }
    }
  });

  test("many contents of the model in a row, as streams leave them, are one turn", () => {
    const contents = [
      { role: "user", parts: [{ text: "hi" }] },
      ...["Hel", "lo", ""].map((text) => ({ role: "model", parts: [{ text }] })),
      { role: "model", parts: [call("f", { id: "1" })] },
      { role: "user", parts: [{ text: "and" }, result("f", { output: "x" }, { id: "1" })] },
    ];
    expect(inner({ contents })["messages"]).toEqual([
      { role: "user", content: "hi" },
      {
        role: "assistant",
        content: "Hello",
        tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "1", content: "x" },
      { role: "user", content: "and" },
    ]);
  });

  test("responses without ids answer calls by name and order; ids that stand twice are told apart", () => {
    const contents = [
      { role: "user", parts: [{ text: "hi" }] },
      { role: "model", parts: [call("f", {}, { n: 1 }), call("g"), call("f", {}, { n: 2 })] },
      { role: "function", parts: [result("f", { n: 1 }), result("f", { error: "no" })] },
      { role: "function", parts: [result("g", { result: "two" })] },
      { role: "model", parts: [call("f", { id: "same" })] },
      { role: "user", parts: [result("f", {}, { id: "same" })] },
      { role: "model", parts: [call("f", { id: "same" })] },
      {
        role: "user",
        parts: [
          result("f", { images: 1 }, { id: "same", parts: [{ inlineData: { mimeType: "image/png", data: "AA" } }] }),
        ],
      },
    ];
    const messages = inner({ contents })["messages"] as {
      role: string;
      tool_call_id?: string;
      content: unknown;
      tool_calls?: { id: string }[];
    }[];
    const ids = messages.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id));
    expect(new Set(ids).size).toBe(5);
    expect(ids[3]).toBe("same");
    const results = messages.filter(({ role }) => role === "tool");
    expect(results.map(({ tool_call_id, content }) => [ids.indexOf(tool_call_id!), content])).toEqual([
      [0, '{"n":1}'],
      [2, "no"],
      [1, "two"],
      [3, "{}"],
      [
        4,
        [
          { type: "text", text: '{"images":1}' },
          { type: "image_url", image_url: { url: "data:image/png;base64,AA" } },
        ],
      ],
    ]);
    expect(results[1]).toHaveProperty("is_error", true);
  });

  test("a response that answers nothing is refused where the call is translated", () => {
    const { nativeOnly } = parse({ contents: [{ parts: [result("f", {})] }, ...hi.contents] });
    expect(nativeOnly?.param).toBe("contents[0].parts[0].functionResponse");
  });

  test("media are parts of the inner form, in the usual alphabet of base64", () => {
    const media = (mimeType: string, data: string) => ({ inline_data: { mime_type: mimeType, data } });
    const parts = [
      { text: "a" },
      media("image/png", "a-_="),
      media("audio/mpeg", "bb"),
      media("application/pdf", "cc"),
      media("text/plain", btoa("plain")),
      { fileData: { fileUri: "https://example.com/x.png" } },
      { fileData: { fileUri: "https://example.com/x", mimeType: "application/pdf" } },
    ];
    expect(inner({ contents: [{ parts }] })["messages"]).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "image_url", image_url: { url: "data:image/png;base64,a+/=" } },
          { type: "input_audio", input_audio: { data: "bb", format: "mp3" } },
          { type: "file", file: { filename: "document.pdf", file_data: "data:application/pdf;base64,cc" } },
          { type: "text", text: "plain" },
          { type: "image_url", image_url: { url: "https://example.com/x.png" } },
          { type: "file", file: { filename: "document.pdf", file_data: "https://example.com/x" } },
        ],
      },
    ]);
  });

  test("thinking goes back to its maker: Google's on its part, others out of their envelopes", () => {
    const blocks = [{ type: "thinking", thinking: "Hm.", signature: "s" }];
    const contents = [
      ...hi.contents,
      {
        role: "model",
        parts: [
          { text: "Hm.", thought: true },
          { ...call("f", { id: "1" }), thoughtSignature: seal("anthropic", { blocks }) },
          { ...call("g", { id: "2" }), thought_signature: "native" },
          { text: "", thoughtSignature: seal("openai", { message: { reasoning: [] } }) },
        ],
      },
    ];
    expect((inner({ contents })["messages"] as JsonObject[])[1]).toEqual({
      role: "assistant",
      content: null,
      reasoning_content: "Hm.",
      thinking_blocks: blocks,
      extra_content: { openai: { reasoning: [] } },
      tool_calls: [
        { id: "1", type: "function", function: { name: "f", arguments: "{}" } },
        {
          id: "2",
          type: "function",
          function: { name: "g", arguments: "{}" },
          extra_content: { google: { thought_signature: "native" } },
        },
      ],
    });
  });
});

test("functions: names that others take, schemas, and the choice among them", () => {
  const functionDeclarations = [
    { name: "a.b", parameters: { type: "OBJECT", properties: { x: { type: "STRING" } } } },
    { name: "a_b", parameters_json_schema: { type: "object", properties: { X_Y: { type: "STRING" } } } },
    { name: "none" },
  ];
  const tools = [{ function_declarations: functionDeclarations }];
  const choice = (config: object) =>
    inner({ ...hi, tools, tool_config: { function_calling_config: config } })["tool_choice"];
  const allowed = (mode: string, ...names: string[]) => ({
    type: "allowed_tools",
    allowed_tools: { mode, tools: names.map((name) => ({ type: "function", function: { name } })) },
  });
  const { tools: functions } = inner({ ...hi, tools }) as {
    tools: { function: { name: string; parameters: object } }[];
  };
  expect(functions.map(({ function: one }) => [one.name, one.parameters])).toEqual([
    ["a_b", { type: "object", properties: { x: { type: "string" } } }],
    ["a_b_2", { type: "object", properties: { X_Y: { type: "STRING" } } }],
    ["none", { type: "object", properties: {} }],
  ]);
  expect(choice({})).toBeUndefined();
  expect(choice({ mode: "AUTO" })).toBe("auto");
  expect(choice({ mode: "NONE" })).toBe("none");
  expect(choice({ mode: "ANY" })).toBe("required");
  expect(choice({ mode: "ANY", allowed_function_names: ["a.b"] })).toEqual({
    type: "function",
    function: { name: "a_b" },
  });
  expect(choice({ mode: "ANY", allowedFunctionNames: ["a.b", "none"] })).toEqual(allowed("required", "a_b", "none"));
  expect(choice({ mode: "VALIDATED", allowedFunctionNames: ["none"] })).toEqual(allowed("auto", "none"));
  expect(inner({ ...hi, toolConfig: { functionCallingConfig: { mode: "ANY" } } })).not.toHaveProperty("tool_choice");
  const { options } = parse({ ...hi, tools });
  expect(options.names).toEqual(
    new Map([
      ["a_b", "a.b"],
      ["a_b_2", "a_b"],
    ]),
  );
});

test("generationConfig has its fields of the inner form, and the rest stays for Google", () => {
  const config = {
    temperature: 0,
    topP: 0.5,
    top_k: 3,
    maxOutputTokens: 7,
    candidateCount: 2,
    stopSequences: ["a"],
    seed: 4,
    presencePenalty: 1,
    frequencyPenalty: -1,
    responseLogprobs: true,
    logprobs: 2,
    responseMimeType: "application/json",
    responseSchema: { type: "OBJECT", properties: { a: { type: "INTEGER" } }, required: ["a"] },
    thinkingConfig: { thinkingBudget: 2048, includeThoughts: true },
    mediaResolution: "MEDIA_RESOLUTION_LOW",
  };
  const schema = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };
  const {
    model: _,
    messages: __,
    ...fields
  } = inner({ ...hi, generationConfig: config, safetySettings: [{ category: "c", threshold: "t" }] });
  expect(fields).toEqual({
    temperature: 0,
    top_p: 0.5,
    top_k: 3,
    max_completion_tokens: 7,
    n: 2,
    stop: ["a"],
    seed: 4,
    presence_penalty: 1,
    frequency_penalty: -1,
    logprobs: true,
    top_logprobs: 2,
    response_format: { type: "json_schema", json_schema: { name: "answer", schema } },
    include_thoughts: true,
    thinking_budget: 2048,
    reasoning_effort: "medium",
    generation_config: { mediaResolution: "MEDIA_RESOLUTION_LOW" },
    safety_settings: [{ category: "c", threshold: "t" }],
  });
  const effort = (thinkingConfig: object) => inner({ ...hi, generationConfig: { thinkingConfig } })["reasoning_effort"];
  expect(
    [{ thinkingBudget: 0 }, { thinkingBudget: -1 }, { thinkingLevel: "HIGH" }, { includeThoughts: true }].map(effort),
  ).toEqual(["none", undefined, "high", undefined]);
});

test("schemas of Google's subset are JSON Schema", () => {
  const schema = {
    type: "OBJECT",
    properties: {
      type: { type: "STRING", nullable: true, enum: ["a"] },
      list: {
        type: "ARRAY",
        items: { any_of: [{ type: "NUMBER" }, { type: "BOOLEAN" }], nullable: true },
        min_items: "2",
      },
    },
    property_ordering: ["list", "type"],
  };
  expect(toJsonSchema(schema)).toEqual({
    type: "object",
    properties: {
      type: { type: ["string", "null"], enum: ["a", null] },
      list: {
        type: "array",
        items: { anyOf: [{ type: "number" }, { type: "boolean" }, { type: "null" }] },
        minItems: 2,
      },
    },
  });
});

test("what is found behind the parser has its place in the caller's body", () => {
  const { options } = parse({
    systemInstruction: "s",
    contents: [
      { parts: [{ text: "a" }, { inlineData: { mimeType: "image/png", data: "AA" } }] },
      { role: "model", parts: [{ text: "b" }, call("f")] },
      { parts: [result("f", {})] },
    ],
    tools: [{}, { functionDeclarations: [{ name: "f" }] }],
  });
  const place = (path: string) => generateContent.param!(path, options);
  expect(place("messages[1].content[1].image_url.url")).toBe("contents[0].parts[1]");
  expect(place("messages[2].tool_calls[0]")).toBe("contents[1].parts[1].functionCall");
  expect(place("messages[3].tool_call_id")).toBe("contents[2].parts[0].functionResponse");
  expect(place("messages[0].content")).toBe("systemInstruction");
  expect(place("tools[0].function.parameters")).toBe("tools[1].functionDeclarations[0].parameters");
  expect(place("max_completion_tokens")).toBe("generationConfig.maxOutputTokens");
  expect(place("safety_settings[0].category")).toBe("safetySettings[0].category");
  expect(place("tool_choice.function.name")).toBe("toolConfig.functionCallingConfig");
  expect(place("model")).toBe("model");
});
