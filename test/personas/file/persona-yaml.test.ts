import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { YamlSource } from "../../../src/lib/yaml/yaml.ts";
import { personaYaml, writeYaml } from "../../../src/personas/file/persona-yaml.ts";
import { runs } from "../../helpers/long-form.ts";

const read = (text: string) => {
  const { value, errors } = new YamlSource(text, "test.yaml");
  expect(errors).toEqual([]);
  return value;
};

describe("YAML that is written", () => {
  test("has long texts as blocks, short lists on a line, and the schema's address first", () => {
    const text = personaYaml({
      system: "You are Zelda.\n\n- Be brief.\n- Be kind.\n",
      model: ["openai/gpt-5.4-mini", "builtin/eliza"],
      description: "Answers.",
      tags: ["a", "b c"],
      greeting: `${"Good morning to all who came here today. ".repeat(5)}Bye.`,
      defaults: { max_tokens: 100 },
    });
    expect(text).toBe(`# yaml-language-server: $schema=../persona.schema.json
description: Answers.
tags: [a, b c]
greeting: >-
  Good morning to all who came here today. Good morning to all who came here today. Good morning to all who
  came here today. Good morning to all who came here today. Good morning to all who came here today. Bye.

model: [openai/gpt-5.4-mini, builtin/eliza]

system: |
  You are Zelda.

  - Be brief.
  - Be kind.

defaults:
  max_tokens: 100
`);
  });

  test("reads as the value it was written from, whatever the texts hold", () => {
    const odd = fc.stringMatching(/^[ \n\t#:{}[\]"'&*!|>%@\\\-?a-z0-9\u0000\u0085\u2028\ufeff\ud800é😀]{0,200}$/u);
    const texts = fc.oneof(odd, fc.string({ unit: "binary", maxLength: 150 }), fc.lorem({ maxCount: 80 }));
    const isReadable = (value: unknown) => !/-?\d{16,}(?!\.)|e\+/.test(JSON.stringify(value));
    const values = fc.jsonValue({ stringUnit: "binary", maxDepth: 4 }).filter(isReadable);
    fc.assert(
      fc.property(fc.dictionary(texts, fc.oneof(texts, values, fc.array(texts))), (value) => {
        const plain = JSON.parse(JSON.stringify(value));
        expect(read(writeYaml(plain)) ?? {}).toEqual(plain);
      }),
      { numRuns: runs(500) },
    );
  });
});
