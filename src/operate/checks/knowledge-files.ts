/** Checks the files that personas know, without reading them. */
import { knowledgeCollection } from "../../call/plan/knowledge.ts";
import type { Persona } from "../../personas/persona.ts";
import { filesOf } from "../../store/sqlite/knowledge/files.ts";

/** @param folder of personas; absent: they are those in the executable @returns sentences, each behind a persona's id */
export function missingKnowledge(personas: readonly Persona[], folder: string | undefined): string[] {
  if (folder === undefined) return [];
  return personas.flatMap((persona) => {
    const { id, knowledge } = persona;
    if (knowledge === undefined) return [];
    const problems: string[] = [];
    const files = filesOf(knowledgeCollection(folder, persona), problems);
    if (files.length === 0) problems.push(`no file is named by ${knowledge.files.join(", ")}`);
    return problems.map((problem) => `${id}: knowledge: ${problem}`);
  });
}
