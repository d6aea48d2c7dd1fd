import { expect, test } from "bun:test";
import { patchMessages } from "../../../src/protocols/messages/native.ts";
import { seal } from "../../../src/protocols/state/seal.ts";

const change = { model: "claude-x", before: [], fields: {} };
const marker = { type: "ephemeral" };
const turns = [
  { role: "user", content: "hi" },
  {
    role: "assistant",
    content: [
      { type: "thinking", thinking: "hm", signature: "native" },
      { type: "text", text: "ho" },
    ],
  },
];

test("a body whose model alone changes keeps its very values, unknown ones too", () => {
  const body = {
    model: "anthropic/claude-x",
    messages: turns,
    context_management: { edits: [] },
    tools: [{ type: "new_20990101" }],
  };
  const next = patchMessages(body, change)!;
  expect(next).toEqual({ ...body, model: "claude-x" });
  expect(next["messages"]).toBe(turns);
  expect(next["tools"]).toBe(body.tools);
});

test.each([
  ["another maker's seal", { type: "thinking", thinking: "a", signature: seal("google", { calls: {} }) }],
  ["another maker's seal without a text", { type: "redacted_thinking", data: seal("openai", { message: {} }) }],
  ["a damaged seal", { type: "redacted_thinking", data: "trp1.anthropic.x" }],
  ["a thought that nobody signed", { type: "thinking", thinking: "a", signature: "" }],
])("%s is taken out with its block, and a turn that is left empty with it", (_name, block) => {
  const said = { type: "text", text: "ho" };
  const messages = [
    { role: "user", content: "hi" },
    { role: "assistant", content: [block] },
    { role: "user", content: [{ type: "text", text: "and?" }] },
    { role: "assistant", content: [block, said] },
    ...turns,
  ];
  const next = patchMessages({ model: "m", messages }, change)!;
  expect(next["messages"]).toEqual([messages[0], messages[2], { role: "assistant", content: [said] }, ...turns]);
  expect((next["messages"] as unknown[]).at(-1)).toBe(turns[1]);
});

test("Anthropic's own blocks are taken out of an envelope, and stand first", () => {
  const blocks = [
    { type: "thinking", thinking: "hm", signature: "s" },
    { type: "redacted_thinking", data: "d" },
  ] as const;
  const content = [
    { type: "text", text: "ho" },
    { type: "redacted_thinking", data: seal("anthropic", { blocks }) },
  ];
  const next = patchMessages({ model: "m", messages: [{ role: "assistant", content }] }, change)!;
  expect(next["messages"]).toEqual([{ role: "assistant", content: [...blocks, content[0]] }]);
});

test("a persona's text stands before the caller's, with the caller's marks; its examples before the caller's turns", () => {
  const system = [{ type: "text", text: "Mine.", cache_control: marker }];
  const before = [
    { role: "system" as const, content: "The persona's." },
    { role: "user" as const, content: "2+2?" },
    { role: "assistant" as const, content: "4" },
  ];
  const fields = {
    stop: ["END"],
    variables: undefined,
    store: false,
    metadata: { a: "b" },
    system_cache_control: marker,
  };
  const members = { temperature: undefined, output_config: { effort: "low" } };
  const body = {
    model: "m",
    system,
    messages: turns,
    temperature: 1,
    variables: {},
    output_config: { format: { type: "json_schema", schema: {} } },
  };
  const next = patchMessages(body, { model: "c", before, fields, members })!;
  expect(next).toEqual({
    model: "c",
    system: [{ type: "text", text: "The persona's.", cache_control: marker }, ...system],
    messages: [{ role: "user", content: "2+2?" }, { role: "assistant", content: "4" }, ...turns],
    stop_sequences: ["END"],
    output_config: { format: { type: "json_schema", schema: {} }, effort: "low" },
  });
  expect(patchMessages({ model: "m", system: "Mine.", messages: turns }, { ...change, before })!["system"]).toEqual([
    { type: "text", text: "The persona's." },
    { type: "text", text: "Mine." },
  ]);
});

test("no fifth cache mark is added", () => {
  const block = { type: "text", text: "a", cache_control: marker };
  const body = { model: "m", system: [block, block, block], messages: [{ role: "user", content: [block] }] };
  const before = [{ role: "system" as const, content: "P" }];
  const next = patchMessages(body, { ...change, before, fields: { system_cache_control: marker } })!;
  expect((next["system"] as object[])[0]).toEqual({ type: "text", text: "P" });
});

test("a persona's tools stand before the caller's, which stay what they are", () => {
  const hosted = { type: "web_search_20250305", name: "web_search" };
  const own = { name: "a", input_schema: { type: "object" } };
  const of = (name: string) => ({ type: "function", function: { name, parameters: { type: "object" } } });
  const next = patchMessages(
    { model: "m", messages: turns, tools: [hosted, own] },
    { ...change, fields: { tools: [of("p"), of("a")] } },
  )!;
  expect(next["tools"]).toEqual([{ name: "p", input_schema: { type: "object" } }, hosted, own]);
});

test("what has no words here has the call translated", () => {
  const example = [{ role: "tool" as const, tool_call_id: "x", content: "y" }];
  expect(patchMessages({ model: "m", messages: turns }, { ...change, before: example })).toBeUndefined();
  expect(
    patchMessages({ model: "m", messages: turns }, { ...change, fields: { tool_choice: "none" } }),
  ).toBeUndefined();
});
