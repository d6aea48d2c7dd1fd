import { describe, expect, test } from "bun:test";
import { type TSchema, Type } from "@sinclair/typebox";
import { Check } from "@sinclair/typebox/value";
import { ConfigFile } from "../../../src/config/schema.ts";
import { KeyedRecord, keyOfLength } from "../../../src/lib/json/keyed-record.ts";
import { schemaErrors } from "../../../src/lib/json/schema-errors.ts";
import { PersonaFile } from "../../../src/personas/file/schema.ts";
import { ChatRequestBody } from "../../../src/protocols/chat/schema.ts";
import { providers } from "../../../src/providers/registry.ts";

const options = providers.flatMap((provider) => [
  provider.extras,
  ...(provider.kind === "remote" ? [provider.modelRules ?? {}, provider.options ?? {}] : []),
]);

/** Every schema in a schema, with the words that lead to it. */
function* within(schema: unknown, path: string): Generator<[string, TSchema]> {
  if (typeof schema !== "object" || schema === null) return;
  yield [path, schema as TSchema];
  for (const [name, inner] of Object.entries(schema)) yield* within(inner, `${path}.${name}`);
}

const records = Object.entries({ ChatRequestBody, ConfigFile, PersonaFile, options }).flatMap(([name, schema]) =>
  [...within(schema, name)].filter(([, one]) => one["patternProperties"] !== undefined),
);

describe("what a request, a configuration or a persona may name freely", () => {
  test("there is some of it", () => expect(records.length).toBeGreaterThan(8));

  test.each(records)(
    "%s has a rule for its keys",
    (_, { patternProperties, additionalProperties, keyErrorMessage }) => {
      expect({ additionalProperties, keyErrorMessage }).toEqual({
        additionalProperties: false,
        keyErrorMessage: expect.any(String),
      });
      const [pattern, ...others] = Object.keys(patternProperties);
      expect(others).toEqual([]);
      expect("").not.toMatch(new RegExp(pattern!));
    },
  );
});

test("a key that breaks the rule is what is wrong, and not its value", () => {
  const schema = Type.Object({ map: KeyedRecord(keyOfLength(3), Type.Number()) });
  expect(Check(schema, { map: { abc: 1, "\n": 2, "a/~": 3 } })).toBe(true);
  expect(schemaErrors(schema, { map: { a: "y" } })).toMatchObject([{ kind: "value", path: ["map", "a"] }]);
  for (const key of ["abcd", ""]) {
    expect(schemaErrors(schema, { map: { [key]: "x" } })).toEqual([
      { kind: "key", path: ["map", key], message: "must be named by 1 to 3 characters" },
    ]);
  }
});
