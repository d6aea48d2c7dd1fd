/** Schemas of tools and answers in the forms that single upstreams ask for. */
import { derive, isObject, type JsonObject, keepSame, withEach } from "../../lib/json/json.ts";

const lists = ["allOf", "anyOf", "oneOf", "prefixItems"];
const maps = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
const singles = ["additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else"];

/** @returns the tools, or the form of an answer, with their schemas so; themselves where they are so already */
export function withTypedVariants<T>(value: T): T {
  if (Array.isArray(value)) return withEach(value, withTypedVariants) as T;
  if (!isObject(value)) return value;
  const next: JsonObject = { ...value };
  for (const name of ["function", "json_schema"]) if (isObject(next[name])) next[name] = withTypedVariants(next[name]);
  for (const name of ["parameters", "schema"]) next[name] = typed(next[name]);
  for (const name of Object.keys(next)) if (next[name] === undefined) delete next[name];
  return keepSame(value as JsonObject, next) as T;
}

function typed(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const { items, type, anyOf } = schema;
  const next: JsonObject = { ...schema };
  if (Array.isArray(items)) {
    next["prefixItems"] = [...(Array.isArray(next["prefixItems"]) ? next["prefixItems"] : []), ...items];
    delete next["items"];
  }
  if (type !== undefined && Array.isArray(anyOf)) {
    delete next["type"];
    next["anyOf"] = derive(
      anyOf,
      anyOf.map((one) => (isObject(one) && one["type"] === undefined ? { type, ...one } : one)),
    );
  }
  for (const name of lists) if (Array.isArray(next[name])) next[name] = withEach(next[name], typed);
  for (const name of singles) if (isObject(next[name])) next[name] = typed(next[name]);
  for (const name of maps) {
    const map = next[name];
    if (!isObject(map)) continue;
    next[name] = keepSame(map, Object.fromEntries(Object.entries(map).map(([key, one]) => [key, typed(one)])));
  }
  return keepSame(schema, next);
}
