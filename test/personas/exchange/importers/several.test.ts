/** Files of several personas: one that can't come over is named, and those beside it come. */
import { describe, expect, test } from "bun:test";
import { importFile } from "../../../../src/personas/exchange/importers/all.ts";
import { ImportedFile } from "../../../../src/personas/exchange/importers/source.ts";

const prompt = (id: string, others: object = {}) => ({ id, model: "gpt-5.4", instructions: `I am ${id}.`, ...others });
const image = { role: "user", content: [{ type: "input_image", image_url: "https://example.com/a.png" }] };
const row = (id: string, system: string) => ({ id, name: id, base_model_id: "llama3", params: { system }, meta: {} });
const preset = (title: string, promptPrefix: string) => ({ title, promptPrefix, endpoint: "openAI", model: "gpt-5.4" });

const files: Record<string, [file: unknown, names: string[], leftOut: string]> = {
  "OpenAI's prompts": [
    [prompt("pmpt_a"), prompt("pmpt_b", { messages: [image] }), prompt("pmpt_c")],
    ["pmpt_a", "pmpt_c"],
    "[1].messages[0].content[0]: is no text, which a persona's prompt is made of; it is left out",
  ],
  "an older version of OpenAI's": [
    [{ ...prompt("pmpt_a"), versions: [{ version: "1", messages: [image] }, { version: "2" }] }],
    ["pmpt_a"],
    "versions[0].messages[0].content[0]: is no text, which a persona's prompt is made of; it is left out",
  ],
  "Open WebUI's models": [
    [row("plain", ""), row("chef", "You cook.")],
    ["chef"],
    "[0].params.system: is empty: a persona is its system text; it is left out",
  ],
  "LibreChat's presets": [
    [preset("Chef", "You cook."), preset("Plain", "")],
    ["Chef"],
    "[1].promptPrefix: is empty: a persona is its system text; it is left out",
  ],
  "promptfoo's prompts": [
    { prompts: ["Hello {{name}}", "file://make.py", "{{ name | upper }}"], providers: ["openai:gpt-5.4"] },
    ["promptfooconfig"],
    "prompts[1]: names file://make.py: put the text that it comes to in its place; it is left out",
  ],
};

describe("one of several that can't come over leaves the others be", () => {
  test.each(Object.entries(files))("%s", (_, [file, names, leftOut]) => {
    const source = new ImportedFile("promptfooconfig.json", Buffer.from(JSON.stringify(file)));
    const { personas } = importFile(source);
    expect(personas.map(({ name }) => name)).toEqual(names);
    expect(personas[0]!.omitted.map(({ place, message }) => `${place}: ${message}`)).toContain(leftOut);
  });

  test("but an older version does not answer for the newest", () => {
    const file = { ...prompt("pmpt_a"), versions: [{ version: "1" }, { version: "2", messages: [image] }] };
    const source = new ImportedFile("prompts.json", Buffer.from(JSON.stringify(file)));
    expect(() => importFile(source)).toThrow("is no text, which a persona's prompt is made of");
  });
});

test.each([
  "---\n# IDENTITY\n---\n\nBe brief.",
  "---\n- a rule\n---\nBe brief.",
  "---\nTwo words: of: text\n---\nBe brief.",
])("Markdown between two rules that is no fields is text: %j", (text) => {
  const { personas } = importFile(new ImportedFile("system.md", Buffer.from(text)));
  expect(personas[0]!.draft.system).toBe(text);
});
