/**
 * Reads a SKILL.md: YAML between two lines of `---`, and the instructions below. What is refused is what the form's reference refuses,
 * with its place. Source: https://agentskills.io/specification, and the validator of skills-ref 0.1.1
 */
import { Type } from "@sinclair/typebox";
import { isObject, type JsonObject } from "../../lib/json/json.ts";
import { Closed } from "../../lib/json/schemas.ts";
import { type Diagnostic, YamlSource } from "../../lib/yaml/yaml.ts";
import { maxCompatibility, maxDescription, maxSkillName, type Skill } from "./schema.ts";

const Head = Closed({
  name: Type.String(),
  description: Type.String(),
  license: Type.Optional(Type.String()),
  compatibility: Type.Optional(Type.String({ maxLength: maxCompatibility })),
  metadata: Type.Optional(Type.Record(Type.String(), Type.String())),
  "allowed-tools": Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())])),
});

type Head = {
  name: string;
  description: string;
  license?: string;
  compatibility?: string;
  metadata?: Record<string, string>;
  "allowed-tools"?: string | string[];
};

/** @returns what is wrong with a skill's name, as a sentence without its subject */
function nameProblem(name: string, folder: string): string | undefined {
  if (name === "") return "must be given";
  if (name.length > maxSkillName) return `must have at most ${maxSkillName} characters`;
  if (name !== name.toLowerCase() || !/^[\p{L}\p{N}-]+$/u.test(name))
    return "must be of lower-case letters, digits and hyphens";
  if (/^-|-$|--/.test(name)) return "must not begin or end with a hyphen, nor have two beside each other";
  return name === folder.normalize("NFKC") ? undefined : `must be the name of its folder, '${folder}'`;
}

/** Every scalar is a text there, be it a number. */
function asTexts(value: unknown): unknown {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, isObject(one) ? asTexts(one) : asText(one)]),
  );
}

const asText = (value: unknown) => (typeof value === "number" || typeof value === "boolean" ? String(value) : value);

/** @param file names the text in errors @param folder the name of the one that it stands in */
export function parseSkill(
  text: string,
  file: string,
  folder: string,
): { readonly skill: Omit<Skill, "files" | "not_text"> } | { readonly errors: readonly Diagnostic[] } {
  const [whole, head] = /^---[ \t]*\r?\n([\s\S]*?)(?:^|\n)---[ \t]*(?:\r?\n|$)/m.exec(text) ?? [];
  const one = (line: number, message: string) => ({ errors: [{ file, line, column: 1, path: "", message }] });
  if (!text.startsWith("---"))
    return one(1, "must begin with front matter: a line of ---, name and description, and --- again");
  if (whole === undefined || !text.startsWith(whole))
    return one(1, "has front matter that does not end: a line of --- is missing");
  const source = new YamlSource(head!.replace(/\r$/, ""), file);
  // The first line of the file is not of the YAML.
  const placed = (errors: readonly Diagnostic[]) => ({
    errors: errors.map((error) => ({ ...error, line: error.line + 1 })).sort((a, b) => a.line - b.line),
  });
  if (source.errors.length > 0) return placed(source.errors);
  const value = asTexts(source.value ?? {}) as JsonObject;
  const invalid = source.check(Head, value);
  if (invalid.length > 0) return placed(invalid);
  const { name, description, metadata, license, compatibility, "allowed-tools": tools } = value as Head;
  const plain = name.trim().normalize("NFKC");
  const problem = nameProblem(plain, folder);
  const length = [...description].length;
  const wrong = [
    ...(problem === undefined ? [] : [source.diagnosticAt(["name"], problem)]),
    ...(description.trim() === ""
      ? [source.diagnosticAt(["description"], "must say what the skill is for, and when")]
      : []),
    ...(length > maxDescription
      ? [source.diagnosticAt(["description"], `must have at most ${maxDescription} characters, and has ${length}`)]
      : []),
  ];
  if (wrong.length > 0) return placed(wrong);
  return {
    skill: {
      name: plain,
      description: description.trim(),
      ...(license !== undefined && { license }),
      ...(compatibility !== undefined && { compatibility }),
      ...(metadata !== undefined && { metadata }),
      ...(tools !== undefined && { allowed_tools: [tools].flat().join(" ") }),
      body: text.slice(whole.length).trim(),
    },
  };
}
