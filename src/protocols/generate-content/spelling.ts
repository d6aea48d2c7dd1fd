/**
 * Members are read in both spellings of Google's JSON, `system_instruction` and `systemInstruction`, also mixed in one body.
 * Source: https://protobuf.dev/programming-guides/json/#field-names
 */
import { isObject, type JsonObject, withEach } from "../../lib/json/json.ts";

/** Members whose content is the caller's own, or a schema: its names are not the format's. */
const opaque: ReadonlySet<string> = new Set([
  ...["args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"],
  ...["labels", "variables", "partMetadata"],
]);

/** A body with its members in the first of both spellings; where both stand, the first counts. Itself where it is so already. */
export function inOneSpelling(body: JsonObject): JsonObject {
  let next: JsonObject | undefined;
  for (const name in body) {
    const spelt = camelCase(name);
    const value = opaque.has(spelt) ? body[name] : within(body[name]);
    if (next === undefined && spelt === name && value === body[name]) continue;
    next ??= before(body, name);
    if (spelt === name || body[spelt] == null) next[spelt] = value;
  }
  return next ?? body;
}

/** The members that stand before one. */
function before(body: JsonObject, end: string): JsonObject {
  const members: JsonObject = {};
  for (const name in body) {
    if (name === end) break;
    members[name] = body[name];
  }
  return members;
}

function within(value: unknown): unknown {
  if (Array.isArray(value)) return withEach(value, within);
  return isObject(value) ? inOneSpelling(value) : value;
}

/** @param name of a member */
export function camelCase(name: string): string {
  return name.includes("_")
    ? name.replace(/(?<=[a-z\d])_([a-z\d])/g, (_, letter: string) => letter.toUpperCase())
    : name;
}
