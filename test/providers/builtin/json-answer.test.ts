import { describe, expect, test } from "bun:test";
import { Ajv } from "ajv";
import fc from "fast-check";
import type { ChatRequest } from "../../../src/protocols/chat/schema.ts";
import { inResponseFormat } from "../../../src/providers/builtin/json-answer.ts";
import { runs } from "../../helpers/long-form.ts";

const asked = (schema: unknown): ChatRequest =>
  ({ messages: [], model: "m", response_format: { type: "json_schema", json_schema: { name: "n", schema } } }) as never;

const answer = (schema: unknown, text = "Please go on.") => JSON.parse(inResponseFormat(text, asked(schema)));

/** Schemas as structured outputs take them. */
const { schema: schemas } = fc.letrec<{ schema: object }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 4, depthSize: "small" },
    fc.constantFrom({ type: "boolean" }, { type: "null" }, { type: ["string", "null"] }, { const: 7 }),
    fc.constantFrom({ type: "string", format: "date" }, { type: "string", format: "email" }, { enum: ["a", "b"] }),
    fc.record({ type: fc.constant("string"), minLength: fc.nat(40), maxLength: fc.integer({ min: 40, max: 60 }) }),
    fc.record({
      type: fc.constantFrom("integer", "number"),
      minimum: fc.integer({ min: -9, max: 9 }),
      maximum: fc.integer({ min: 9, max: 99 }),
    }),
    fc.record({ type: fc.constant("array"), items: tie("schema"), minItems: fc.nat(2) }),
    fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }) }),
    fc.dictionary(fc.stringMatching(/^[a-z]{1,6}$/), tie("schema"), { maxKeys: 4 }).map((properties) => ({
      type: "object",
      properties,
      required: Object.keys(properties),
      additionalProperties: false,
    })),
  ),
}));

describe("JSON without a provider", () => {
  test("fits the schema that was asked for", () => {
    const ajv = new Ajv({ strict: false, validateFormats: false });
    fc.assert(
      fc.property(schemas, fc.string({ unit: "grapheme-ascii" }), (schema, text) => {
        const validate = ajv.compile(schema);
        expect([validate(answer(schema, text)), validate.errors]).toEqual([true, null]);
      }),
      { numRuns: runs(300) },
    );
  });

  test("has the text wherever the schema takes any, and otherwise the least that fits", () => {
    const schema = {
      type: "object",
      required: ["summary", "items", "due"],
      properties: {
        summary: { type: "string" },
        items: { type: "array", items: { type: "string" } },
        due: { anyOf: [{ type: "string", format: "date" }, { type: "null" }] },
        count: { type: "integer", minimum: 3 },
      },
    };
    expect(answer(schema)).toEqual({ summary: "Please go on.", items: [], due: "2026-01-01", count: 3 });
  });

  test("ends where a schema holds itself", () => {
    const schema = {
      type: "object",
      properties: { next: { $ref: "#/$defs/node" } },
      $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } }, required: ["next"] } },
    };
    const text = inResponseFormat("", asked(schema));
    expect(text.length).toBeLessThan(1000);
    expect(text).toContain('{"next":{"next":');
    expect(answer({ $ref: "#" })).toBeNull();
    expect(answer({ $ref: "https://example.com/schema" })).toBeNull();
  });

  test("is bounded where a schema branches", () => {
    const properties = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`m${at}`, { $ref: "#" }]));
    expect(inResponseFormat("", asked({ type: "object", properties })).length).toBeLessThan(300_000);
  });

  test("is an object with the text where any object will do, and the text where no JSON was asked for", () => {
    const request = { model: "m", messages: [] };
    expect(inResponseFormat("Hi", { ...request, response_format: { type: "json_object" } })).toBe('{"answer":"Hi"}');
    expect(inResponseFormat("Hi", request)).toBe("Hi");
    expect(inResponseFormat("Hi", { ...request, response_format: { type: "text" } })).toBe("Hi");
  });
});
