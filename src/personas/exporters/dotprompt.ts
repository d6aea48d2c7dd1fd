/** A persona as a Dotprompt. Source: https://google.github.io/dotprompt/reference/frontmatter */
import { isObject, type JsonObject } from "../../lib/json/json.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { literal, Omissions } from "../importers/draft.ts";
import { writeYaml } from "../persona-yaml.ts";
import type { PersonaContent } from "../schema.ts";
import type { Exporter } from "./exporter.ts";

const carried = [
  "description",
  "model",
  "system",
  "variables",
  "examples",
  "defaults",
  "stop",
  "tools",
  "response_format",
];
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
      inputSchema: parameters ?? { type: "object", properties: {} },
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

function inputOf({ variables = {} }: PersonaContent): JsonObject {
  const schema: JsonObject = {};
  const defaults: JsonObject = {};
  for (const [name, variable] of Object.entries(variables)) {
    const field = variable.required === true ? name : `${name}?`;
    const description = variable.description?.replace(/\s+/g, " ");
    if (variable.enum !== undefined)
      schema[description === undefined ? `${field}(enum)` : `${field}(enum, ${description})`] = variable.enum;
    else schema[field] = description === undefined ? "string" : `string, ${description}`;
    if (variable.default !== undefined) defaults[name] = variable.default;
  }
  if (Object.keys(schema).length === 0) return {};
  return { input: { schema, ...(Object.keys(defaults).length > 0 && { default: defaults }) } };
}

function outputOf({ response_format: format }: PersonaContent, omissions: Omissions): JsonObject | undefined {
  if (format?.type === "json_object") return { format: "json" };
  if (format?.type !== "json_schema") return undefined;
  const { schema } = format.json_schema;
  if (isObject(schema)) return { format: "json", schema };
  omissions.add("response_format", "has no schema");
  return { format: "json" };
}

/** Literal braces are written alike in both. The conversation stands behind the examples. */
function bodyOf({ system, examples = [] }: PersonaContent, omissions: Omissions): string {
  const parts = [`{{role "system"}}\n${system}`];
  for (const [at, turn] of examples.entries()) {
    const next = examples[at + 1];
    if (turn.role !== "user") continue;
    if (next?.role !== "assistant" || next.tool_calls !== undefined || next.content === undefined) {
      omissions.add(["examples", at], "has tool calls, which a template can't show");
    } else parts.push(`{{role "user"}}\n${literal(turn.content)}`, `{{role "model"}}\n${literal(next.content)}`);
  }
  return `${[...parts, "{{history}}"].join("\n")}\n`;
}
