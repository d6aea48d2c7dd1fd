/**
 * Members are read in both spellings of Google's JSON, `system_instruction` and `systemInstruction`, also mixed in one body.
 * Source: https://protobuf.dev/programming-guides/json/#field-names
 */
import { isObject, type JsonObject } from "../../lib/json/json.ts";

/** Members whose content is the caller's own, or a schema: its names are not the format's. */
const opaque: ReadonlySet<string> = new Set([
  ...["args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"],
  ...["labels", "variables", "partMetadata"],
]);

/** A body with its members in the first of both spellings; where both stand, the first counts. Values are not copied. */
export function inOneSpelling(body: JsonObject): JsonObject {
  const next: JsonObject = {};
  for (const [name, value] of Object.entries(body)) {
    const spelt = camelCase(name);
    if (spelt !== name && body[spelt] != null) continue;
    next[spelt] = opaque.has(spelt) ? value : within(value);
  }
  return next;
}

function within(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(within);
  return isObject(value) ? inOneSpelling(value) : value;
}

/** @param name of a member */
export function camelCase(name: string): string {
  return name.includes("_")
    ? name.replace(/(?<=[a-z\d])_([a-z\d])/g, (_, letter: string) => letter.toUpperCase())
    : name;
}
