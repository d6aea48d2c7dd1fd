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
import { ownMember } from "../lib/own-member.ts";
import { formatDiagnostic } from "../lib/yaml/yaml.ts";
import type { Partials } from "./includes.ts";
import { contentOf, draftPersona, type ParsedPersona, type Persona, personaFrom } from "./persona.ts";
import type { PersonaContent } from "./schema.ts";

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

const partials: Partials = {
  find(path) {
    const text = ownMember(builtinPartials, path);
    return text === undefined ? { problem: "is not in the executable" } : { text };
  },
  nameOf: (path) => `personas/${path}`,
};

/** A persona's file with what it includes in its place, to be copied without the folder. */
export const builtinText = (id: string): string =>
  builtinFiles[id]!.replaceAll(/^( *)\{\{> (\S+)\}\}$/gm, (_, indent: string, path: string) =>
    partialAt(id, path)
      .trimEnd()
      .replaceAll(/^(?=.)/gm, indent),
  );

const partialAt = (id: string, path: string) => builtinPartials[posix.join(posix.dirname(id), `${path}.md`)]!;

/** Without knowledge, whose files are not in the executable. @throws Error when one of them is invalid, which no release has */
export function builtinPersonas(): Persona[] {
  if (typeof TROUPE_PERSONAS === "object") {
    return Object.entries(TROUPE_PERSONAS).map(([id, value]) => personaFrom(value, id));
  }
  return Object.entries(builtinFiles).map(([id, text]) => {
    const draft = draftPersona(text, `personas/${id}.yaml`, id);
    const parsed = "errors" in draft ? draft : (draft.resolve(partials) as ParsedPersona);
    if ("errors" in parsed) throw new Error(parsed.errors.map(formatDiagnostic).join("\n"));
    const { knowledge: _, ...content } = JSON.parse(contentOf(parsed.persona));
    return personaFrom(content, id);
  });
}

/** The content of the files, by id, for the build to bake in. @throws Error when one of them is invalid */
export function builtinValues(): Record<string, unknown> {
  return Object.fromEntries(builtinPersonas().map((persona) => [persona.id, JSON.parse(contentOf(persona))]));
}
