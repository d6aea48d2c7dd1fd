/** The example personas, compiled in: what serves when there is no folder. A test holds this list equal to `personas/`. */

import { posix } from "node:path";
import material from "../../personas/studio/_parts/material.md" with { type: "text" };
import editor from "../../personas/studio/editor.yaml" with { type: "text" };
import producer from "../../personas/studio/producer.yaml" with { type: "text" };
import reviewer from "../../personas/studio/reviewer.yaml" with { type: "text" };
import strategist from "../../personas/studio/strategist.yaml" with { type: "text" };
import guide from "../../personas/troupe/guide.yaml" with { type: "text" };
import minutes from "../../personas/troupe/minutes.yaml" with { type: "text" };
import translator from "../../personas/troupe/translator.yaml" with { type: "text" };
import tutor from "../../personas/troupe/tutor.yaml" with { type: "text" };
import { formatDiagnostic } from "../lib/yaml/yaml.ts";
import type { PersonaContent } from "./file/schema.ts";
import { contentOf, type Persona, parsePersona, personaFrom } from "./persona.ts";

/** The content of the files, read and checked when the executable was built: reading YAML is most of a start otherwise. */
declare const TROUPE_PERSONAS: Readonly<Record<string, PersonaContent>> | undefined;

/** The text of each file, by id. */
export const builtinFiles: Readonly<Record<string, string>> = {
  "studio/editor": editor,
  "studio/producer": producer,
  "studio/reviewer": reviewer,
  "studio/strategist": strategist,
  "troupe/guide": guide,
  "troupe/minutes": minutes,
  "troupe/translator": translator,
  "troupe/tutor": tutor,
};

/** The partials that they include, by their paths in the folder. */
export const builtinPartials: Readonly<Record<string, string>> = { "studio/_parts/material.md": material };

/**
 * A persona's file as it stands alone: what it includes is in its place, and it knows no files.
 * @param id of one in `builtinFiles`
 */
export const builtinText = (id: string): string =>
  builtinFiles[id]!.replaceAll(/^( *)\{\{> (\S+)\}\}$/gm, (_, indent: string, path: string) =>
    partialAt(id, path)
      .trimEnd()
      .replaceAll(/^(?=.)/gm, indent),
  ).replace(/^#.*\nknowledge:\n(?: .*\n)+\n?/m, "");

const partialAt = (id: string, path: string) => builtinPartials[posix.join(posix.dirname(id), `${path}.md`)]!;

let known: readonly Persona[] | undefined;

/** Read once. @throws Error when one of them is invalid, which no release has */
export const builtinPersonas = (): readonly Persona[] => (known ??= readPersonas());

function readPersonas(): Persona[] {
  if (typeof TROUPE_PERSONAS === "object") {
    return Object.entries(TROUPE_PERSONAS).map(([id, value]) => personaFrom(value, id));
  }
  return Object.keys(builtinFiles).map((id) => {
    const parsed = parsePersona(builtinText(id), `personas/${id}.yaml`, id);
    if ("errors" in parsed) throw new Error(parsed.errors.map(formatDiagnostic).join("\n"));
    return parsed.persona;
  });
}

/** The content of the files, by id, for the build to bake in. @throws Error when one of them is invalid */
export function builtinValues(): Record<string, unknown> {
  return Object.fromEntries(builtinPersonas().map((persona) => [persona.id, JSON.parse(contentOf(persona))]));
}
