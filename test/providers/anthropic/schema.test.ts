/** Schemas that structured output can't have: closing them would lose data, or the upstream refuses them. They are asked for in words. */
import { describe, expect, test } from "bun:test";
import type { ChatRequest } from "../../../src/protocols/chat/schema.ts";
import { anthropic } from "../../../src/providers/anthropic/anthropic.ts";
import { closedSchema } from "../../../src/providers/anthropic/schema.ts";

type Json = Record<string, unknown>;

const text = { type: "string" };
const holding = (a: Json): Json => ({ type: "object", properties: { a }, required: ["a"] });
const many = (count: number, required: number): Json => {
  const names = Array.from({ length: count }, (_, at) => `p${at}`);
  return {
    type: "object",
    properties: Object.fromEntries(names.map((name) => [name, text])),
    required: names.slice(0, required),
  };
};

const body = (request: object): Json =>
  JSON.parse(
    anthropic.encode({
      model: "claude-opus-4-8",
      request: { model: "m", messages: [{ role: "user", content: "Hi" }], ...request } as ChatRequest,
      extras: {},
      account: { name: "anthropic", baseUrl: "https://a.test", models: [], options: {}, modelRules: [] },
      media: new Map(),
    }).body as string,
  );

const open: readonly (readonly [string, Json])[] = [
  ["a map", holding({ type: "object", additionalProperties: text })],
  [
    "a map beside known names",
    holding({ type: "object", properties: { b: text }, required: ["b"], additionalProperties: text }),
  ],
  ["an object of any members", holding({ type: "object", properties: {}, additionalProperties: true })],
  ["names by a pattern", holding({ type: "object", patternProperties: { "^x": text } })],
  ["an object of any form", holding({ type: ["object", "null"] })],
  ["one in a list", holding({ type: "array", items: { anyOf: [text, { type: "object" }] } })],
  [
    "one behind a reference",
    { ...holding({ $ref: "#/$defs/m" }), $defs: { m: { type: "object", additionalProperties: text } } },
  ],
  ["nothing but an object", { type: "object" }],
  ["eleven optional properties", many(14, 3)],
  [
    "eleven in all objects together",
    { ...many(6, 0), properties: { ...(many(6, 0)["properties"] as Json), o: many(4, 0) } },
  ],
  [
    "eleven, as they are referred to twice",
    {
      type: "object",
      properties: { a: { $ref: "#/$defs/m" }, b: { $ref: "#/$defs/m" } },
      required: ["a", "b"],
      $defs: { m: many(6, 0) },
    },
  ],
];

describe("asked for in words, and of tools without strictness", () => {
  test.each(open)("%s", (_, schema) => {
    const { output_config, system } = body({
      response_format: { type: "json_schema", json_schema: { name: "n", schema } },
    });
    expect(output_config).toBeUndefined();
    expect(JSON.stringify(system)).toContain(JSON.stringify(JSON.stringify(schema)).slice(1, -1));
    const [tool] = body({ tools: [{ type: "function", function: { name: "f", parameters: schema, strict: true } }] })[
      "tools"
    ] as Json[];
    expect(tool).toEqual({ name: "f", input_schema: schema });
  });
});

test.each<[string, Json]>([
  ["ten optional properties", many(13, 3)],
  ["a closed object without members", holding({ type: "object", additionalProperties: false })],
  ["an object that has none", holding({ type: "object", properties: {} })],
  ["what nothing refers to", { ...holding(text), $defs: { m: { type: "object", additionalProperties: text } } }],
])("%s is closed", (_, schema) => {
  expect(closedSchema(schema)).toMatchObject({ type: "object", additionalProperties: false });
  expect(
    body({ response_format: { type: "json_schema", json_schema: { name: "n", schema } } })["output_config"],
  ).toBeDefined();
});
