/**
 * JSON schemas as structured outputs take them: every object closed, and what the grammar can't hold said in words.
 * Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
 */
import { type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";

const plainKeys = new Set(["type", "title", "description", "const", "default", "required"]);
const schemaMaps = new Set(["properties", "$defs", "definitions"]);
const silentlyDropped = new Set(["$schema", "$id", "$comment"]);
const formats = new Set(["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"]);

/** @returns undefined for a schema that refers to itself: those are rejected, whatever their form */
export function closedSchema(schema: JsonObject): JsonObject | undefined {
  return isRecursive(schema) ? undefined : close(schema);
}

function close(schema: unknown): JsonObject {
  const given = unwrapSingleAllOf(objectOf(schema) ?? {});
  const closed: JsonObject = {};
  const inWords: string[] = [];
  for (const [key, value] of Object.entries(given)) {
    const kept = closedKeyword(key, value);
    if (kept !== undefined) Object.assign(closed, kept);
    else if (!silentlyDropped.has(key)) inWords.push(`${key}: ${JSON.stringify(value)}`);
  }
  // A reference may have no siblings but the definitions it points into.
  if ("$ref" in closed) return keep(closed, ["$ref", "$defs", "definitions"]);
  if (isObjectSchema(closed)) {
    closed["properties"] ??= {};
    closed["additionalProperties"] = false;
  }
  if (inWords.length > 0) {
    const description = textOf(closed["description"]);
    closed["description"] = `${description === undefined ? "" : `${description}\n\n`}{${inWords.join(", ")}}`;
  }
  return closed;
}

/** @returns what stands for this keyword; undefined when it can only be said in words */
function closedKeyword(key: string, value: unknown): JsonObject | undefined {
  if (plainKeys.has(key)) return { [key]: value };
  if (schemaMaps.has(key)) return { [key]: closeEach(objectOf(value) ?? {}) };
  switch (key) {
    case "$ref":
      return { $ref: value };
    case "enum":
      return listOf(value).some((entry) => typeof entry === "object" && entry !== null) ? undefined : { enum: value };
    case "anyOf":
    case "oneOf":
      return { anyOf: listOf(value).map(close) };
    case "allOf":
      return { allOf: listOf(value).map(close) };
    case "items":
      return Array.isArray(value) ? undefined : { items: close(value) };
    case "minItems":
      return value === 0 || value === 1 ? { minItems: value } : undefined;
    case "format":
      return formats.has(String(value)) ? { format: value } : undefined;
    case "additionalProperties":
      return typeof value === "boolean" ? {} : undefined;
    default:
      return undefined;
  }
}

function closeEach(schemas: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, close(schema)]));
}

/** `allOf` of one schema is that schema, as some generators write a reference that has siblings. */
function unwrapSingleAllOf(schema: JsonObject): JsonObject {
  const { allOf, ...rest } = schema;
  const parts = listOf(allOf);
  return parts.length === 1 ? { ...objectOf(parts[0]), ...rest } : schema;
}

function isObjectSchema({ type, properties }: JsonObject): boolean {
  return type === "object" || listOf(type).includes("object") || properties !== undefined;
}

function keep(schema: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([key]) => keys.includes(key)));
}

function isRecursive(root: JsonObject): boolean {
  const open = new Set(["#"]);
  const done = new Set<string>();
  const leadsBack = (node: unknown): boolean => {
    if (Array.isArray(node)) return node.some(leadsBack);
    const schema = objectOf(node);
    if (schema === undefined) return false;
    const ref = textOf(schema["$ref"]);
    if (ref !== undefined && !done.has(ref)) {
      if (open.has(ref)) return true;
      open.add(ref);
      if (leadsBack(resolve(root, ref))) return true;
      open.delete(ref);
      done.add(ref);
    }
    return Object.entries(schema).some(([key, value]) => key !== "$defs" && key !== "definitions" && leadsBack(value));
  };
  return leadsBack(root);
}

function resolve(root: JsonObject, ref: string): unknown {
  if (!ref.startsWith("#/")) return undefined;
  const steps = ref.slice(2).split("/");
  return steps.reduce<unknown>((node, step) => objectOf(node)?.[step.replace(/~1/g, "/").replace(/~0/g, "~")], root);
}
