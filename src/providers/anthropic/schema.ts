/**
 * JSON schemas as structured outputs take them: every object closed, and what the grammar can't hold said in words.
 * Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
 */
import { type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";

const plainKeys = new Set(["type", "title", "description", "const", "default", "required"]);
const schemaMaps = new Set(["properties", "$defs", "definitions"]);
const silentlyDropped = new Set(["$schema", "$id", "$comment"]);
const formats = new Set(["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"]);

/** "Schema is too complex" beyond so many, all objects together: @ai-sdk/anthropic 4.0 (supports-native-structured-output-schema) */
const maxOptional = 10;

/**
 * @returns undefined for a schema that can't be closed: one that refers to itself, or has too many optional properties, is rejected; a map,
 *   or an object of any form, could only be `{}`
 */
export function closedSchema(schema: JsonObject): JsonObject | undefined {
  if (isRecursive(schema)) return undefined;
  const { isOpen, optional } = new Measure(schema).of(schema);
  return isOpen || optional > maxOptional ? undefined : close(schema);
}

type Size = { readonly isOpen: boolean; readonly optional: number };

const nothing: Size = { isOpen: false, optional: 0 };
const within = ["items", "contains", "not", "if", "then", "else"];
const lists = ["allOf", "anyOf", "oneOf", "prefixItems"];

/** Reads a schema that does not refer to itself; what is referred to counts wherever it is. */
class Measure {
  readonly #root: JsonObject;
  readonly #byReference = new Map<string, Size>();

  constructor(root: JsonObject) {
    this.#root = root;
  }

  of(schema: unknown): Size {
    const node = objectOf(schema);
    if (node === undefined) return nothing;
    const properties = objectOf(node["properties"]) ?? {};
    const required = new Set(listOf(node["required"]));
    const parts = [
      ...within.map((name) => node[name]),
      ...lists.flatMap((name) => listOf(node[name])),
      ...Object.values(properties),
    ].map((part) => this.of(part));
    const reference = textOf(node["$ref"]);
    if (reference !== undefined) parts.push(this.#referred(reference));
    const own = Object.keys(properties).filter((name) => !required.has(name)).length;
    return {
      isOpen: isOpenObject(node) || parts.some(({ isOpen }) => isOpen),
      optional: parts.reduce((sum, { optional }) => sum + optional, own),
    };
  }

  #referred(reference: string): Size {
    const known = this.#byReference.get(reference);
    if (known !== undefined) return known;
    const size = this.of(resolve(this.#root, reference));
    this.#byReference.set(reference, size);
    return size;
  }
}

/** True for an object whose members have names that the schema does not give. */
function isOpenObject({ type, properties, additionalProperties: others, patternProperties }: JsonObject): boolean {
  if (others === true || objectOf(others) !== undefined) return true;
  if (Object.keys(objectOf(patternProperties) ?? {}).length > 0) return true;
  const isObject = type === "object" || listOf(type).includes("object");
  return isObject && properties === undefined && others !== false;
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
      return formats.has(textOf(value) ?? "") ? { format: value } : undefined;
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
