/** The text of a persona that is served, and the places of its parts in its files. */
import { join } from "node:path";
import type { JsonObject } from "../../lib/json/json.ts";
import type { PathPart } from "../../lib/json/schema-errors.ts";
import { type Position, YamlSource } from "../../lib/yaml/yaml.ts";
import { builtinFiles, builtinText } from "../builtin.ts";
import type { FilePlace, PersonaPlaces } from "../compose/origins.ts";
import { findMarks } from "../compose/template.ts";
import { draftPersona, type Persona, parsePersona, sourceOf } from "../persona.ts";
import { variantName } from "../versions/variants.ts";
import { type Expanded, expandIncludes, pieceAt, positionIn, positionInYaml } from "./includes.ts";
import { PartialReader, resolveDraft } from "./partial-reader.ts";
import type { PersonaFileValue } from "./schema.ts";

export type PersonaText = { readonly file: string; readonly text: string };

/** @returns the text that a persona was made of; undefined where nothing was read */
export async function personaTextOf(persona: Persona, folder: string): Promise<PersonaText | undefined> {
  const { id } = persona;
  const text = sourceOf(persona);
  const compiled = Object.hasOwn(builtinFiles, id) ? builtinText(id) : undefined;
  if (compiled !== undefined && (text ?? compiled) === compiled) {
    const made = parsePersona(compiled, "", id);
    if ("persona" in made && made.persona.version === persona.version)
      return { file: `personas/${id}.yaml`, text: compiled };
  }
  if (text === undefined) return undefined;
  const short = join(folder, `${id}.yml`);
  return { file: (await Bun.file(short).exists()) ? short : join(folder, `${id}.yaml`), text };
}

/**
 * Finds the parts of a persona in its files.
 * @param variant the name of one of its variants, whose fields stand in place of the persona's
 * @returns undefined where a file that it includes has changed since
 */
export async function placesOf(
  persona: Persona,
  { file, text }: PersonaText,
  folder: string,
  variant?: string,
): Promise<PersonaPlaces | undefined> {
  const draft = draftPersona(text, file, persona.id);
  if ("errors" in draft) return undefined;
  const partials = new PartialReader(folder);
  const made = await resolveDraft(draft, partials);
  if (!("persona" in made) || made.persona.version !== persona.version) return undefined;
  const source = new YamlSource(text, file);
  const value = source.value as PersonaFileValue;
  const number = (value.variants ?? []).findIndex((one, at) => variantName(one, at) === variant);
  const ofVariant = value.variants?.[number];
  /** Where a field stands. */
  const within = (path: readonly PathPart[]): readonly PathPart[] =>
    ofVariant !== undefined && Object.hasOwn(ofVariant, path[0]!) ? ["variants", number, ...path] : path;
  const isOwnText = ofVariant?.system !== undefined || ofVariant?.system_file !== undefined;
  const { system, system_file: systemFile = "" } = isOwnText ? ofVariant : value;
  const own = system === undefined ? { systemFile } : { text: system };
  const expanded = expandIncludes(`${persona.id}.yaml`, own, partials);
  const inOwn = (index: number) =>
    placeBehindMark({ file, text }, source.locate(within(["system"])), system ?? "", index);
  return {
    locate(path) {
      const full = within(path);
      // A list of one may be written without one.
      const list = full.slice(0, full.length - path.length + 1);
      const isList = Array.isArray(list.reduce<unknown>((at, key) => (at as JsonObject | undefined)?.[key], value));
      return { file, ...source.locate(typeof path[1] === "number" && !isList ? list : full) };
    },
    system: { text: expanded.text, starts: expanded.pieces.map(({ start }) => start), placeAt },
  };

  function placeAt(offset: number): FilePlace {
    const { path, index } = pieceAt(expanded as Pick<Expanded, "pieces">, offset);
    if (path === undefined) return inOwn(index);
    const partial = partials.find(path)!;
    return { file: partials.nameOf(path), ...positionIn("text" in partial ? partial.text : "", index) };
  }
}

/** The place in a YAML file of what stands at the beginning of a text there, or right behind one of its marks. */
function placeBehindMark({ file, text }: PersonaText, start: Position, value: string, index: number): FilePlace {
  const mark = findMarks(value.slice(0, index)).at(-1);
  const place = mark && positionInYaml(text, start, value, mark.index);
  return place ? { file, line: place.line, column: place.column + index - mark.index } : { file, ...start };
}
