/** Checks values against a JSON Schema of the author's. The library interprets it: no code is made of what a file says. */
import { type OutputUnit, type Schema, type SchemaDraft, Validator } from "@cfworker/json-schema";
import { isObject, parseJson } from "../../lib/json/json.ts";

/** @returns what is wrong, as a sentence; undefined where the value fits */
export function schemaProblem(schema: object, value: unknown): string | undefined {
  const { valid, errors } = new Validator(withNullable(schema) as Schema, draftOf(schema)).validate(value);
  if (valid) return undefined;
  // The errors of the whole come before those of its parts, which say what is wrong.
  const causes = errors.filter(({ keyword }) => !["properties", "items", "allOf", "$ref"].includes(keyword));
  return (causes.length === 0 ? errors : causes).slice(0, 3).map(sentence).join(" ");
}

/** `nullable: true` beside a type, of OpenAPI, which promptfoo takes too. @param isNames whether the members are names of properties */
function withNullable(schema: unknown, isNames = false): unknown {
  if (Array.isArray(schema)) return schema.map((one) => withNullable(one));
  if (!isObject(schema)) return schema;
  const made = Object.fromEntries(
    Object.entries(schema).map(([key, one]) => {
      const isValue = !isNames && ["enum", "const", "default", "examples"].includes(key);
      return [key, isValue ? one : withNullable(one, !isNames && holdsNames.includes(key))];
    }),
  );
  const { type, nullable } = made;
  const isNullable = !isNames && nullable === true && (typeof type === "string" || Array.isArray(type));
  return isNullable ? { ...made, type: [...new Set([type, "null"].flat())] } : made;
}

const holdsNames = ["properties", "patternProperties", "definitions", "$defs", "dependentSchemas"];

const sentence = ({ instanceLocation, error }: OutputUnit) => {
  const place = instanceLocation === "#" ? "" : `${instanceLocation.slice(1)}: `;
  return `${place}${error}`;
};

function draftOf({ $schema: given }: { readonly $schema?: unknown }): SchemaDraft {
  if (typeof given !== "string") return "2020-12";
  return (
    (["2019-09", "7", "4"] as const).find((draft) => given.includes(`draft-0${draft}`) || given.includes(draft)) ??
    "2020-12"
  );
}

/** The JSON objects in a text, in order; what stands within one is a part of it. A list alone is none, as in promptfoo. */
export function* jsonObjectsIn(text: string): Generator<unknown> {
  for (let from = text.indexOf("{"); from >= 0; from = text.indexOf("{", from)) {
    const end = endOfObject(text, from);
    const value = end === undefined ? undefined : parseJson(text.slice(from, end));
    if (value === undefined) from += 1;
    else {
      yield value;
      from = end!;
    }
  }
}

/** @returns the place behind the brace that closes the one at `from` */
function endOfObject(text: string, from: number): number | undefined {
  let depth = 0;
  let isInString = false;
  for (let at = from; at < text.length; at += 1) {
    const character = text[at];
    if (isInString && character === "\\") at += 1;
    else if (character === '"') isInString = !isInString;
    else if (!isInString && character === "{") depth += 1;
    else if (!isInString && character === "}") {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return undefined;
}
