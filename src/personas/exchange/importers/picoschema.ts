/** Picoschema, Dotprompt's short form of JSON Schema. Source: https://google.github.io/dotprompt/reference/picoschema */
import { isObject, type JsonObject } from "../../../lib/json/json.ts";
import type { Omissions } from "./draft.ts";
import { ImportError } from "./source.ts";

const scalars = ["string", "number", "integer", "boolean", "null", "any"];

/** True for what is JSON Schema already. */
const isJsonSchema = (schema: JsonObject) =>
  isObject(schema["properties"]) ||
  (typeof schema["type"] === "string" && [...scalars, "object", "array"].includes(schema["type"]));

/**
 * @param place of the schema in its file
 * @param omissions gets schemas that are only named: they stand in a program, and anything fits them here
 * @returns undefined where the whole schema is only named
 * @throws ImportError
 */
export function jsonSchemaOf(schema: unknown, place: string, omissions: Omissions): JsonObject | undefined {
  if (isObject(schema) && isJsonSchema(schema)) return { type: "object", ...schema };
  if (typeof schema !== "string") return typeOf(schema, place, omissions);
  const { named, ...own } = scalarOf(schema, place);
  if (named === undefined) return own;
  omissions.add(place, `'${named}' is a schema that this file does not hold`);
  return undefined;
}

function typeOf(schema: unknown, place: string, omissions: Omissions): JsonObject {
  if (typeof schema === "string") {
    const { named, ...own } = scalarOf(schema, place);
    if (named !== undefined)
      omissions.add(place, `'${named}' is a schema that this file does not hold: anything fits it here`);
    return own;
  }
  if (!isObject(schema)) throw new ImportError(place, "must be a type or a mapping of fields");
  const properties: JsonObject = {};
  const required: string[] = [];
  let additional: unknown = false;
  for (const [key, value] of Object.entries(schema)) {
    const field = fieldOf(key);
    const inside = `${place}.${field.name}`;
    if (field.name === "(*)") additional = typeOf(value, inside, omissions);
    else {
      const made = {
        ...fieldType(field.kind, value, inside, omissions),
        ...(field.description && { description: field.description }),
      };
      properties[field.name] = field.isOptional ? nullable(made) : made;
      if (!field.isOptional) required.push(field.name);
    }
  }
  return { type: "object", properties, ...(required.length > 0 && { required }), additionalProperties: additional };
}

type Field = {
  readonly name: string;
  readonly isOptional: boolean;
  readonly kind: string;
  readonly description: string;
};

/** `name`, `name?`, `name(array)`, `name?(enum, what it is for)` */
function fieldOf(key: string): Field {
  if (key === "(*)") return { name: key, isOptional: false, kind: "", description: "" };
  const [, name = key, kind = "", description = ""] =
    /^([^(]+)\(\s*([a-z]+)\s*(?:,\s*([\s\S]*?))?\s*\)$/.exec(key) ?? [];
  return { name: name.replace(/\?$/, ""), isOptional: name.endsWith("?"), kind, description };
}

function fieldType(kind: string, value: unknown, place: string, omissions: Omissions): JsonObject {
  if (kind === "array") return { type: "array", items: typeOf(value, place, omissions) };
  if (kind === "" || kind === "object") return typeOf(value, place, omissions);
  if (kind === "enum" && Array.isArray(value)) return { enum: value };
  throw new ImportError(place, `'${kind}' is no kind of field that Picoschema has`);
}

function scalarOf(text: string, place: string): JsonObject & { readonly named?: string } {
  const [, type = "", description = ""] = /^([^,]*?)\s*(?:,\s*([\s\S]*))?$/.exec(text.trim()) ?? [];
  if (type === "" || type.length > 100) throw new ImportError(place, "must be a type");
  const described = { ...(description !== "" && { description }) };
  if (!scalars.includes(type)) return { named: type, ...described };
  return { ...(type !== "any" && { type }), ...described };
}

function nullable(schema: JsonObject): JsonObject {
  if (Array.isArray(schema["enum"])) return { ...schema, enum: [...schema["enum"], null] };
  return typeof schema["type"] === "string" ? { ...schema, type: [schema["type"], "null"] } : schema;
}
