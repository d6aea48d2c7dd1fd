/** The formats' own programs beside ours, in the long form: what a file says there it says here, or it is refused, or listed. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { fillTemplate, parseTemplate } from "../../../../src/personas/compose/template.ts";
import { exporters } from "../../../../src/personas/exchange/exporters/all.ts";
import { importFile } from "../../../../src/personas/exchange/importers/all.ts";
import { joinTemplate, literal } from "../../../../src/personas/exchange/importers/draft.ts";
import { ImportError, ImportedFile } from "../../../../src/personas/exchange/importers/source.ts";
import type { PersonaContent } from "../../../../src/personas/file/schema.ts";
import { askNode, askOllama, askPython, hasOllama, hasPython, npmFolder } from "../../../helpers/format-programs.ts";
import { isLongForm } from "../../../helpers/long-form.ts";
import { templateVectors, vectorValues } from "./template-vectors.ts";

const hasNpm = npmFolder !== undefined;
const vectorTexts = templateVectors.map(({ text }) => text);
const timeoutMs = 300_000;

type Vector = (typeof templateVectors)[number];
type Language = "handlebars" | "mustache" | "jinja";

/** Read here all the same, and said to be errors there. */
const noted = /\{\{(?:name|answer)\}\}\}/;

/** What is text here is that text there; what is refused there is refused here. */
function compare(language: Language, theirs: readonly (string | null)[], exceptions: readonly string[] = []): void {
  const differing = templateVectors.filter((vector: Vector, at) => {
    const ours = vector[language];
    if (exceptions.includes(vector.text) || (language === "handlebars" && noted.test(vector.text))) return false;
    return ours !== null && ours !== theirs[at];
  });
  expect(differing).toEqual([]);
  expect(theirs).toHaveLength(templateVectors.length);
}

const rendering = (render: string) => `
  import Handlebars from "handlebars"; import nunjucks from "nunjucks"; import Mustache from "mustache";
  let input = ""; for await (const piece of process.stdin) input += piece;
  const { texts, values } = JSON.parse(input);
  const attempt = (text) => { try { return ${render} } catch { return null } };
  process.stdout.write(JSON.stringify(texts.map(attempt)));`;

test.skipIf(!isLongForm || !hasNpm).each([
  ["handlebars", "Handlebars.compile(text, { noEscape: true })(values)", []],
  // A second comment on a line of its own goes with the line there, and not by the specification.
  ["mustache", "Mustache.render(text, values)", ["{{! a }} {{! b }}\nz"]],
  // Dashes stand outside of \`raw\` alone there.
  [
    "jinja",
    "new nunjucks.Environment(null, { autoescape: false }).renderString(text, values)",
    ["a {%- raw -%} {{x}} {%- endraw -%} b"],
  ],
] as const)(
  "%s: the program of npm says the same",
  (language, render, exceptions) => {
    compare(
      language,
      askNode(rendering(render), { texts: vectorTexts, values: vectorValues }) as (string | null)[],
      exceptions,
    );
  },
  timeoutMs,
);

test.skipIf(!isLongForm || !hasPython).each([
  ["jinja", "Environment(keep_trailing_newline=True).from_string(text).render(**values)"],
  ["mustache", "chevron.render(text, values)"],
] as const)(
  "%s: the program of Python says the same",
  (language, render) => {
    const script = `
import json, sys, chevron
from jinja2.sandbox import ImmutableSandboxedEnvironment as Environment
given = json.load(sys.stdin)
values = given["values"]
def attempt(text):
    try: return ${render}
    except Exception: return None
print(json.dumps([attempt(text) for text in given["texts"]]))`;
    compare(language, askPython(script, { texts: vectorTexts, values: vectorValues }) as (string | null)[]);
  },
  timeoutMs,
);

/** Texts of marks, braces and backslashes, as a person would hardly write them. */
const texts = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "{{",
        "}}",
        "{",
        "}",
        "\\",
        '"',
        '"""',
        "\n",
        "'''",
        "#",
        "---\n",
        "{{role 'user'}}",
        " ",
        "  \n",
        "\t",
      ),
      fc.string({ maxLength: 6 }),
    ),
    { minLength: 1, maxLength: 10 },
  )
  .map((all) => `a${all.join("").replaceAll("\r", "")}z`);
const templates = fc
  .array(
    fc.oneof(
      texts,
      fc.constantFrom("{", "}", "\\", "\\\\").map(String),
      fc.constantFrom("name", "role", "if").map((variable) => ({ variable })),
    ),
    {
      minLength: 1,
      maxLength: 5,
    },
  )
  .map((pieces) => joinTemplate(["a", ...pieces, "z"]));
const values = { name: "Ann", role: "Cook", if: "When" };
const sampleOf = <T>(arbitrary: fc.Arbitrary<T>): T[] => fc.sample(arbitrary, { numRuns: 300, seed: 7 });
const exportedAs = (format: string, content: PersonaContent) =>
  exporters.find((one) => one.format === format)!.write({ id: "acme/x", content });
const filled = (template: string) => fillTemplate(parseTemplate(template), new Map(Object.entries(values)));

