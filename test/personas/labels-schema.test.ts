import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv } from "ajv";
import { parse } from "yaml";
import { labelsJsonSchema, parseLabels } from "../../src/personas/versions/labels.ts";

const schema = labelsJsonSchema();

test("docs/persona-labels.schema.json is the schema of labels.yaml", () => {
  const kept = readFileSync(join(import.meta.dir, "../../docs/persona-labels.schema.json"), "utf8");
  expect(JSON.parse(kept)).toEqual(schema);
});

test.each([
  ['acme/support: { stable: "3f2a91c07b1e" }', true],
  ["acme/support: {}", true],
  ["acme/support: { stable: 112233445566 }", false],
  ['acme/support: { current: "3f2a91c07b1e" }', false],
  ['acme/support: { stable: "3f2a" }', false],
  ['support: { stable: "3f2a91c07b1e" }', false],
])("%s is taken by the schema as by the reader: %p", (text, isTaken) => {
  expect(new Ajv({ strict: false }).compile(schema)(parse(text))).toBe(isTaken);
  expect("labels" in parseLabels(text, "labels.yaml")).toBe(isTaken);
});
