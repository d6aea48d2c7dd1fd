/** Personas in the forms of other programs. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parse } from "yaml";
import { exporters } from "../../src/personas/exchange/exporters/all.ts";
import { importFile } from "../../src/personas/exchange/importers/all.ts";
import { ImportedFile } from "../../src/personas/exchange/importers/source.ts";
import type { PersonaContent } from "../../src/personas/file/schema.ts";
import { runs } from "../helpers/long-form.ts";

const content: PersonaContent = {
  description: "Answers questions about kettles.",
  tier: "pro",
  model: ["google/gemini-3.5-flash", "ollama/llama3.2:3b"],
  system: 'You know {{product}} for {{reader}}.\nTemplates look like \\{{this}} and "that".',
  variables: {
    product: { description: "The product,\nas sold.", required: true },
    reader: { enum: ["a customer", "a developer"], default: "a customer" },
  },
  examples: [
    { role: "user", content: "How do I {{descale}} it?" },
    { role: "assistant", content: "With vinegar.\nThen rinse." },
  ],
  defaults: { temperature: 0.3, max_tokens: 200, verbosity: "low" },
  stop: ["###"],
};

const write = (format: string, given: PersonaContent = content) => {
  const { content: text, omitted } = exporters
    .find((one) => one.format === format)!
    .write({ id: "acme/support", content: given });
  return { text: text as string, omitted: omitted.map(({ place, message }) => `${place}: ${message}`) };
};

const again = (text: string, name: string) => importFile(new ImportedFile(name, Buffer.from(text))).personas[0]!;

test("a Modelfile has the model of Ollama, the text with its variables filled in, and the examples", () => {
  const { text, omitted } = write("modelfile");
  expect(text).toBe(`# acme/support: Answers questions about kettles.
FROM llama3.2:3b
PARAMETER temperature 0.3
PARAMETER num_predict 200
PARAMETER stop "###"
SYSTEM """You know  for a customer.
Templates look like {{this}} and "that"."""
MESSAGE user "How do I {{descale}} it?"
MESSAGE assistant """With vinegar.
Then rinse."""
`);
  expect(omitted).toEqual([
    "tier: has no place in a Modelfile",
    "model[0]: is another model: a Modelfile is made from one",
    "defaults.verbosity: has no place in a Modelfile",
    "variables.product: is filled in: ''",
    "variables.reader: is filled in: 'a customer'",
  ]);
  expect(again(text, "Modelfile").draft).toMatchObject({
    model: ["ollama/llama3.2:3b"],
    system: 'You know  for a customer.\nTemplates look like \\{{this}} and "that".',
    examples: content.examples,
    defaults: { temperature: 0.3, max_tokens: 200 },
    stop: ["###"],
  });
});

test("a Dotprompt comes back as it was", () => {
  const { text, omitted } = write("dotprompt");
  expect(omitted).toEqual([
    "tier: has no place in a Dotprompt",
    "model[1]: is a fallback, which a Dotprompt does not have",
    "defaults.verbosity: has no place in a Dotprompt",
  ]);
  const { draft, name, omitted: none } = again(text, "support.prompt");
  expect(name).toBe("support");
  expect(draft as object).toEqual({
    description: content.description,
    model: ["google/gemini-3.5-flash"],
    system: content.system,
    variables: {
      product: { description: "The product, as sold.", required: true },
      reader: { enum: ["a customer", "a developer"], default: "a customer" },
    },
    examples: content.examples!,
    defaults: { temperature: 0.3, max_tokens: 200 },
    stop: ["###"],
  });
  expect(none).toEqual([]);
});

test.each([
  ["\\{{x}} and {{name}}", "\\{{x}} and {{name}}"],
  ['C:{{"\\\\"}}{{name}}', "C:\\\\{{name}}"],
  ["C:\\\\{{x}}", "C:\\\\{{! }}\\{{x}}"],
  ["{{name}}}", "{{name}}{{! }}}"],
  ["{{role}} {{if}} {{history}}", "{{this.role}} {{this.if}} {{this.history}}"],
])("%j is %j in Handlebars", (template, body) => {
  const variables = { name: {}, role: {}, if: {}, history: {} };
  const used = Object.fromEntries(Object.entries(variables).filter(([name]) => template.includes(`{{${name}}}`)));
  const { text, omitted } = write("dotprompt", {
    description: "x",
    model: "google/x",
    system: template,
    variables: used,
  });
  expect(text).toEndWith(`{{role "system"}}\n${body}\n{{history}}\n`);
  expect(omitted).toEqual([]);
});

test("a brace before a variable gets a space in a Dotprompt, which is listed", () => {
  const system = '{{"{"}}{{name}}}';
  const { text, omitted } = write("dotprompt", {
    description: "x",
    model: "google/x",
    system,
    variables: { name: {} },
  });
  expect(text).toContain('{{role "system"}}\n{ {{name}}{{! }}}\n');
  expect(omitted).toEqual(["system: has a brace before a variable: a space stands between them there"]);
});

test("a Dotprompt's schemas are JSON Schema, which a field named type does not change", () => {
  const schema = { properties: { type: { type: "string" } } };
  const { text } = write("dotprompt", {
    ...{ description: "x", model: "google/x", system: "{{type}} x", variables: { type: { description: "a (b) (c)" } } },
    response_format: { type: "json_schema", json_schema: { name: "x", schema } },
  } as PersonaContent);
  const { input, output } = parse(text.split("---\n")[1]!);
  expect(input).toEqual({
    schema: { type: "object", properties: { type: { type: "string", description: "a (b) (c)" } } },
  });
  expect(output).toEqual({ format: "json", schema: { ...schema, type: "object" } });
});

test("promptfoo asks the persona at the server", () => {
  expect(parse(write("promptfoo").text)).toEqual({
    description: content.description,
    prompts: ["{{question}}"],
    providers: [
      {
        id: "openai:chat:acme/support",
        label: "acme/support",
        config: { apiBaseUrl: "http://127.0.0.1:8080/v1", apiKeyEnvar: "TROUPE_KEY" },
      },
    ],
    defaultTest: { options: { passthrough: { variables: { product: "<product>", reader: "a customer" } } } },
    tests: [
      {
        description: "answers",
        vars: { question: "How do I { {descale}} it?" },
        assert: [{ type: "latency", threshold: 60000 }],
      },
    ],
  });
});

test("a subagent of Claude Code has its name, description, model and text", () => {
  const given = { ...content, model: ["anthropic/claude-sonnet-5", "openai/gpt-5.4"], mcp: [{ server: "desk" }] };
  const { text, omitted } = write("claude-subagent", { ...given, description: "Use it: for kettles.\nAlways." });
  expect(text).toBe(`---
name: support
description: "Use it: for kettles. Always."

model: sonnet
---

You know {{product}} for a customer.
Templates look like {{this}} and "that".
`);
  expect(omitted).toEqual([
    ...["tier", "examples", "defaults", "stop", "mcp"].map((name) => `${name}: has no place in a subagent`),
    "model[1]: is openai/gpt-5.4, which Claude Code does not call",
    "variables.product: has no default: {{product}} stands in the text",
    "variables.reader: is its default in the text",
  ]);
  expect(again(text, "support.md")).toEqual({
    name: "support",
    draft: {
      description: "Use it: for kettles. Always.",
      model: ["anthropic/claude-sonnet-5"],
      system: 'You know \\{{product}} for a customer.\nTemplates look like \\{{this}} and "that".',
    },
    omitted: [],
  });
  expect(write("claude-subagent", { ...content, model: "anthropic/claude-opus-4-1" }).text).toContain(
    "\nmodel: claude-opus-4-1\n",
  );
  expect(write("claude-subagent", { ...content, model: "openai/gpt-5.4" }).text).not.toContain("model:");
});

describe("any text", () => {
  const text = fc
    .array(
      fc.oneof(
        fc.constantFrom("{{", "}}", '"', '"""', "\n", "'''", "#", "\\", "---\n", "{{role 'user'}}", " "),
        fc.string({ maxLength: 8 }),
      ),
      { minLength: 1, maxLength: 12 },
    )
    .map((all) => `a${all.join("").replaceAll("\\{{", "{{").replace(/\\$/, "")}z`);
  const turns = fc.tuple(text, text);

  test("comes back from a Modelfile and a Dotprompt, but for three quotes and ends of lines", () => {
    fc.assert(
      fc.property(text, turns, (system, [question, answer]) => {
        const examples = [
          { role: "user" as const, content: question },
          { role: "assistant" as const, content: answer },
        ];
        const given = { description: "x", model: "ollama/x", system: system.replaceAll("{{", "\\{{"), examples };
        const plain = (value: string) => value.replaceAll("\r\n", "\n");
        for (const [format, name] of [
          ["modelfile", "Modelfile"],
          ["dotprompt", "x.prompt"],
        ] as const) {
          const quotes = (value: string) =>
            format === "modelfile"
              ? value
                  .replaceAll('"""', "'''")
                  .split("\n")
                  .map((line, at, all) => (at < all.length - 1 ? line.trimEnd() : line))
                  .join("\n")
              : value;
          const { draft } = again(write(format, given).text, name);
          const same = (value: string) =>
            quotes(plain(value))
              .split("\n")
              .map((line) => line.trimEnd())
              .join("\n")
              .trim();
          expect(same(draft.system.replaceAll("\\{{", "{{"))).toBe(same(system));
          expect(draft.examples!.map((turn) => same(turn.content as string))).toEqual([same(question), same(answer)]);
        }
      }),
      { numRuns: runs(300) },
    );
  });
});
