/** Previews of personas: the form in which a working tree's personas are pushed to a server, and how they are made personas again. */
import { type Static, Type } from "@sinclair/typebox";
import { ownMember } from "../../lib/json/own-member.ts";
import { formatPath, type PathPart, schemaErrors } from "../../lib/json/schema-errors.ts";
import { Closed, Open, titled } from "../../lib/json/schemas.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { ApiError } from "../../protocols/errors.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { validationErrors } from "../file/rules.ts";
import type { PersonaContent, PersonaFile } from "../file/schema.ts";
import { nameProblem, type Persona, personaFrom } from "../persona.ts";

/** As many as a folder may have. */
const maxPersonas = 2000;
/** As many files as one persona may know. */
const maxTexts = 5000;

const Text = Closed({
  file: Type.String({ minLength: 1, maxLength: 1024, description: "Its path as the persona's globs name it." }),
  text: Type.String(),
});
const Pushed = Closed({
  id: Type.String({ description: "<namespace>/<name>." }),
  content: Open({}, { description: "A persona's file as JSON, with its includes and system_file in place in system." }),
  knowledge: Type.Optional(
    Type.Array(Text, { maxItems: maxTexts, description: "The files that its knowledge names." }),
  ),
});
export const PreviewUpload = Closed({ personas: Type.Array(Pushed, { minItems: 1, maxItems: maxPersonas }) });
export type PreviewUpload = Static<typeof PreviewUpload>;

titled({ PreviewPersona: Pushed, PreviewUpload });

/** A text of a preview's knowledge. */
type PreviewText = Static<typeof Text>;

/** A preview's content as it is kept, by the ids of its personas. */
type Kept = Readonly<Record<string, Omit<Static<typeof Pushed>, "id">>>;

export const previewName = (id: string, label: string): string => `${id}@${label}`;

/** A preview is told from the persona of the same file by its id, which is the name that it is called by. */
export const isPreview = ({ id }: Pick<Persona, "id">): boolean => id.includes("@");

const knowledge = new WeakMap<Persona, readonly PreviewText[]>();
/** The texts that a preview brings along; undefined for any other persona. */
export const previewTexts = (persona: Persona): readonly PreviewText[] | undefined => knowledge.get(persona);

/**
 * The personas of an upload, each by the id that it has in a folder.
 * @param schema of personas' files
 * @throws ApiError invalid_value that names the persona and the place in it
 */
export function uploadedPersonas({ personas }: PreviewUpload, schema: typeof PersonaFile): readonly Persona[] {
  const ids = new Set<string>();
  return personas.map(({ id, content, knowledge }, at) => {
    const inId = formatPath(["personas", at, "id"]);
    const { namespace, name } = parseModelId(id) ?? { namespace: "", name: id };
    const problem = nameProblem(namespace) ?? nameProblem(name);
    if (problem !== undefined)
      throw ApiError.invalidValue(inId, `'${truncate(id)}' can't name a persona: each part ${problem}.`);
    if (ids.has(id)) throw ApiError.invalidValue(inId, `${id} stands twice in this upload.`);
    ids.add(id);
    const fault = faultOf(content, namespace, schema);
    if (fault !== undefined) {
      const [path, message] = fault;
      const inContent = formatPath(["personas", at, "content", ...path]);
      throw ApiError.invalidValue(inContent, `${id}: ${formatPath(path)} ${message}.`);
    }
    const persona = personaFrom(content as PersonaContent, id);
    if (knowledge !== undefined && persona.knowledge === undefined) {
      const path = formatPath(["personas", at, "knowledge"]);
      throw ApiError.invalidValue(path, `${id} knows no files: leave knowledge out.`);
    }
    return persona;
  });
}

function faultOf(
  content: object,
  namespace: string,
  schema: typeof PersonaFile,
): readonly [path: readonly PathPart[], message: string] | undefined {
  for (const key of ["system_file", "prompt_ids"])
    if (Object.hasOwn(content, key)) return [[key], "is no part of a resolved persona"];
  const { skills } = content as { readonly skills?: unknown };
  const unread = Array.isArray(skills) ? skills.findIndex((one) => typeof one === "string") : -1;
  if (unread >= 0) return [["skills", unread], "is a folder's name: a resolved persona has its skills themselves"];
  if (!Object.hasOwn(content, "system")) return [["system"], "is required"];
  const [invalid] = schemaErrors(schema, content, 1);
  if (invalid !== undefined) return [invalid.path, invalid.message];
  for (const { path, message } of validationErrors(content as PersonaContent, namespace)) return [path, message];
  return undefined;
}

/** @returns an upload as it is kept */
export const keptText = ({ personas }: PreviewUpload): string =>
  JSON.stringify(Object.fromEntries(personas.map(({ id, ...rest }) => [id, rest])));

/** @param text as `keptText` made it @returns the persona under its preview's name; undefined where the preview has no such one */
export function keptPersona(text: string, id: string, label: string): Persona | undefined {
  const found = ownMember(JSON.parse(text) as Kept, id);
  if (found === undefined) return undefined;
  const persona = personaFrom(found.content as PersonaContent, previewName(id, label));
  for (const one of [persona, ...(persona.variants ?? []).map((variant) => variant.persona)])
    if (one.knowledge !== undefined) knowledge.set(one, found.knowledge ?? []);
  return persona;
}
