import { expect, test } from "bun:test";
import { Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { optionSchemas } from "../../src/providers/options.ts";

const level = Type.Optional(Type.Literal("low"));
const options = Type.Object(
  optionSchemas([
    { name: "a", extras: Type.Object({ level, cache: Type.Optional(Type.Object({ ttl: Type.String() })) }) },
    { name: "b", extras: Type.Object({ level }) },
    { name: "c", extras: Type.Object({ level: Type.Optional(Type.Integer({ description: "How much." })) }) },
    { name: "d", extras: Type.Object({ free: Type.Optional(Type.Object({}, { additionalProperties: true })) }) },
  ]),
);

test.each([
  [{}, true],
  [{ level: "low" }, true],
  [{ level: 3 }, true],
  [{ level: "high" }, false],
  [{ cache: { ttl: "5m" } }, true],
  [{ cache: { ttl: "5m", tll: "1h" } }, false],
  [{ free: { anything: 1 } }, true],
])("%j is what one of the providers takes: %p", (value, fits) => {
  expect(Value.Check(options, value)).toBe(fits);
});

test("each form names its providers", () => {
  expect(options.properties["level"]!["anyOf"]).toMatchObject([
    { description: "For a, b." },
    { description: "For c: How much." },
  ]);
});
