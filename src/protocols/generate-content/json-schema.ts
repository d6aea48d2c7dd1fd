/**
 * Google's subset of OpenAPI's schemas as JSON Schema: types in capitals, `nullable`, numbers that stand as texts.
 * Source: https://ai.google.dev/api/caching#Schema
 */
import { isObject, type JsonObject } from "../../lib/json/json.ts";
import { camelCase } from "./spelling.ts";

const types: ReadonlySet<string> = new Set(["string", "number", "integer", "boolean", "array", "object", "null"]);
/** 64-bit integers are texts in Google's JSON. */
const counts: ReadonlySet<string> = new Set([
  ...["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"],
]);
/** They say nothing to anybody else, and strict readers refuse them. */
const unsaid: ReadonlySet<string> = new Set(["nullable", "propertyOrdering", "example"]);

/** @param schema a caller's, of no known form: what is no schema stays as it is */
export function toJsonSchema(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const next: JsonObject = {};
  for (const [given, value] of Object.entries(schema)) {
    const name = Object.hasOwn(next, given) ? given : camelCase(given);
    if (!unsaid.has(name) && value !== null) next[name] = member(name, value);
  }
  return schema["nullable"] === true ? orNull(next) : next;
}

function member(name: string, value: unknown): unknown {
  if (name === "type") return typeIn(value);
  if (name === "properties" || name === "$defs" || name === "defs") return named(value);
  if (name === "items" || name === "additionalProperties") return toJsonSchema(value);
  if (name === "anyOf" || name === "oneOf" || name === "allOf" || name === "prefixItems") {
    return Array.isArray(value) ? value.map(toJsonSchema) : value;
  }
  return counts.has(name) && typeof value === "string" && value.trim() !== "" ? Number(value) : value;
}

function typeIn(value: unknown): unknown {
  const lower = typeof value === "string" ? value.toLowerCase() : undefined;
  return lower !== undefined && types.has(lower) ? lower : value;
}

function named(value: unknown): unknown {
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, toJsonSchema(one)]));
}

function orNull(schema: JsonObject): JsonObject {
  const { type, anyOf, enum: values } = schema;
  if (typeof type === "string") {
    return { ...schema, type: [type, "null"], ...(Array.isArray(values) && { enum: [...values, null] }) };
  }
  return Array.isArray(anyOf) ? { ...schema, anyOf: [...anyOf, { type: "null" }] } : schema;
}