test.skipIf(!isLongForm || !hasNpm)(
  "Dotprompt reads what is written for it: texts, schemas and defaults",
  () => {
    const variables = {
      name: { description: "a (b) c (d), e", required: true },
      role: { enum: ["Cook", "Guest"], default: "Cook" },
      if: { default: "When" },
      type: { description: "a name" },
    };
    const schema = { type: "object", properties: { type: { type: "string" }, name: { type: "string" } } };
    const given = sampleOf(fc.tuple(templates, texts)).map(([template, question]) => {
      const system = `${template} {{name}} {{role}} {{if}} {{type}}`;
      const content = {
        ...{ description: "x", model: "google/gemini-3.5-flash", system, variables },
        examples: [
          { role: "user", content: question },
          { role: "assistant", content: "b" },
        ],
        response_format: { type: "json_schema", json_schema: { name: "x", schema } },
      } as PersonaContent;
      const { content: source, omitted } = exportedAs("dotprompt", content);
      return { source, system: omitted.length > 0 ? undefined : filled(system), question };
    });
    const script = `
      import { Dotprompt } from "dotprompt";
      let input = ""; for await (const piece of process.stdin) input += piece;
      const results = [];
      for (const { source } of JSON.parse(input)) {
        const program = new Dotprompt();
        const rendered = await program.render(source, { input: ${JSON.stringify({ ...values, type: "" })} });
        results.push({
          texts: rendered.messages.map(({ role, content }) => [role, content.map(({ text }) => text).join("")]),
          input: (await program.renderMetadata(source)).input?.schema, output: rendered.output?.schema,
        });
      }
      process.stdout.write(JSON.stringify(results));`;
    type Rendered = { texts: [string, string][]; input: { properties: object; required: string[] }; output: object };
    const rendered = askNode(script, given) as Rendered[];
    for (const [at, { texts: messages, input, output }] of rendered.entries()) {
      const { system, question } = given[at]!;
      expect(messages.map(([role]) => role)).toEqual(["system", "user", "model"]);
      if (system !== undefined) expect(messages[0]![1].trim()).toBe(system.trim());
      expect(messages[1]![1].trim()).toBe(question.trim());
      expect(Object.keys(input.properties)).toEqual(Object.keys(variables));
      expect(input.properties).toMatchObject({
        name: { description: "a (b) c (d), e" },
        role: { enum: ["Cook", "Guest"] },
      });
      expect(input.required).toEqual(["name"]);
      expect(output).toEqual(schema);
    }
  },
  timeoutMs,
);

const trimmed = (text: string) => text.replace(/^(?:[ \t]*\n)+/, "").trimEnd();

test.skipIf(!isLongForm || !hasOllama)(
  "Ollama's parser reads what is written for it, and finds in a Modelfile what is found here",
  () => {
    const given = sampleOf(fc.tuple(texts, texts)).map(([system, question]) => ({ system, question }));
    const files = given.map(({ system, question }) => {
      const examples = [
        { role: "user", content: question },
        { role: "assistant", content: "b" },
      ];
      const content = { description: "x", model: "ollama/x", system: literal(system), examples, stop: ["a b", '"c'] };
      return exportedAs("modelfile", content as PersonaContent).content as string;
    });
    for (const [at, commands] of askOllama(files).entries()) {
      const { system, question } = given[at]!;
      const argumentsOf = (name: string) => commands!.filter(({ Name }) => Name === name).map(({ Args }) => Args);
      const said = (text: string) =>
        text.replaceAll('"""', "'''").replace(/(?![\n\t])[\p{C}\p{Z}]/gu, (one) => (one === " " ? one : ""));
      expect(argumentsOf("system").map((text) => text.trimEnd())).toEqual([said(system)]);
      expect(argumentsOf("message").map((text) => text.trimEnd())).toEqual([`user: ${said(question)}`, "assistant: b"]);
      expect(argumentsOf("stop").map((text) => text.trimEnd())).toEqual(["a b", '"c']);
    }
    const written = [
      'FROM x\nSYSTEM """\n  - one  \n\ttwo \n\n"""  \nPARAMETER temperature "0.5"\nPARAMETER stop " #"\nMESSAGE user """ a "b"  \nc"""\nMESSAGE assistant d  \n',
      'from x\nsystem "a\nb" \n# c\n  SYSTEM plain # text \nparameter stop <end>\n',
      'FROM x\nSYSTEM ""a""\nPARAMETER top_p .5',
      'FROM x\nSYSTEM """a""',
      "SYSTEM a",
    ];
    for (const [at, commands] of askOllama(written).entries()) {
      const read = () => importFile(new ImportedFile("Modelfile", Buffer.from(written[at]!))).personas[0]!.draft;
      if (commands === null) expect(read).toThrow(ImportError);
      else {
        const last = (name: string) => commands.findLast(({ Name }) => Name === name)?.Args;
        expect(filled(read().system)).toBe(trimmed(last("system")!));
        expect(read().stop ?? []).toEqual(commands.filter(({ Name }) => Name === "stop").map(({ Args }) => Args));
        for (const [ours, theirs] of [
          ["temperature", "temperature"],
          ["top_p", "top_p"],
        ] as const)
          expect(read().defaults?.[ours]).toBe(last(theirs) === undefined ? undefined : Number(last(theirs)));
        const messages = (read().examples ?? []).map((turn) => `${turn.role}: ${turn.content}`);
        expect(messages).toEqual(commands.filter(({ Name }) => Name === "message").map(({ Args }) => trimmed(Args)));
      }
    }
  },
  timeoutMs,
);
