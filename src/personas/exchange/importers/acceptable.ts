/** What an importer made, as the checker takes it: what it refuses is left out and listed by its words, and the rest stays. */
import { isObject, type JsonObject } from "../../../lib/json/json.ts";
import type { PathPart } from "../../../lib/json/schema-errors.ts";
import { personaYaml } from "../../file/persona-yaml.ts";
import type { PersonaContent, personaFileWith } from "../../file/schema.ts";
import { parsePersona } from "../../persona.ts";
import { parseTestFile } from "../../suites/test-file.ts";
import type { Imported, Omission } from "./draft.ts";

type Fault = { readonly path: string; readonly message: string };
type Mended<T> = { readonly value: T; readonly omitted: readonly Omission[] };

/** What goes as a whole where something within it is refused, the innermost first. */
const wholes: readonly RegExp[] = [
  /^.*\bassert\[\d+\]/,
  /^lorebook(?:\.entries)?\[\d+\]/,
  /^(?:tools|stop|tags)\[\d+\]/,
  /^(?:examples|response_format)/,
  /^prompt_ids\.[^.[]+/,
];
/** Without these there is no persona and no test file. */
const needed = ["", "system", "description", "model", "tests"];
const maxFaults = 500;

/** @param schema of persona files, with the providers' options */
export function acceptable(imported: Imported, schema: ReturnType<typeof personaFileWith>): Imported {
  const { draft, tests, omitted } = imported;
  const persona = mend(draft as JsonObject, (value) => {
    const content = { description: "x", model: "builtin/eliza", ...value } as PersonaContent;
    const parsed = parsePersona(personaYaml(content), "", "imported/x", schema);
    return "errors" in parsed ? parsed.errors : [];
  });
  const declared = new Set(Object.keys(persona.value["variables"] ?? {}));
  const mended = tests && mend(tests as JsonObject, (value) => testFaults(value, declared));
  return {
    ...imported,
    draft: persona.value as Imported["draft"],
    ...(mended !== undefined && { tests: mended.value }),
    omitted: [...omitted, ...persona.omitted, ...(mended?.omitted ?? [])],
  };
}

/** @param declared names of the persona's variables @returns what keeps a test file from being one */
function testFaults(value: JsonObject, declared?: ReadonlySet<string>): readonly Fault[] {
  const parsed = parseTestFile(JSON.stringify(value), "", { persona: "imported/x", declared });
  return "errors" in parsed ? parsed.errors : [];
}

function mend(given: JsonObject, faultsOf: (value: JsonObject) => readonly Fault[]): Mended<JsonObject> {
  const omitted: Omission[] = [];
  let value = given;
  for (let left = maxFaults; left > 0; left -= 1) {
    const fault = faultsOf(value).find(({ path }) => !needed.includes(placeOf(path)));
    if (fault === undefined) break;
    const place = placeOf(fault.path);
    if (place === fault.path || !omitted.some((one) => one.place === place))
      omitted.push({ place: fault.path, message: `${fault.message}: it is left out` });
    value = without(value, partsOf(place)) as JsonObject;
  }
  return { value, omitted };
}

const placeOf = (path: string): string =>
  wholes.map((whole) => whole.exec(path)?.[0]).find((found) => found !== undefined) ?? path;

const partsOf = (path: string): PathPart[] =>
  [...path.matchAll(/([A-Za-z_][\w-]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/g)].map(([, name, index, quoted]) =>
    index !== undefined ? Number(index) : (name ?? (JSON.parse(quoted!) as string)),
  );

function without(value: unknown, [part, ...rest]: readonly PathPart[]): unknown {
  if (Array.isArray(value)) {
    if (rest.length === 0) return value.filter((_, at) => at !== part);
    return value.map((one, at) => (at === part ? without(one, rest) : one));
  }
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, one]) => {
      if (key !== part) return [[key, one]];
      return rest.length === 0 ? [] : [[key, without(one, rest)]];
    }),
  );
}
