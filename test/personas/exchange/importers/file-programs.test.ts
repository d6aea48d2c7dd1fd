/** Whole files by their formats' own programs, in the long form: the texts that a model gets there, and what a persona says here. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fillTemplate, parseTemplate } from "../../../../src/personas/compose/template.ts";
import { importFile } from "../../../../src/personas/exchange/importers/all.ts";
import { ImportedFile } from "../../../../src/personas/exchange/importers/source.ts";
import { activeEntries } from "../../../../src/personas/knowledge/lorebook.ts";
import { toLorebook } from "../../../../src/personas/knowledge/schema.ts";
import type { Message } from "../../../../src/protocols/chat/schema.ts";
import { askNode, askPython, hasPython, npmFolder, sillyTavernFolder } from "../../../helpers/format-programs.ts";
import { isLongForm } from "../../../helpers/long-form.ts";
import { v2 } from "./card-examples.ts";

const timeoutMs = 300_000;
const values = { name: "Ann", topic: "tea", answer: "42" };

/** The texts of system and examples, without white space around them; what the caller sends is no part of a persona. */
function said(name: string, file: string): string[] {
  const { draft } = importFile(new ImportedFile(name, Buffer.from(file))).personas[0]!;
  const filled = fillTemplate(parseTemplate(draft.system), new Map(Object.entries(values)));
  return [filled, ...(draft.examples ?? []).map(({ content }) => String(content))];
}

/** Joined as a persona joins them: system texts first, then the question that is no variable. */
type Turn = readonly [role: string, text: string];
function expected(turns: readonly Turn[]): string[] {
  const spoken = turns.map(([role, text]): Turn => [role, text.trim()]).filter(([, text]) => text !== "");
  const system = spoken.filter(([role]) => role === "system" || role === "developer").map(([, text]) => text);
  const others = spoken.filter(([role]) => role !== "system" && role !== "developer");
  const last = others.at(-1)?.[0] === "user" ? others.pop() : undefined;
  return [[...system, ...(last === undefined ? [] : [last[1]])].join("\n\n"), ...others.map(([, text]) => text)];
}

const dotprompts = [
  "Hello {{name}}, of {{topic}}.",
  "---\nmodel: googleai/gemini-3.5-flash\n---\nHello {{~name~}} ,\n  {{! no }}\nof \\{{topic}} C:\\\\{{topic}}.",
  '---\nconfig: {temperature: 1}\n---\n{{role "system"}}\nBe {{topic}}.\n{{role "user"}}Hi\n{{role "model"}}Ho, {"a": "{{!--x--}}b"}\n{{role "user"}}Tell {{name}} {{{topic}}}.\n',
  '---\nname: a\n---\n{{role "system"}}One{{role "system"}}  {{role "user"}}\n\n{{role "system"}}two {{this.name}}{{history}}',
];

test.skipIf(!isLongForm || npmFolder === undefined)(
  "Dotprompt's files",
  () => {
    const script = `
      import { Dotprompt } from "dotprompt";
      let input = ""; for await (const piece of process.stdin) input += piece;
      const results = [];
      for (const source of JSON.parse(input)) {
        const { messages } = await new Dotprompt().render(source, { input: ${JSON.stringify(values)} });
        results.push(messages.map(({ role, content }) => [role, content.map(({ text }) => text).join("")]));
      }
      process.stdout.write(JSON.stringify(results));`;
    const rendered = askNode(script, dotprompts) as Turn[][];
    for (const [at, file] of dotprompts.entries()) expect(said("a.prompt", file)).toEqual(expected(rendered[at]!));
  },
  timeoutMs,
);

const promptys = [
  "---\nname: a\n---\nsystem:\nHello {{name}}.",
  '---\nname: a\n---\n# system:\nAnswer as {"answer": {{answer}}} only. {# no #}\ntool:\nx\n  #User :\nHi\nassistant:\nHo\n',
  "---\nname: a\ntemplate: {format: {kind: mustache}, parser: {kind: prompty}}\n---\nsystem:\nHello {{name}}, {{{topic}}}.\n{{! no }}\n\\{{answer}}}\n",
  "---\nname: a\n---\nNo role: {{- name -}} {% raw %}{{x}}{% endraw %}\ndeveloper:\nand {{ topic }}",
  '---\nname: a\n---\nsystem[cache="yes"]:\nHello.\nuser:\nTell {{name}}.',
];

