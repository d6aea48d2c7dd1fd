/** The formats' own programs beside ours, in the long form: what a file says there it says here, or it is refused, or listed. */
import { expect, test } from "bun:test";
import { askNode, askPython, hasPython, npmFolder } from "../../helpers/format-programs.ts";
import { isLongForm } from "../../helpers/long-form.ts";
import { templateVectors, vectorValues } from "./template-vectors.ts";

const hasNpm = npmFolder !== undefined;
const texts = templateVectors.map(({ text }) => text);
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
    compare(language, askNode(rendering(render), { texts, values: vectorValues }) as (string | null)[], exceptions);
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
    compare(language, askPython(script, { texts, values: vectorValues }) as (string | null)[]);
  },
  timeoutMs,
);
