/** Names of tools that an upstream does not take, and calls that a model wrapped in one: the caller sees neither. */
import { describe, expect, test } from "bun:test";
import { StreamFold } from "../../src/protocols/chat/fold.ts";
import type { ChatRequest, ChunkBody } from "../../src/protocols/chat/schema.ts";
import { bedrock } from "../../src/providers/bedrock/bedrock.ts";
import { google } from "../../src/providers/google/google.ts";
import { openai } from "../../src/providers/openai-compatible/openai.ts";
import type { AnsweredCall, RemoteProvider } from "../../src/providers/provider.ts";
import { vertex } from "../../src/providers/vertex/vertex.ts";

type Json = Record<string, unknown>;

const tool = (name: string) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties: { a: { type: "string" } } } },
});
const callOf = (name: string, model: string, request: object): AnsweredCall => ({
  model,
  request: { model, messages: [{ role: "user", content: "Hi" }], ...request } as ChatRequest,
  extras: {},
  account: { name, baseUrl: `https://${name}.test/v1`, models: [], options: { project: "p" }, modelRules: [] },
  media: new Map(),
  answerId: "chatcmpl-1",
});
const sent = (provider: RemoteProvider, call: AnsweredCall): Json => JSON.parse(provider.encode(call).body as string);
const folded = (bodies: readonly ChunkBody[]) => {
  const fold = new StreamFold();
  fold.push(bodies);
  return fold.result().choices[0]!;
};

describe("names at Google begin with a letter", () => {
  const names = ["0", "3d.render", "_3d.render", "weather"];
  const request = {
    tools: names.map(tool),
    tool_choice: { type: "function", function: { name: "0" } },
    messages: [
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c1", type: "function", function: { name: "3d.render", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "c1", content: "ok" },
    ],
  };
  test.each([
    ["google", google],
    ["vertex", vertex],
  ] as const)("%s", (name, provider) => {
    const call = callOf(name, "gemini-2.5-flash", request);
    const body = sent(provider, call) as { tools: Json[]; contents: { parts: Json[] }[]; toolConfig: Json };
    const declared = (body.tools[0]!["functionDeclarations"] as Json[]).map((one) => one["name"]);
    expect(declared).toEqual(["_0", "_3d.render_2", "_3d.render", "weather"]);
    expect(body.contents[1]!.parts[0]!["functionCall"]).toMatchObject({ name: "_3d.render_2" });
    expect(body.contents[2]!.parts[0]!["functionResponse"]).toMatchObject({ name: "_3d.render_2" });
    expect(body.toolConfig["functionCallingConfig"]).toEqual({ mode: "ANY", allowedFunctionNames: ["_0"] });
    const parts = ["_0", "_3d.render_2", "_3d.render", "weather"].map((one) => ({
      functionCall: { name: one, args: {} },
    }));
    const answer = { candidates: [{ content: { parts }, finishReason: "STOP" }] };
    const given = provider.decode(answer, JSON.stringify(answer), call).choices[0]!.message.tool_calls!;
    expect(given.map((one) => (one as { function: Json }).function["name"])).toEqual(names);
    const decoder = provider.streamDecoder(call);
    const streamed = folded(decoder.push({ event: "", id: "", data: JSON.stringify(answer) })).message.tool_calls!;
    expect(streamed.map((one) => (one as { function: Json }).function["name"])).toEqual(names);
  });

  test("a request with legal names alone is as it was", () => {
    const call = callOf("google", "gemini-2.5-flash", { tools: [tool("a"), tool("a-b:c.d")] });
    expect((sent(google, call)["tools"] as Json[])[0]!["functionDeclarations"]).toMatchObject([
      { name: "a" },
      { name: "a-b:c.d" },
    ]);
  });
});

