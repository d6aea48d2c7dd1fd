import { describe, expect, test } from "bun:test";
import type { ChatRequest, ChunkBody, Delta } from "../../src/wire/chat.ts";
import { downgradeChunk, downgradeCompletion, upgradeLegacy } from "../../src/wire/legacy-functions.ts";

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
