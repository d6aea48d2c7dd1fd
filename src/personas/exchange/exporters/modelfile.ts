/** A persona as an Ollama Modelfile. Source: https://github.com/ollama/ollama/blob/main/docs/modelfile.mdx */

import { fillTemplate, parseTemplate } from "../../compose/template.ts";
import type { PersonaContent } from "../../file/schema.ts";
import { Omissions, type SamplingName } from "../importers/draft.ts";
import { unprinted } from "../importers/modelfile.ts";
import { type Exporter, plainExamples } from "./exporter.ts";

const parameters: readonly (readonly [SamplingName, string])[] = [
  ["temperature", "temperature"],
  ["top_p", "top_p"],
  ["seed", "seed"],
  ["max_tokens", "num_predict"],
  ["max_completion_tokens", "num_predict"],
  ["presence_penalty", "presence_penalty"],
  ["frequency_penalty", "frequency_penalty"],
];
const carried = ["description", "model", "system", "variables", "examples", "defaults", "stop"];

export const modelfileExporter: Exporter = {
  format: "modelfile",
  title: "Ollama Modelfile",
  extension: ".Modelfile",
  write({ id, content }) {
    const omissions = new Omissions();
    omissions.addRest(content, carried, [], "has no place in a Modelfile");
    const lines = [
      `# ${id}: ${content.description.replace(/[\r\n]+/g, " ")}`,
      `FROM ${modelOf(content, omissions)}`,
      ...parametersOf(content, omissions),
      `SYSTEM ${quoted(systemOf(content, omissions), "system", omissions)}`,
      ...messagesOf(content, omissions),
    ];
    return { content: `${lines.join("\n")}\n`, omitted: omissions.list };
  },
};

function modelOf({ model }: PersonaContent, omissions: Omissions): string {
  const models = [model].flat();
  const own = models.find((one) => one.startsWith("ollama/"));
  for (const [at, other] of models.entries()) {
    if (other !== (own ?? models[0])) omissions.add(["model", at], "is another model: a Modelfile is made from one");
  }
  if (own === undefined) omissions.add("model", "has none of Ollama's: name one behind FROM");
  return (own ?? models[0]!).replace(/^[^/]+\//, "");
}

function systemOf({ system, variables = {} }: PersonaContent, omissions: Omissions): string {
  const values = new Map<string, string>();
  for (const [name, { default: fallback, enum: allowed }] of Object.entries(variables)) {
    const value = fallback ?? allowed?.[0] ?? "";
    values.set(name, value);
    omissions.add(["variables", name], `is filled in: '${value.slice(0, 60)}'`);
  }
  return fillTemplate(parseTemplate(system), values);
}

function parametersOf({ defaults = {}, stop }: PersonaContent, omissions: Omissions): string[] {
  omissions.addRest(
    defaults,
    parameters.map(([name]) => name),
    ["defaults"],
    "has no place in a Modelfile",
  );
  const set = parameters.flatMap(([name, theirs]) =>
    defaults[name] == null ? [] : `PARAMETER ${theirs} ${defaults[name]}`,
  );
  return [...set, ...[stop ?? []].flat().map((text) => `PARAMETER stop ${quoted(text, "stop", omissions)}`)];
}

const messagesOf = (content: PersonaContent, omissions: Omissions): string[] =>
  [...plainExamples(content, omissions, "has tool calls, which a Modelfile can't show")].flatMap(
    ({ at, question, answer }) => [
      `MESSAGE user ${quoted(question, `examples[${at}]`, omissions)}`,
      `MESSAGE assistant ${quoted(answer, `examples[${at}]`, omissions)}`,
    ],
  );

/** Quotes have no escape there. */
function quoted(text: string, place: string, omissions: Omissions): string {
  const [character] = unprinted.exec(text) ?? [];
  if (character !== undefined) {
    const code = character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");
    omissions.add(place, `has characters that Ollama leaves out, such as U+${code}`);
  }
  if (text.includes('"""')) omissions.add(place, "has \"\"\", which stands as ''' there");
  if (!text.includes('"') && !text.includes("\n") && text.trim() === text) return `"${text}"`;
  const safe = text.replaceAll('"""', "'''");
  return `"""${safe}${safe.endsWith('"') ? "\n" : ""}"""`;
}
