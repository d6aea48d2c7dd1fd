/** The schema of a persona's `skills`, and what they come to: instructions that a model reads while it answers. Nothing of a skill is ever run. */
import { type Static, Type } from "@sinclair/typebox";
import { canonical } from "../../lib/json/canonical.ts";
import { KeyedRecord, keyOfLength } from "../../lib/json/keyed-record.ts";
import { Closed } from "../../lib/json/schemas.ts";
import { versionOf } from "../../lib/text/version-of.ts";
import type { FunctionTool } from "../../protocols/chat/schema.ts";

/** Bounds of one persona's skills: they are kept with each of its versions. A file is what one call of the tool gives whole. */
export const maxSkills = 64;
export const maxFiles = 64;
export const maxDepth = 4;
export const maxFileCharacters = 60_000;
export const maxCharacters = 512 * 1024;

export const tooManyCharacters = `has texts of more than ${maxCharacters} characters together`;

/** Of the form's reference: https://agentskills.io/specification */
export const maxSkillName = 64;
export const maxDescription = 1024;
export const maxCompatibility = 500;

/** Longer keys and paths are nobody's. */
const maxKey = 256;
const maxPath = 4096;

/** A skill with its texts, as a version of the persona holds it. */
const Skill = Closed({
  name: Type.String({ minLength: 1, maxLength: maxSkillName }),
  description: Type.String({ minLength: 1, maxLength: maxDescription }),
  license: Type.Optional(Type.String()),
  compatibility: Type.Optional(Type.String({ maxLength: maxCompatibility })),
  metadata: Type.Optional(KeyedRecord(keyOfLength(maxKey), Type.String())),
  allowed_tools: Type.Optional(Type.String()),
  body: Type.String({ description: "What SKILL.md says below its front matter." }),
  files: Type.Optional(
    KeyedRecord(keyOfLength(maxPath), Type.String(), { description: "The texts of its other files, by their paths." }),
  ),
  not_text: Type.Optional(Type.Array(Type.String(), { description: "Its files that are no text." })),
});
export type Skill = Static<typeof Skill>;

export const SkillsField = Type.Array(Type.Union([Type.String({ minLength: 1, maxLength: 512 }), Skill]), {
  minItems: 1,
  maxItems: maxSkills,
  description:
    "Folders with a SKILL.md, as globs relative to the persona's file. The model is told their names and descriptions, and reads the rest by the tool read_skill.",
});

export type Skills = {
  readonly all: readonly Skill[];
  /** What the system text says of them. */
  readonly text: string;
  /** The definition of `read_skill`. */
  readonly tool: FunctionTool;
  /** By name, a version of each: a recording names what its answer could read. */
  readonly versions: Readonly<Record<string, string>>;
};

export const skillTool = "read_skill";

export const charactersOf = ({ body, files = {} }: Skill): number =>
  Object.values(files).reduce((sum, text) => sum + text.length, body.length);

/** @param field of a persona's content @returns undefined where there are none */
export function toSkills(field: Static<typeof SkillsField> | undefined): Skills | undefined {
  const all = (field ?? []).filter((one) => typeof one !== "string");
  if (all.length === 0) return undefined;
  const lines = all.map(({ name, description }) => `- ${name}: ${description.replaceAll(/\s+/g, " ").trim()}`);
  return {
    all,
    text: [
      "Skills are instructions for particular tasks. Where a task is one of these, call",
      `${skillTool} with the skill's name before anything else, and do as it says:\n\n${lines.join("\n")}`,
    ].join(" "),
    tool: {
      type: "function",
      function: {
        name: skillTool,
        description: "Gives the instructions of a skill, or the text of one of its files. Nothing is run.",
        parameters: {
          type: "object",
          properties: {
            skill: { type: "string", enum: all.map(({ name }) => name), description: "The skill's name." },
            file: { type: "string", description: "A file of the skill, as its instructions name it." },
          },
          required: ["skill"],
          additionalProperties: false,
        },
      },
    },
    versions: Object.fromEntries(all.map((skill) => [skill.name, versionOf(canonical(skill))])),
  };
}

/** Files that other programs would run. */
const program = /(?:^|\/)scripts\/|\.(?:sh|bash|py|js|mjs|cjs|ts|rb|pl|ps1|php|lua)$/i;

/** @returns its files that would be programs elsewhere, and here are texts */
export const scriptsOf = ({ files = {}, not_text = [] }: Skill): string[] =>
  [...Object.keys(files), ...not_text].filter((path) => program.test(path));

/** What `read_skill` gives. `isError`: there is no such skill or file. */
export function readSkill(
  { all }: Skills,
  { skill: name, file }: Readonly<Record<string, unknown>>,
): { readonly text: string; readonly isError: boolean } {
  const skill = all.find((one) => one.name === name);
  const failed = (text: string) => ({ text, isError: true });
  if (skill === undefined)
    return failed(`There is no such skill. There are: ${all.map((one) => one.name).join(", ")}.`);
  const { body, files = {}, not_text: others = [] } = skill;
  if (file === undefined || file === null || file === "" || file === "SKILL.md") {
    const scripts = new Set(scriptsOf(skill));
    const listed = [
      ...Object.keys(files).map(
        (path) => `- ${path}${scripts.has(path) ? " (a program: it can be read, and is not run here)" : ""}`,
      ),
      ...others.map((path) => `- ${path} (no text: it can't be read here)`),
    ];
    const rest = listed.length === 0 ? "" : `\n\nFiles of this skill, for ${skillTool}:\n${listed.join("\n")}`;
    return { text: `${body}${rest}`, isError: false };
  }
  const path = typeof file === "string" ? file.replace(/^\.\//, "") : "";
  if (Object.hasOwn(files, path)) return { text: files[path]!, isError: false };
  if (others.includes(path)) return failed("That file is no text, and can't be read here.");
  return failed(`The skill has no such file. It has: ${Object.keys(files).join(", ") || "none"}.`);
}
