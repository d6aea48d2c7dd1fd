/** A persona as a subagent of Claude Code. Source: https://code.claude.com/docs/en/sub-agents */

import { claudeFamilies } from "../../../facts/examples.ts";
import { parseModelId } from "../../../protocols/model-id.ts";
import { fillTemplate, parseTemplate } from "../../compose/template.ts";
import { writeYaml } from "../../file/persona-yaml.ts";
import type { PersonaContent } from "../../file/schema.ts";
import { Omissions } from "../importers/draft.ts";
import type { Exporter } from "./exporter.ts";

const carried = ["description", "model", "system", "variables"];

export const claudeSubagentExporter: Exporter = {
  format: "claude-subagent",
  title: "Claude Code subagent (Markdown)",
  extension: ".md",
  write({ id, content }) {
    const omissions = new Omissions();
    omissions.addRest(content, carried, [], "has no place in a subagent");
    const model = modelOf(content, omissions);
    const fields = {
      name: subagentName(id),
      description: content.description.replace(/\s+/g, " "),
      ...(model !== undefined && { model }),
    };
    return { content: `---\n${writeYaml(fields)}---\n\n${textOf(content, omissions)}\n`, omitted: omissions.list };
  },
};

/** Lower-case letters, digits and hyphens. */
const subagentName = (id: string) =>
  (parseModelId(id)?.name ?? id)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");

/** The first of Anthropic's models, by the word for its family where there is one. */
function modelOf({ model }: PersonaContent, omissions: Omissions): string | undefined {
  const models = [model].flat();
  const asked = models.findIndex((one) => parseModelId(one)?.namespace === "anthropic");
  for (const [at, one] of models.entries())
    if (at !== asked)
      omissions.add(models.length === 1 ? "model" : ["model", at], `is ${one}, which Claude Code does not call`);
  if (asked < 0) return undefined;
  const [family] = Object.entries(claudeFamilies).find(([, one]) => one === models[asked]) ?? [];
  return family ?? parseModelId(models[asked]!)?.name;
}

/** Nothing fills in variables there: a default stands in its place, and what has none stays as a mark. */
function textOf({ system, variables = {} }: PersonaContent, omissions: Omissions): string {
  const values = new Map(
    Object.entries(variables).map(([name, { default: byDefault }]) => {
      const said =
        byDefault === undefined ? `has no default: {{${name}}} stands in the text` : "is its default in the text";
      omissions.add(["variables", name], said);
      return [name, byDefault ?? `{{${name}}}`];
    }),
  );
  return fillTemplate(parseTemplate(system), values).trim();
}
