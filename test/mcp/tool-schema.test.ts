import { describe, expect, test } from "bun:test";
import Ajv2020 from "ajv/dist/2020";
import fc from "fast-check";
import type { JsonObject } from "../../src/lib/json/json.ts";
import { toolSchema, withoutUnused } from "../../src/mcp/tool-schema.ts";
import { runs } from "../helpers/long-form.ts";

const text = { type: "string" };
const none = { type: "object", properties: {} };
const object = (properties: object, more: object = {}) => ({ type: "object", properties, ...more });

test.each([
  ["absent", undefined],
  ["null", null],
  ["empty", {}],
  ["without properties, as go-sdk and java-sdk write it", { type: "object" }],
  ["with null for members", { type: "object", properties: null, required: null, description: null, $defs: null }],
  ["with a list for properties, as PHP writes an empty object", { type: "object", properties: [] }],
  ["of an object or null", { type: ["object", "null"] }],
])("a tool whose schema is %s has no arguments", (_, schema) => {
  expect(toolSchema(schema)).toEqual(none);
});

test.each([
  ["a list", []],
  ["a text", "object"],
  ["of a text", { type: "string" }],
  ["a choice of texts", { anyOf: [{ type: "string" }] }],
  ["a reference to a text", { $ref: "#/$defs/a", $defs: { a: { type: "string" } } }],
  ["a reference to itself", { $ref: "#" }],
])("a schema that is %s is none of an object", (_, schema) => {
  expect(toolSchema(schema)).toBeString();
});

describe("at any depth", () => {
  const within = (schema: unknown) =>
    ((toolSchema(object({ in: object({ it: schema }) })) as JsonObject)["properties"] as JsonObject)[
      "in"
    ] as JsonObject;
  const read = (schema: unknown) => (within(schema)["properties"] as JsonObject)["it"];

  test.each([
    [{ type: "array" }, { type: "array", items: {} }],
    [
      { type: ["array", "string"], description: "d" },
      { type: ["array", "string"], description: "d", items: {} },
    ],
    [
      { type: "array", items: [text, text], additionalItems: false },
      { type: "array", prefixItems: [text, text], items: false },
    ],
    [{ type: "string", items: null }, text],
    [{ type: "date" }, {}],
    [{ type: ["string", "any"] }, { type: ["string"] }],
    [{ type: "string", required: true }, text],
    [
      { type: "number", minimum: 1, exclusiveMinimum: true },
      { type: "number", exclusiveMinimum: 1 },
    ],
    [{ type: "string", enum: [] }, text],
    [
      { type: "string", default: null },
      { type: "string", default: null },
    ],
    [{ enum: ["a", null] }, { enum: ["a", null] }],
    [{ const: null }, { const: null }],
    [{ anyOf: [] }, {}],
    [{ anyOf: [text, null] }, { anyOf: [text] }],
    [true, true],
    [null, {}],
    [
      { $schema: "x", ...text, "x-own": { a: 1 } },
      { ...text, "x-own": { a: 1 } },
    ],
  ])("%j is %j", (given, expected) => {
    expect(read(given)).toEqual(expected as never);
  });

  test("what is no schema at all is no argument", () => {
    expect(within("object")["properties"]).toEqual({});
  });
});

