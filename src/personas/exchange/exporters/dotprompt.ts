/** A persona as a Dotprompt. Source: https://google.github.io/dotprompt/reference/frontmatter */
import { isObject, type JsonObject } from "../../../lib/json/json.ts";
import { words } from "../../../lib/text/words.ts";
import { parseModelId } from "../../../protocols/model-id.ts";
import { writeYaml } from "../../file/persona-yaml.ts";
import type { PersonaContent } from "../../file/schema.ts";
import { literal, Omissions } from "../importers/draft.ts";
import { type Exporter, plainExamples } from "./exporter.ts";
import { handlebarsOf } from "./handlebars.ts";

const carried = words("description model system variables examples defaults stop tools response_format");
const settings = {
  temperature: "temperature",
  top_p: "topP",
  max_tokens: "maxOutputTokens",
  max_completion_tokens: "maxOutputTokens",
  seed: "seed",
} as const;

export const dotpromptExporter: Exporter = {
  format: "dotprompt",
  title: "Dotprompt (.prompt)",
  extension: ".prompt",
  write({ id, content }) {
    const omissions = new Omissions();
    omissions.addRest(content, carried, [], "has no place in a Dotprompt");
    const [model = "", ...others] = [content.model].flat();
    for (const [at] of others.entries())
      omissions.add(["model", at + 1], "is a fallback, which a Dotprompt does not have");
    const config = configOf(content, omissions);
    const output = outputOf(content, omissions);
    const tools = (content.tools ?? []).map(({ function: { name, description, parameters } }) => ({
      name,
      description: description ?? name,
      inputSchema: plainSchema(parameters ?? { properties: {} }),
    }));
    const fields: JsonObject = {
      name: parseModelId(id)?.name ?? id,
      description: content.description,
      model: model.replace(/^google\//, "googleai/"),
      ...(Object.keys(config).length > 0 && { config }),
      ...inputOf(content),
      ...(output !== undefined && { output }),
      ...(tools.length > 0 && { toolDefs: tools }),
    };
    return { content: `---\n${writeYaml(fields)}---\n${bodyOf(content, omissions)}`, omitted: omissions.list };
  },
};

function configOf({ defaults = {}, stop }: PersonaContent, omissions: Omissions): JsonObject {
  omissions.addRest(defaults, Object.keys(settings), ["defaults"], "has no place in a Dotprompt");
  const stops = [stop ?? []].flat();
  const set = Object.entries(settings).flatMap(([ours, theirs]) => {
    const value = defaults[ours as keyof typeof settings];
    return value == null ? [] : [[theirs, value] as const];
  });
  return { ...Object.fromEntries(set), ...(stops.length > 0 && { stopSequences: stops }) };
}

/** JSON Schema, as the short form has no way to say a field named `type`, or a bracket in a description. */
function inputOf({ variables = {} }: PersonaContent): JsonObject {
  const entries = Object.entries(variables);
  if (entries.length === 0) return {};
  const properties = entries.map(([name, { description, enum: values }]) => [
    name,
    {
      type: "string",
      ...(description !== undefined && { description: description.replace(/\s+/g, " ") }),
      ...(values !== undefined && { enum: values }),
    },
  ]);
  const required = entries.flatMap(([name, variable]) => (variable.required === true ? name : []));
  const defaults = entries.flatMap(([name, variable]) =>
    variable.default === undefined ? [] : [[name, variable.default]],
  );
  const schema = {
    type: "object",
    properties: Object.fromEntries(properties) as JsonObject,
    ...(required.length > 0 && { required }),
  };
  return { input: { schema, ...(defaults.length > 0 && { default: Object.fromEntries(defaults) as JsonObject }) } };
}

/** A schema is taken for a short form where its type does not say that it is none. */
const plainSchema = (schema: JsonObject): JsonObject =>
  typeof schema["type"] === "string" ? schema : { ...schema, type: "object" };

function outputOf({ response_format: format }: PersonaContent, omissions: Omissions): JsonObject | undefined {
  if (format?.type === "json_object") return { format: "json" };
  if (format?.type !== "json_schema") return undefined;
  const { schema } = format.json_schema;
  if (isObject(schema)) return { format: "json", schema: plainSchema(schema) };
  omissions.add("response_format", "has no schema");
  return { format: "json" };
}

/** Dotprompt's own, called by their names alone. */
const helpers: ReadonlySet<string> = new Set("json role history media section ifEquals unlessEquals".split(" "));

/** The conversation stands behind the examples. */
function bodyOf(content: PersonaContent, omissions: Omissions): string {
  const onSpace = () => omissions.add("system", "has a brace before a variable: a space stands between them there");
  const written = (template: string) => handlebarsOf(template, helpers, onSpace);
  const parts = [`{{role "system"}}\n${written(content.system)}`];
  for (const one of plainExamples(content, omissions, "has tool calls, which a template can't show")) {
    const [question, answer] = [one.question, one.answer].map((text) => written(literal(text)));
    parts.push(`{{role "user"}}\n${question}`, `{{role "model"}}\n${answer}`);
  }
  return `${[...parts, "{{history}}"].join("\n")}\n`;
}
