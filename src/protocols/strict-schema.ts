/** Recognizes schemas that OpenAI's strict mode takes. */
import { isObject, type JsonObject } from "../lib/json/json.ts";

/**
 * True where each object is closed, and each of its properties required.
 * Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
 */
export function isStrictSchema(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(isStrictSchema);
  if (!isObject(schema)) return true;
  const { properties, required, additionalProperties } = schema;
  if (isObject(properties)) {
    const names = Array.isArray(required) ? required : [];
    const isClosed = additionalProperties === false && Object.keys(properties).every((name) => names.includes(name));
    if (!isClosed || !Object.values(properties).every(isStrictSchema)) return false;
  } else if (schema["type"] === "object" && additionalProperties !== false) return false;
  const inner = [schema["items"], schema["anyOf"], schema["allOf"], ...Object.values(objectsOf(schema))];
  return inner.every(isStrictSchema);
}

const objectsOf = ({ $defs, definitions }: JsonObject): JsonObject => ({
  ...(isObject($defs) ? $defs : {}),
  ...(isObject(definitions) ? definitions : {}),
});
