/** Validates `knowledge` and `lorebook` beyond their schemas. */
import type { Static } from "@sinclair/typebox";
import { findMarks } from "../compose/template.ts";
import type { RuleErrors } from "../file/rule-error.ts";
import type { KnowledgeField, LorebookField } from "./schema.ts";

export function* knowledgeErrors(field: Static<typeof KnowledgeField>): RuleErrors {
  const isList = Array.isArray(field);
  for (const [at, glob] of (isList ? field : field.files).entries()) {
    const message = globProblem(glob);
    if (message !== undefined) yield { path: isList ? ["knowledge", at] : ["knowledge", "files", at], message };
  }
}

/** Files stay inside the folder of the persona's file. */
function globProblem(glob: string): string | undefined {
  if (/^[/~]|^[A-Za-z]:/.test(glob)) return "must be relative to the persona's file";
  if (glob.includes("\\")) return "must be written with '/'";
  if (glob.split(/[/{},]/).includes("..")) return "must not lead out of the folder of the persona's file";
  return glob.includes("\0") || glob.startsWith("!") ? "must be a glob such as docs/*.md" : undefined;
}

/** @param variables that the persona declares */
export function* lorebookErrors(field: Static<typeof LorebookField>, variables: object): RuleErrors {
  const isList = Array.isArray(field);
  for (const [at, entry] of (isList ? field : field.entries).entries()) {
    const path = isList ? ["lorebook", at] : ["lorebook", "entries", at];
    if ((entry.keys ?? []).length === 0 && entry.constant !== true) {
      yield { path, message: "must have keys, or be constant" };
    }
    if (entry.position !== undefined && entry.depth !== undefined) {
      yield { path: [...path, "depth"], message: "stands beside position: give one" };
    }
    for (const [mark, { kind, name }] of findMarks(entry.content).entries()) {
      const place = { path: [...path, "content"], at: mark };
      if (kind === "stray") {
        yield { ...place, message: "has '{{' without a variable's name; literal braces are written '\\{{'" };
      } else if (kind === "variable" && !Object.hasOwn(variables, name)) {
        yield { ...place, message: `uses {{${name}}}, which variables does not declare` };
      }
    }
  }
}

/** @returns the names of the variables that entries use */
export function variablesInLorebook(field: Static<typeof LorebookField>): Set<string> {
  const entries = Array.isArray(field) ? field : field.entries;
  const marks = entries.flatMap(({ content }) => findMarks(content));
  return new Set(marks.flatMap(({ kind, name }) => (kind === "variable" ? name : [])));
}
