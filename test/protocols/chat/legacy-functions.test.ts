import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { StreamFold } from "../../../src/protocols/chat/fold.ts";
import { downgradeChunk, downgradeCompletion, upgradeLegacy } from "../../../src/protocols/chat/legacy-functions.ts";
import type { ChatRequest, ChunkBody, Delta } from "../../../src/protocols/chat/schema.ts";

const weather = { name: "weather", parameters: { type: "object" } };

describe("upgradeLegacy", () => {
  test("leaves today's requests alone", () => {
    const request: ChatRequest = { model: "a/b", messages: [{ role: "user", content: "hi" }] };
    expect(upgradeLegacy(request)).toBe(request);
  });

  test("functions become tools, function_call becomes tool_choice", () => {
    const request: ChatRequest = {
      model: "a/b",
      messages: [{ role: "user", content: "hi" }],
      functions: [weather],
      function_call: { name: "weather" },
    };
    expect(upgradeLegacy(request)).toEqual({
      model: "a/b",
      messages: [{ role: "user", content: "hi" }],
      tools: [{ type: "function", function: weather }],
      tool_choice: { type: "function", function: { name: "weather" } },
      parallel_tool_calls: false,
    });
  });

  test("a call and its result are tied by an id, turn after turn", () => {
    const call = (city: string) => ({ name: "weather", arguments: JSON.stringify({ city }) });
    const upgraded = upgradeLegacy({
      model: "a/b",
      messages: [
        { role: "assistant", content: null, function_call: call("Oslo") },
        { role: "function", name: "weather", content: "cold" },
        { role: "assistant", content: null, function_call: call("Rome") },
        { role: "function", name: "weather", content: null },
      ],
    });
    expect(upgraded.messages).toEqual([
      { role: "assistant", content: null, tool_calls: [{ id: "legacy_1", type: "function", function: call("Oslo") }] },
      { role: "tool", content: "cold", tool_call_id: "legacy_1" },
      { role: "assistant", content: null, tool_calls: [{ id: "legacy_2", type: "function", function: call("Rome") }] },
      { role: "tool", content: "", tool_call_id: "legacy_2" },
    ]);
  });

  test("a result without its call gets one, and what stands between does not matter", () => {
    const upgraded = upgradeLegacy({
      model: "a/b",
      messages: [
        { role: "function", name: "now", content: "noon" },
        { role: "assistant", function_call: { name: "weather", arguments: "{}" } },
        { role: "user", content: "wait" },
        { role: "function", name: "weather", content: "cold" },
        { role: "function", name: "weather", content: "colder" },
      ],
    });
    const call = (id: string, name: string) => ({ id, type: "function" as const, function: { name, arguments: "{}" } });
    expect(upgraded.messages).toEqual([
      { role: "assistant", tool_calls: [call("legacy_1", "now")] },
      { role: "tool", content: "noon", tool_call_id: "legacy_1" },
      { role: "assistant", tool_calls: [call("legacy_2", "weather")] },
      { role: "user", content: "wait" },
      { role: "tool", content: "cold", tool_call_id: "legacy_2" },
      { role: "assistant", tool_calls: [call("legacy_3", "weather")] },
      { role: "tool", content: "colder", tool_call_id: "legacy_3" },
    ]);
  });

  test("the choice is taken over, and a request of today's form may hold old messages", () => {
    const messages: ChatRequest["messages"] = [{ role: "user", content: "hi" }];
    for (const function_call of ["none", "auto"] as const) {
      expect(upgradeLegacy({ model: "a/b", messages, functions: [weather], function_call }).tool_choice).toBe(
        function_call,
      );
    }
    const tools: ChatRequest["tools"] = [{ type: "function", function: { name: "now" } }];
    const both = upgradeLegacy({ model: "a/b", messages, tools, functions: [weather], parallel_tool_calls: true });
    expect(both.tools!.map((tool) => tool.type === "function" && tool.function.name)).toEqual(["now", "weather"]);
    expect([both.parallel_tool_calls, "functions" in both]).toEqual([true, false]);
    const old = upgradeLegacy({
      model: "a/b",
      messages: [{ role: "assistant", function_call: { name: "f", arguments: "{}" } }],
      tools,
    });
    expect([old.tools, old.parallel_tool_calls, old.messages[0]!.role]).toEqual([tools, undefined, "assistant"]);
  });
});

