/** What personas' skills have that elsewhere would do something, and here is read at most. */
import { few } from "../../lib/text/few.ts";
import type { Persona } from "../../personas/persona.ts";
import { scriptsOf } from "../../personas/skills/schema.ts";

/** @returns sentences, each behind a persona's id */
export function idleInSkills(personas: readonly Persona[]): string[] {
  return personas.flatMap(({ id, skills }) =>
    (skills?.all ?? []).flatMap((skill) => {
      const scripts = scriptsOf(skill);
      const others = (skill.not_text ?? []).filter((path) => !scripts.includes(path));
      return [
        ...(scripts.length > 0 ? [`has programs, which are never run here: ${few(scripts)}`] : []),
        ...(others.length > 0 ? [`has files that are no text, and can't be read: ${few(others)}`] : []),
        ...(skill.allowed_tools === undefined ? [] : ["has allowed-tools, which grants nothing here: mcp.allow does"]),
      ].map((sentence) => `${id}: the skill '${skill.name}' ${sentence}`);
    }),
  );
}