test.skipIf(!isLongForm || !hasPython)(
  "Prompty's files",
  () => {
    const script = `
import json, sys, tempfile, os, prompty
from prompty.renderers import Jinja2Renderer, MustacheRenderer
from prompty.parsers.prompty import PromptyChatParser
results = []
values = ${JSON.stringify(values)}
for source in json.load(sys.stdin):
    with tempfile.NamedTemporaryFile("w", suffix=".prompty", delete=False) as file: file.write(source)
    agent = prompty.load(file.name)
    os.unlink(file.name)
    kind = agent.template.format.kind if agent.template and agent.template.format else "jinja2"
    renderer = MustacheRenderer() if kind == "mustache" else Jinja2Renderer()
    text = renderer.render(agent, agent.instructions, values)
    results.append([[one.role, "".join(part.value for part in one.parts)] for one in PromptyChatParser().parse(agent, text)])
print(json.dumps(results))`;
    const rendered = askPython(script, promptys) as Turn[][];
    for (const [at, file] of promptys.entries()) expect(said("a.prompty", file)).toEqual(expected(rendered[at]!));
  },
  timeoutMs,
);

const keys = ["lamp", "Lamp post", "a/b/c", "(oil)", "/lam.s?/i", "art", "é", "lamp?", "{{char}}"];
const messages = [
  "The lamp.",
  "lamps",
  "start",
  "LAMP POSTS",
  "a/b/c",
  "(OIL)",
  "art, or",
  "é!",
  "élan",
  "lamp?",
  "Marla",
];

test.skipIf(!isLongForm || sillyTavernFolder === undefined || npmFolder === undefined)(
  "SillyTavern's keys of lorebooks",
  () => {
    const source = readFileSync(join(sillyTavernFolder!, "public/scripts/world-info.js"), "utf8");
    const part = (start: string) => {
      const from = source.indexOf(start);
      return source.slice(from, source.indexOf("\n}\n", from) + 3).replace(/^export /, "");
    };
    const script = `
      const MAX_SCAN_DEPTH = 1000, world_info_depth = 2, world_info_case_sensitive = false, world_info_match_whole_words = true;
      const escapeRegex = (text) => text.replace(/[/\\-\\\\^$*+?.()|[\\]{}]/g, "\\\\$&");
      ${part("export function parseRegexFromString(")}
      ${part("class WorldInfoBuffer {")}
      let input = ""; for await (const piece of process.stdin) input += piece;
      const { keys, messages } = JSON.parse(input);
      process.stdout.write(JSON.stringify(messages.map((message) => {
        const buffer = new WorldInfoBuffer([message], {});
        return keys.filter((key) => buffer.matchKeys(buffer.get({}, 0), key.replace("{{char}}", "Marla").trim(), {}));
      })));`;
    const theirs = askNode(script, { keys, messages }) as string[][];
    const entries = keys.map((key) => ({
      ...{ keys: [key], content: key, enabled: true, insertion_order: 1, use_regex: true, selective: true },
      extensions: { selectiveLogic: 0, probability: 100, position: 1 },
    }));
    const card = { ...v2, data: { ...v2.data, character_book: { entries } } };
    const { personas } = importFile(new ImportedFile("card.json", Buffer.from(JSON.stringify(card))));
    const book = toLorebook(personas[0]!.draft.lorebook!)!;
    const plain = (key: string) => key.replace("{{char}}", "Marla");
    for (const [at, content] of messages.entries()) {
      const ours = activeEntries(book, [{ role: "user", content }] as Message[], new Map()).map(({ text }) => text);
      // A pattern is left out by name.
      expect(ours).toEqual(theirs[at]!.filter((key) => !key.startsWith("/")).map(plain));
    }
    expect(theirs.flat().length).toBeGreaterThan(messages.length);
  },
  timeoutMs,
);