describe("at the root", () => {
  test("a choice is one object that needs what all of them need", () => {
    const issue = object({ kind: { const: "issue" }, title: text }, { required: ["kind", "title"] });
    const pull = object({ kind: { const: "pull" }, branch: text, title: text }, { required: ["kind", "branch"] });
    expect(toolSchema({ oneOf: [issue, pull] })).toEqual({
      type: "object",
      properties: { kind: { anyOf: [{ const: "issue" }, { const: "pull" }] }, title: text, branch: text },
      required: ["kind"],
    });
  });

  test("what must be fulfilled besides is added", () => {
    expect(toolSchema({ ...object({ a: text }), allOf: [object({ b: text }, { required: ["b"] })] })).toEqual(
      object({ a: text, b: text }, { required: ["b"] }),
    );
    expect(toolSchema({ ...object({ a: text, b: text }), anyOf: [{ required: ["a"] }, { required: ["b"] }] })).toEqual(
      object({ a: text, b: text }),
    );
  });

  test("a reference is followed", () => {
    const $defs = { Args: object({ a: { $ref: "#/$defs/A" } }, { required: ["a"] }), A: text, B: text };
    expect(toolSchema({ $ref: "#/$defs/Args", $defs })).toEqual(
      object({ a: { $ref: "#/$defs/A" } }, { required: ["a"], $defs: { A: text } }),
    );
  });

  test("names that are required and there are not are left out", () => {
    expect(toolSchema(object({ a: text }, { required: ["a", "b", 1] }))).toEqual(
      object({ a: text }, { required: ["a"] }),
    );
  });
});

describe("definitions", () => {
  test("stay where they are used, through each other and in circles", () => {
    const schema = object(
      { a: { $ref: "#/$defs/Tree" }, b: { type: "array", items: { $ref: "#/definitions/x~1y" } } },
      {
        $defs: {
          Tree: object({ of: { $ref: "#/$defs/Leaf" }, in: { $ref: "#/$defs/Tree" } }),
          Leaf: text,
          Unused: text,
        },
        definitions: { "x/y": text, other: { $ref: "#/$defs/Unused" } },
      },
    );
    expect(toolSchema(schema)).toEqual({
      ...schema,
      $defs: { Tree: schema["$defs" as never]["Tree"], Leaf: text },
      definitions: { "x/y": text },
    });
  });

  test("a reference to nowhere, or to another document, says nothing", () => {
    expect(toolSchema(object({ a: { $ref: "#/$defs/x" }, b: { $ref: "https://a.test/b.json", title: "B" } }))).toEqual(
      object({ a: {}, b: { title: "B" } }),
    );
  });

  test("a reference has nothing beside it", () => {
    const $defs = { A: text };
    expect(toolSchema(object({ a: { $ref: "#/$defs/A", description: "d" } }, { $defs }))).toEqual(
      object({ a: { anyOf: [{ $ref: "#/$defs/A" }], description: "d" } }, { $defs }),
    );
  });

  test("go with the argument that used them", () => {
    const schema = object({ b: text }, { $defs: { A: text } });
    expect(withoutUnused(schema)).toEqual(object({ b: text }));
  });
});

test("members named as Object.prototype's and __proto__ are members like any other", () => {
  const schema = JSON.parse(
    '{"properties":{"constructor":{"type":"array"},"__proto__":{"type":"string"}}}',
  ) as JsonObject;
  const made = toolSchema(schema) as { properties: object };
  expect(JSON.stringify(made.properties)).toBe(
    '{"constructor":{"type":"array","items":{}},"__proto__":{"type":"string"}}',
  );
});

test("whatever a server lists is a schema by the present draft, and stays as it is when it is read again", () => {
  const words = [
    "type",
    "properties",
    "items",
    "required",
    "enum",
    "anyOf",
    "allOf",
    "$ref",
    "$defs",
    "minimum",
    "pattern",
  ];
  const { tree } = fc.letrec((tie) => ({
    leaf: fc.constantFrom<unknown>(null, true, 1, -1.5, "object", "array", "string", "#/$defs/a", "nope", [], {}),
    tree: fc.oneof(
      { maxDepth: 5 },
      tie("leaf"),
      fc.array(tie("tree"), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...words, "a"), tie("tree"), { maxKeys: 5 }),
    ),
  }));
  const ajv = new Ajv2020({ strict: false });
  fc.assert(
    fc.property(tree, (given) => {
      const made = toolSchema(given);
      if (typeof made === "string") return;
      expect(ajv.validateSchema(made)).toBe(true);
      expect(toolSchema(made)).toEqual(made);
    }),
    { numRuns: runs(2_000) },
  );
});
