/** Claude Code's subagents: Markdown below YAML. Source: https://code.claude.com/docs/en/sub-agents */
import { claudeFamilies } from "../../../facts/examples.ts";
import { textOf } from "../../../lib/json/json.ts";
import { type Draft, descriptionOf, literal, Omissions, withoutEmpty } from "./draft.ts";
import { frontmatterKeys, frontmatterOf } from "./frontmatter.ts";
import type { Importer } from "./importer.ts";
import { modelReference } from "./models.ts";
import { ImportError, type ImportedFile, parseYamlText } from "./source.ts";

const known = ["name", "description", "model"];

function isSubagent(source: ImportedFile): boolean {
  const found = frontmatterKeys(source);
  return found?.keys.includes("name") === true && found.keys.includes("description");
}

/** Claude Code takes the rest of a line as a field's text where YAML does not read it, as with `: ` in a description. */
function parseFields(yaml: string, firstLine: number): unknown {
  try {
    return parseYamlText(yaml, firstLine);
  } catch (error) {
    const quoted = yaml.replace(
      /^([A-Za-z_][\w-]*:)[ \t]+(?!["'[{|>&*!#%@`])(.*\S)[ \t]*$/gm,
      (_, key: string, text: string) => `${key} ${JSON.stringify(text)}`,
    );
    if (quoted === yaml) throw error;
    return parseYamlText(quoted, firstLine);
  }
}

export const claudeSubagent: Importer = {
  format: "claude-subagent",
  title: "Claude Code subagent (Markdown)",
  claims: (source) => /\.(?:md|markdown|mdc)$/i.test(source.name) && isSubagent(source),
  detects: isSubagent,
  read(source) {
    const file = frontmatterOf(source, { parse: parseFields });
    if (file === undefined) throw new ImportError("line 1", "must begin with fields between two lines '---'");
    const { fields, body } = file;
    if (body.trim() === "") throw new ImportError(`line ${file.bodyLine}`, "has no text: a persona is its system text");
    const omissions = new Omissions();
    omissions.addRest(fields, known, [], "is for Claude Code: a persona has no place for it");
    const asked = textOf(fields["model"]) ?? "inherit";
    const model = Object.hasOwn(claudeFamilies, asked) ? claudeFamilies[asked] : modelReference(asked, "anthropic");
    const isInherited = asked === "inherit";
    if (isInherited && fields["model"] !== undefined) omissions.add("model", "is inherit: name a model by --model");
    const draft: Draft = withoutEmpty({
      description: descriptionOf(textOf(fields["description"]), omissions),
      model: isInherited || model === undefined ? undefined : [model],
      system: literal(body.trim()),
    });
    return [{ name: textOf(fields["name"]) ?? "", draft, omitted: omissions.list }];
  },
};
