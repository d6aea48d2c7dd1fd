/** What docs/personas.md and the page of versions tell authors is what the parser does. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { formatDiagnostic } from "../../src/lib/yaml/yaml.ts";
import { compose } from "../../src/personas/compose/compose.ts";
import type { Partials } from "../../src/personas/file/includes.ts";
import { PersonaFile, personaFileWith } from "../../src/personas/file/schema.ts";
import { draftPersona, parsePersona } from "../../src/personas/persona.ts";
import { checkChatRequest } from "../../src/protocols/chat/request.ts";
import { optionSchemas } from "../../src/providers/options.ts";
import { providers } from "../../src/providers/registry.ts";

const page = ["personas", "persona-versions"]
  .map((name) => readFileSync(join(import.meta.dir, `../../docs/${name}.md`), "utf8"))
  .join("\n");
const blocks = [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map((match) => ({ kind: match[1]!, text: match[2]! }));
const whole = /^# (personas\/(.+)\.yaml)\n/;

/** The fields that every persona needs, for blocks that show only some. */
const least: Record<string, string> = { description: "A guide.", model: "builtin/eliza", system: "You guide." };

const completed = (fragment: string) =>
  fragment +
  Object.entries(least)
    .filter(([key]) => !(key in parse(fragment)) && !(key === "system" && "system_file" in parse(fragment)))
    .map(([key, value]) => `${key}: ${value}\n`)
    .join("");

/** Of the page, by their paths. */
const texts = new Map(
  blocks.flatMap(({ kind, text }) => {
    const [first, ...lines] = text.split("\n");
    const path = /^<!-- personas\/(.+) -->$/.exec(first!)?.[1];
    return kind === "markdown" && path !== undefined ? [[path, lines.join("\n")] as const] : [];
  }),
);
/** Skills of the page. */
const listed = new Map(
  ["acme/skills/refunds", "_shared/skills/house-style"].flatMap((path) => {
    const name = path.split("/").at(-1)!;
    const head = `---\nname: ${name}\ndescription: Of the page.\n---\n`;
    return [
      [path.endsWith("refunds") ? "acme/skills/*/" : `${path}/`, `${path}/\n${path}/SKILL.md`],
      [`${path}/SKILL.md`, head],
    ] as const;
  }),
);
const partials: Partials = {
  find: (path) =>
    listed.has(path)
      ? { text: listed.get(path)! }
      : texts.has(path)
        ? { text: texts.get(path)! }
        : { problem: "is not on the page" },
  nameOf: (path) => path,
};

function errorsOf(text: string): string[] {
  const [, file = "personas/acme/fragment.yaml", id = "acme/fragment"] = whole.exec(text) ?? [];
  const schema = personaFileWith(optionSchemas(providers));
  const draft = draftPersona(whole.test(text) ? text : completed(text), file, id, schema);
  const parsed = "errors" in draft ? draft : draft.resolve(partials);
  return "errors" in parsed ? parsed.errors.map(formatDiagnostic) : [];
}

const yaml = blocks
  .map(({ kind, text }, at) => ({ kind, text, next: blocks[at + 1], shows: text.split("\n")[0] }))
  .filter(({ kind }) => kind === "yaml");

test.each(yaml)("the block of $shows", ({ text, next }) => {
  expect(errorsOf(text)).toEqual(next?.kind === "errors" ? next.text.trim().split("\n") : []);
});

test("every field is shown in a block", () => {
  const shown = new Set(yaml.flatMap(({ text }) => Object.keys(parse(text))));
  const fields = Object.keys(PersonaFile.properties).filter((field) => field !== "owned_by");
  expect(fields.filter((field) => !shown.has(field))).toEqual([]);
  for (const field of [...fields, "owned_by"]) expect(page).toContain(`\`${field}\``);
});

test("the request that is shown fills in the persona that is shown", () => {
  const at = blocks.findIndex(({ kind }) => kind === "json");
  const parsed = parsePersona(blocks[at - 1]!.text, "support.yaml", "acme/support");
  if ("errors" in parsed) throw new Error("the persona is invalid");
  const request = checkChatRequest(JSON.parse(blocks[at]!.text));
  expect(request.model).toBe(parsed.persona.id);
  expect(compose(parsed.persona, request).messages[0]).toEqual({
    role: "system",
    content: "You answer questions about Acme Kettle for a customer.",
  });
});
