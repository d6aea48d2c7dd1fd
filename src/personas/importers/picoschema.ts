/** Picoschema, Dotprompt's short form of JSON Schema. Source: https://google.github.io/dotprompt/reference/picoschema */
import { isObject, type JsonObject } from "../../lib/json/json.ts";
import { ImportError } from "./source.ts";

const scalars = ["string", "number", "integer", "boolean", "null", "any"];

/** True for what is JSON Schema already. */
const isJsonSchema = (schema: JsonObject) =>
  isObject(schema["properties"]) ||
  (typeof schema["type"] === "string" && [...scalars, "object", "array"].includes(schema["type"]));

/** @param place of the schema in its file @throws ImportError */
export function jsonSchemaOf(schema: unknown, place: string): JsonObject {
  if (isObject(schema) && isJsonSchema(schema)) return { type: "object", ...schema };
  return typeOf(schema, place);
}

function typeOf(schema: unknown, place: string): JsonObject {
  if (typeof schema === "string") return scalarOf(schema, place);
  if (!isObject(schema)) throw new ImportError(place, "must be a type or a mapping of fields");
  const properties: JsonObject = {};
  const required: string[] = [];
  let additional: unknown = false;
  for (const [key, value] of Object.entries(schema)) {
    const field = fieldOf(key);
    const inside = `${place}.${field.name}`;
    if (field.name === "(*)") additional = typeOf(value, inside);
    else {
      const made = {
        ...fieldType(field.kind, value, inside),
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

function fieldType(kind: string, value: unknown, place: string): JsonObject {
  if (kind === "array") return { type: "array", items: typeOf(value, place) };
  if (kind === "" || kind === "object") return typeOf(value, place);
  if (kind === "enum" && Array.isArray(value)) return { enum: value };
  throw new ImportError(place, `'${kind}' is no kind of field that Picoschema has`);
}

function scalarOf(text: string, place: string): JsonObject {
  const [, type = "", description = ""] = /^([^,]*?)\s*(?:,\s*([\s\S]*))?$/.exec(text.trim()) ?? [];
  if (!scalars.includes(type)) throw new ImportError(place, `'${type}' is a schema that this file does not hold`);
  return { ...(type !== "any" && { type }), ...(description !== "" && { description }) };
}

function nullable(schema: JsonObject): JsonObject {
  if (Array.isArray(schema["enum"])) return { ...schema, enum: [...schema["enum"], null] };
  return typeof schema["type"] === "string" ? { ...schema, type: [schema["type"], "null"] } : schema;
}