test("a streamed answer turned back is the plain one turned back", () => {
  const text = fc.string({ maxLength: 5 });
  const call = fc.record({ name: fc.string({ minLength: 1 }), parts: fc.array(text, { maxLength: 3 }) });
  fc.assert(
    fc.property(fc.array(call, { maxLength: 3 }), fc.option(text.filter((said) => said !== "")), (calls, said) => {
      const body = (delta: Delta, finish_reason: "stop" | "tool_calls" | null = null): ChunkBody => ({
        choices: [{ index: 0, delta, finish_reason }],
      });
      const bodies = [
        ...(said === null ? [] : [body({ content: said })]),
        ...calls.flatMap(({ name, parts }, index) => [
          body({ tool_calls: [{ index, id: `c${index}`, type: "function", function: { name, arguments: "" } }] }),
          ...parts.map((part) => body({ tool_calls: [{ index, function: { arguments: part } }] })),
        ]),
        body({}, calls.length > 0 ? "tool_calls" : "stop"),
      ];
      const folded = (some: ChunkBody[]) => {
        const fold = new StreamFold();
        fold.push(some);
        return fold.result();
      };
      expect(folded(bodies.map(downgradeChunk))).toEqual(downgradeCompletion(folded(bodies)));
    }),
  );
});

test("a plain answer's first call is the function call", () => {
  const call = { name: "weather", arguments: "{}" };
  const body = downgradeCompletion({
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: null, tool_calls: [{ id: "c", type: "function", function: call }] },
        finish_reason: "tool_calls",
      },
    ],
  });
  expect(body.choices[0]).toEqual({
    index: 0,
    message: { role: "assistant", content: null, function_call: call },
    finish_reason: "function_call",
  });
});

test("a stream's fragments of the first call are fragments of the function call", () => {
  const delta = (part: Delta): ChunkBody => ({ choices: [{ index: 0, delta: part, finish_reason: null }] });
  const opened = downgradeChunk(
    delta({ tool_calls: [{ index: 0, id: "c", type: "function", function: { name: "weather", arguments: "" } }] }),
  );
  expect(opened).toEqual(delta({ function_call: { name: "weather", arguments: "" } }));
  expect(downgradeChunk({ choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] }).choices[0]).toEqual({
    index: 0,
    delta: {},
    finish_reason: "function_call",
  });
});

test("what continues a call's thought goes both ways", () => {
  const extra_content = { google: { thought_signature: "c2ln" } };
  const call = { id: "c", type: "function" as const, function: { name: "f", arguments: "{}" }, extra_content };
  const function_call = { name: "f", arguments: "{}", extra_content };
  const message = { role: "assistant" as const, content: null };
  const plain = downgradeCompletion({
    choices: [{ index: 0, message: { ...message, tool_calls: [call] }, finish_reason: "tool_calls" }],
  });
  expect(plain.choices[0]!.message).toEqual({ ...message, function_call });
  const delta: Delta = { tool_calls: [{ index: 0, ...call }] };
  const streamed = downgradeChunk({ choices: [{ index: 0, delta, finish_reason: null }] });
  expect(streamed.choices[0]!.delta).toEqual({ function_call });
  const upgraded = upgradeLegacy({ model: "a/b", messages: [{ ...message, function_call }] });
  expect(upgraded.messages).toEqual([{ ...message, tool_calls: [{ ...call, id: "legacy_1" }] }]);
});