describe("at Bedrock's Converse", () => {
  const long = `mcp.${"x".repeat(70)}`;
  const request = {
    tools: [tool("files.read"), tool("files_read"), tool(long)],
    messages: [
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c1", type: "function", function: { name: "gone/one", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "c1", content: "ok" },
    ],
  };
  const call = callOf("bedrock", "amazon.nova-pro-v1:0", request);

  test("specifications, replays and choices are clean, and answers have the caller's own names", () => {
    const body = sent(bedrock, {
      ...call,
      request: { ...call.request, tool_choice: { type: "function", function: { name: "files.read" } } } as ChatRequest,
    });
    const { toolConfig, messages } = body as {
      toolConfig: { tools: Json[]; toolChoice: Json };
      messages: { content: Json[] }[];
    };
    const specs = toolConfig.tools.map(({ toolSpec }) => (toolSpec as Json)["name"] as string);
    expect(specs).toEqual(["files_read_2", "files_read", `mcp_${"x".repeat(60)}`]);
    expect(toolConfig.toolChoice).toEqual({ tool: { name: "files_read_2" } });
    expect(messages[1]!.content[0]!["toolUse"]).toMatchObject({ name: "gone_one" });
    const content = specs.map((name, at) => ({ toolUse: { toolUseId: `t${at}`, name, input: {} } }));
    const answer = { output: { message: { role: "assistant", content } }, stopReason: "tool_use", usage: {} };
    const given = bedrock.decode(answer, JSON.stringify(answer), call).choices[0]!.message.tool_calls!;
    expect(given.map((one) => (one as { function: Json }).function["name"])).toEqual([
      "files.read",
      "files_read",
      long,
    ]);
  });

  const events = (...given: readonly (readonly [string, Json])[]) => {
    const decoder = bedrock.streamDecoder(call);
    return folded(given.flatMap(([event, body]) => decoder.push({ event, id: "event", data: JSON.stringify(body) })));
  };
  const end = [
    ["messageStop", { stopReason: "end_turn" }],
    ["metadata", { usage: { inputTokens: 1, outputTokens: 1 } }],
  ] as const;

  test("a start that says nothing costs no text", () => {
    const said = events(
      ["messageStart", { role: "assistant" }],
      ["contentBlockStart", { contentBlockIndex: 0, start: {} }],
      ["contentBlockDelta", { contentBlockIndex: 0, delta: { text: "Hel" } }],
      ["contentBlockDelta", { contentBlockIndex: 0, delta: { text: "lo" } }],
      ["contentBlockStop", { contentBlockIndex: 0 }],
      ["contentBlockStart", { contentBlockIndex: 1, start: {} }],
      ["contentBlockStop", { contentBlockIndex: 1 }],
      ["contentBlockStart", { contentBlockIndex: 2, start: { toolUse: { toolUseId: "t", name: "files_read_2" } } }],
      ["contentBlockDelta", { contentBlockIndex: 2, delta: { toolUse: { input: "{}" } } }],
      ["contentBlockStop", { contentBlockIndex: 2 }],
      ...end,
    );
    expect(said.message.content).toBe("Hello");
    expect(said.message.tool_calls).toMatchObject([{ id: "t", function: { name: "files.read", arguments: "{}" } }]);
  });
});

