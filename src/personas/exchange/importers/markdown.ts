/**
 * Prompts that are plain Markdown, with fields above or without: a `system.md` of Fabric's patterns, rules and prompts of editors.
 * Source: https://github.com/danielmiessler/fabric (patterns, custom variables)
 */
import { type JsonObject, textOf } from "../../../lib/json/json.ts";
import { type Draft, descriptionOf, joinTemplate, literal, Omissions, withoutEmpty } from "./draft.ts";
import { type Frontmatter, frontmatterKeys, frontmatterOf } from "./frontmatter.ts";
import type { Importer } from "./importer.ts";
import { type Piece, variableName, variablesOf } from "./pieces.ts";
import { ImportError, type ImportedFile } from "./source.ts";

const known = ["name", "title", "description", "model"];

export const markdown: Importer = {
  format: "markdown",
  title: "Prompt in plain Markdown",
  // Others of these endings have fields above.
  claims: (source) => isMarkdown(source) && frontmatterKeys(source) === undefined,
  detects: isMarkdown,
  read(source) {
    const file = fieldsAbove(source);
    const fields = file?.fields ?? {};
    const body = (file?.body ?? source.text).replaceAll("\r\n", "\n").trim();
    if (body === "") throw new ImportError("", "has no text: a persona is its system text");
    const omissions = new Omissions();
    omissions.addRest(fields, known, [], "has no place in a persona");
    const pieces = isPattern(source) ? patternPieces(body, source, omissions) : undefined;
    const system = pieces === undefined ? literal(body) : joinTemplate(pieces);
    const draft: Draft = withoutEmpty({
      description: descriptionOf(textOf(fields["description"]) ?? textOf(fields["title"]) ?? firstParagraph(body)),
      model: modelOf(fields, omissions),
      system,
      variables: Object.fromEntries(variablesOf(pieces ?? []).map((name) => [name, { required: true }])),
    });
    return [{ name: textOf(fields["name"]) ?? textOf(fields["title"]) ?? "", draft, omitted: omissions.list }];
  },
};

/** The fields of a file; lines between two rules that are no fields are its text. */
function fieldsAbove(source: ImportedFile): Frontmatter | undefined {
  try {
    const file = frontmatterOf(source);
    return file !== undefined && Object.keys(file.fields).length > 0 ? file : undefined;
  } catch (error) {
    if (error instanceof ImportError && frontmatterKeys(source)?.keys.length === 0) return undefined;
    throw error;
  }
}

function isMarkdown({ name }: ImportedFile): boolean {
  return /\.(?:md|markdown|mdc)$/i.test(name);
}

const isPattern = ({ name }: ImportedFile) => name.toLowerCase() === "system.md";

/** Fabric's own marks: `{{name}}` is a variable that has to be given, `{{input}}` what the user says, which is put behind the text here. */
function patternPieces(body: string, source: ImportedFile, omissions: Omissions): Piece[] {
  const pieces = body.split(/(\{\{[^{}\n]*\}\})/).flatMap((part): Piece[] => {
    const name = /^\{\{\s*(\S+?)\s*\}\}$/.exec(part)?.[1];
    if (name === undefined) return [part];
    if (name === "input") {
      omissions.add("{{input}}", "is left out: what the user says follows the text");
      return [];
    }
    if (variableName.test(name)) return [{ variable: name }];
    omissions.add(part, "is no variable of a persona: it stays as text");
    return [part];
  });
  if ((source.textBeside("user.md") ?? "").trim() !== "")
    omissions.add("user.md", "stands before what the user says: a persona has no place for it");
  return pieces;
}

/** A model of a provider that it names. */
function modelOf({ model }: JsonObject, omissions: Omissions): string[] | undefined {
  if (model === undefined) return undefined;
  if (typeof model === "string" && /^[a-z0-9][a-z0-9._-]*\/\S+$/.test(model)) return [model];
  omissions.add("model", "names no provider: name a model by --model");
  return undefined;
}

/** The first text that is no heading, mark or comment; the first heading where there is nothing else. */
function firstParagraph(body: string): string {
  const paragraphs = body.replace(/<!--[\s\S]*?-->/g, "").split(/\n\s*\n|\n(?=#)/);
  const texts = paragraphs.map((one) => one.replace(/^#+[^\n]*(?:\n|$)/, "").trim());
  const text = texts.find((one) => /\p{L}/u.test(one) && !/^(?:```|\||>|---)/.test(one));
  return text ?? body.replace(/^#+\s*/, "");
}
