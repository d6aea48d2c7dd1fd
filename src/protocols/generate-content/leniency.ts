/**
 * Reads all that Google's own parser takes beside the canonical form of its JSON: one value for a list of one, enums in any case, and numbers in
 * strings, as clients in other languages write 64-bit ones. Members may be in either spelling.
 * Source: https://protobuf.dev/programming-guides/json/#representation
 */
import type { TSchema } from "@sinclair/typebox";
import { derive, isObject, type JsonObject, withEach } from "../../lib/json/json.ts";
import { camelCase } from "./spelling.ts";

/** @returns the value in the form that the schema describes, as far as it can be seen; itself where it is in that form already */
export function canonical(schema: TSchema, value: unknown): unknown {
  if (value == null) return value;
  const meant = unwrapped(schema);
  switch (meant["type"]) {
    case "array": {
      const item = meant["items"] as TSchema;
      if (!Array.isArray(value)) {
        const isOne = isObject(value) === (unwrapped(item)["type"] === "object");
        return isOne ? [canonical(item, value)] : value;
      }
      return withEach(value, (one) => canonical(item, one));
    }
    case "object":
      return isObject(value) ? members((meant["properties"] ?? {}) as Record<string, TSchema>, value) : value;
    case "number":
    case "integer":
      return typeof value === "string" && numberForm.test(value) ? Number(value) : value;
    default:
      return typeof value === "string" ? wordOf(meant, value) : value;
  }
}

/** An enum's words are read in any case: https://github.com/google-gemini/generative-ai-python/blob/main/samples/rest/function_calling.sh */
function wordOf({ anyOf }: TSchema, value: string): string {
  if (anyOf === undefined) return value;
  const word = value.toUpperCase();
  return (anyOf as TSchema[]).some((one) => one["const"] === word) ? word : value;
}

const numberForm = /^-?\d{1,25}(?:\.\d{1,25})?(?:[eE][+-]?\d{1,2})?$/;

function members(properties: Record<string, TSchema>, value: JsonObject): JsonObject {
  let next = value;
  for (const name in value) {
    const one = value[name];
    const spelt = camelCase(name);
    if (!Object.hasOwn(properties, spelt)) continue;
    const read = canonical(properties[spelt]!, one);
    if (read === one) continue;
    if (next === value) next = derive(value, { ...value });
    next[name] = read;
  }
  return next;
}

/** Without the null that clients in typed languages may write. */
const unwrapped = (schema: TSchema): TSchema =>
  (schema["anyOf"] as TSchema[] | undefined)?.find(({ type }) => type !== "null") ?? schema;