describe("calls wrapped in one of `parallel`", () => {
  const uses = (...list: object[]) => JSON.stringify({ tool_uses: list });
  const use = (name: string, parameters: unknown = { a: name }) => ({
    recipient_name: `functions.${name}`,
    parameters,
  });
  const request = { tools: [tool("f"), tool("g")] };
  const wrapped = uses(use("f"), use("g"));
  const expected = [
    { id: "c1_0", type: "function", function: { name: "f", arguments: '{"a":"f"}' } },
    { id: "c1_1", type: "function", function: { name: "g", arguments: '{"a":"g"}' } },
  ];
  const chatAnswer = (name: string, written: string) => ({
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c1", type: "function", function: { name, arguments: written } }],
        },
        finish_reason: "tool_calls",
      },
    ],
  });
  const plain = (body: Json, more: object = request, extras: object = {}) =>
    openai.decode(body, JSON.stringify(body), { ...callOf("openai", "gpt-4.1", more), extras: extras as never })
      .choices[0]!;
  const responses = (written: string) => ({
    ...{ id: "resp_1", object: "response", status: "completed", model: "m" },
    output: [{ type: "function_call", id: "fc_1", call_id: "c1", name: "parallel", arguments: written }],
  });
  const mode = { use_responses_api: true };

  test("go on as what they are, by chat completions and by Responses", () => {
    for (const name of ["parallel", "multi_tool_use.parallel"])
      expect(plain(chatAnswer(name, wrapped)).message.tool_calls).toEqual(expected as never);
    expect(plain(responses(wrapped), request, mode).message.tool_calls).toEqual(expected as never);
  });

  test.each([
    ["a tool that was not declared", uses(use("f"), use("h"))],
    ["no list", "{}"],
    ["no JSON", '{"tool_uses": ['],
    ["parameters that are none", uses(use("f", "x"))],
    ["another recipient", uses({ recipient_name: "f", parameters: {} })],
  ])("with %s the call stays as it came", (_, written) => {
    expect(plain(chatAnswer("parallel", written)).message.tool_calls).toMatchObject([
      { id: "c1", function: { name: "parallel", arguments: written } },
    ]);
  });

  test("a declared tool of that name is the caller's own", () => {
    const own = { tools: [tool("parallel"), tool("f"), tool("g")] };
    expect(plain(chatAnswer("parallel", wrapped), own).message.tool_calls).toMatchObject([{ id: "c1" }]);
  });

  const streamed = (chunks: readonly Json[], extras: object = {}) => {
    const decoder = openai.streamDecoder({ ...callOf("openai", "gpt-4.1", request), extras: extras as never });
    return chunks.flatMap((one) =>
      decoder.push({ event: String(one["type"] ?? ""), id: "", data: JSON.stringify(one) }),
    );
  };

  test("streamed, they come whole before the end, behind the calls that stand beside them", () => {
    const call = (index: number, more: Json) => ({
      choices: [{ index: 0, delta: { tool_calls: [{ index, ...more }] }, finish_reason: null }],
    });
    const begin = (index: number, id: string, name: string) =>
      call(index, { id, type: "function", function: { name, arguments: "" } });
    const bodies = streamed([
      begin(0, "c1", "parallel"),
      call(0, { function: { arguments: wrapped.slice(0, 20) } }),
      begin(1, "c2", "f"),
      call(0, { function: { arguments: wrapped.slice(20) } }),
      call(1, { function: { arguments: "{}" } }),
      { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
    ]);
    const { message, finish_reason } = folded(bodies);
    expect(message.tool_calls).toEqual([
      { id: "c2", type: "function", function: { name: "f", arguments: "{}" } },
      ...expected,
    ] as never);
    expect(finish_reason).toBe("tool_calls");
    const numbers = bodies.flatMap(({ choices }) =>
      choices.flatMap(({ delta }) => (delta.tool_calls ?? []).map(({ index }) => index)),
    );
    expect([...new Set(numbers)]).toEqual([0, 1, 2]);
  });

  test("streamed by Responses", () => {
    const item = { type: "function_call", id: "fc_1", call_id: "c1", name: "parallel", arguments: "" };
    const done = { ...item, arguments: wrapped };
    const bodies = streamed(
      [
        { type: "response.created", response: { id: "resp_1" } },
        { type: "response.output_item.added", output_index: 0, item },
        { type: "response.function_call_arguments.delta", output_index: 0, item_id: "fc_1", delta: wrapped },
        { type: "response.function_call_arguments.done", output_index: 0, item_id: "fc_1", arguments: wrapped },
        { type: "response.output_item.done", output_index: 0, item: done },
        { type: "response.completed", response: { id: "resp_1", status: "completed", output: [done] } },
      ],
      mode,
    );
    expect(folded(bodies).message.tool_calls).toEqual(expected as never);
  });
});
