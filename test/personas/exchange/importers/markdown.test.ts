import { describe, expect, test } from "bun:test";
import { importFile } from "../../../../src/personas/exchange/importers/all.ts";
import { ImportedFile } from "../../../../src/personas/exchange/importers/source.ts";

const read = (name: string, text: string, beside: Record<string, string> = {}) => {
  const source = new ImportedFile(name, Buffer.from(text), (path) =>
    beside[path] === undefined ? undefined : Buffer.from(beside[path]),
  );
  const { format, personas } = importFile(source);
  return { format, ...personas[0]! };
};

test("a pattern of Fabric is its text, with its variables and without the mark of the input", () => {
  const text =
    "# IDENTITY and PURPOSE\n\nYou translate to {{lang_code}} for {{ who }}. {{plugin:datetime:today}}\n\n# INPUT\n\nINPUT: {{input}}\n";
  const found = read("system.md", text, { "user.md": "CONTENT:\n" });
  expect(found).toMatchObject({ format: "markdown", name: "" });
  expect(found.draft).toEqual({
    description: "You translate to {{lang_code}} for {{ who }}. {{plugin:datetime:today}}",
    system:
      "# IDENTITY and PURPOSE\n\nYou translate to {{lang_code}} for {{who}}. \\{{plugin:datetime:today}}\n\n# INPUT\n\nINPUT: ",
    variables: { lang_code: { required: true }, who: { required: true } },
  });
  expect(found.omitted.map(({ place }) => place)).toEqual(["{{plugin:datetime:today}}", "{{input}}", "user.md"]);
});

test("other Markdown is its text as it stands, whatever it shows", () => {
  const text =
    "# Reviewer\n\nReview code. Leave {{this}} alone.\n\n```yaml\nprompts: x\nproviders: y\nsystem:\nFROM llama3\n```\n";
  expect(read("reviewer.md", text)).toEqual({
    format: "markdown",
    name: "",
    draft: { description: "Review code. Leave {{this}} alone.", system: text.trim().replace("{{", "\\{{") },
    omitted: [],
  });
});

test("fields above say what they can, and the rest is listed", () => {
  const rule =
    "---\ndescription: Style of our code\nglobs: ['*.ts']\nalwaysApply: false\nmodel: gpt-5\n---\n\nWrite short lines.\n";
  const { format, draft, omitted } = read("style.mdc", rule);
  expect({ format, draft }).toEqual({
    format: "markdown",
    draft: { description: "Style of our code", system: "Write short lines." },
  });
  expect(omitted.map(({ place }) => place)).toEqual(["globs", "alwaysApply", "model"]);
  expect(read("a.md", "---\ntitle: Short\nmodel: openai/gpt-5.4\n---\nHi.").draft.model).toEqual(["openai/gpt-5.4"]);
});

describe("what is none of it", () => {
  test.each([
    ["a.md", "", "is empty"],
    ["a.md", "---\ntitle: x\n---\n", "has no text"],
    ["a.txt", "Hello.", "is of no format"],
  ])("%s %j: %s", (name, text, message) => {
    expect(() => read(name, text)).toThrow(message);
  });
});

describe("prompts of promptfoo in files beside the configuration", () => {
  const config = (prompts: string) => `prompts: ${prompts}\nproviders: [openai:gpt-5.4]\ntests: [{vars: {q: hi}}]\n`;
  const all = (prompts: string, beside: Record<string, string>) =>
    importFile(
      new ImportedFile("promptfooconfig.yaml", Buffer.from(config(prompts)), (path) =>
        beside[path] === undefined ? undefined : Buffer.from(beside[path]),
      ),
    ).personas.map(({ name, draft: { system }, tests }) => ({ name, system, prompts: tests?.["prompts"] }));

  const chat = [
    { role: "system", content: "Be {{tone}}." },
    { role: "user", content: "{{q}}" },
  ];
  test.each([
    ["file://chat.json", { "chat.json": JSON.stringify(chat) }],
    [
      "[file://./prompts/chat.yaml]",
      { "prompts/chat.yaml": "- {role: system, content: 'Be {{tone}}.'}\n- {role: user, content: '{{q}}'}\n" },
    ],
    ["[chat.json]", { "chat.json": JSON.stringify(chat) }],
    ["[{id: 'file://chat.jsonl', label: chat}]", { "chat.jsonl": `${JSON.stringify(chat)}\n\n` }],
  ])("%s", (prompts, beside) => {
    expect(all(prompts, beside as Record<string, string>)).toEqual([
      { name: "chat", system: "Be {{tone}}.", prompts: expect.anything() },
    ]);
  });

  test("of a text each part between lines '---'", () => {
    const found = all("[file://p.txt]", { "p.txt": "One: {{q}}\r\n---\r\nTwo: {{q}}\n" });
    expect(found.map(({ name }) => name)).toEqual(["p 1", "p 2"]);
  });

  test.each([
    ["file://gone.txt", "names file://gone.txt, which is not beside the file"],
    ["file://a.txt", "names a.txt, which is empty"],
    ["file://make.py", "names file://make.py: put the text that it comes to in its place"],
    ["file://p/*.txt", "names file://p/*.txt"],
  ])("%s is refused", (prompts, message) => {
    expect(() => all(prompts, { "a.txt": " \n---\n" })).toThrow(message);
  });
});
