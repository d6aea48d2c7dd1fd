/**
 * JSON for a caller that asked for it, so that what parses a persona's answers can be tried without a provider.
 * Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
 */
import { isObject, type JsonObject, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import type { ChatRequest } from "../../protocols/chat/schema.ts";

/** Deeper values are null: a schema may hold itself. */
const maxDepth = 16;
/** Values of one answer; what follows is null. */
const maxValues = 10_000;

/** Examples of the formats that structured outputs know. */
const formats: Readonly<Record<string, string>> = {
  "date-time": "2026-01-01T00:00:00Z",
  date: "2026-01-01",
  time: "00:00:00Z",
  duration: "P1D",
  email: "someone@example.com",
  hostname: "example.com",
  ipv4: "192.0.2.1",
  ipv6: "2001:db8::1",
  uuid: "00000000-0000-4000-8000-000000000000",
};

/**
 * @param text what the answer would be otherwise: it stands wherever the schema takes any text
 * @returns the text itself where no JSON was asked for. A value keeps to the schema's types, members, choices and bounds, but not to
 * its patterns.
 */
export function inResponseFormat(text: string, { response_format: format }: ChatRequest): string {
  if (format?.type === "json_object") return JSON.stringify({ answer: text });
  const schema = format?.type === "json_schema" ? format.json_schema.schema : undefined;
  return isObject(schema) ? JSON.stringify(new Example(schema, text).of(schema)) : text;
}

class Example {
  readonly #root: JsonObject;
  readonly #text: string;
  #left = maxValues;

  constructor(root: JsonObject, text: string) {
    this.#root = root;
    this.#text = text;
  }

  of(schema: unknown, depth = 0): unknown {
    this.#left -= 1;
    if (!isObject(schema) || depth > maxDepth || this.#left < 0) return null;
    if (schema["const"] !== undefined) return schema["const"];
    const [first] = [schema["enum"], schema["anyOf"] ?? schema["oneOf"]].flatMap((list) => listed(list));
    if (Array.isArray(schema["enum"])) return first;
    if (typeof schema["$ref"] === "string") return this.of(this.#at(schema["$ref"]), depth + 1);
    if (first !== undefined) return this.of(first, depth + 1);
    switch (kindOf(schema)) {
      case "object":
        return this.#object(schema, depth);
      case "array":
        return Array.from({ length: Math.min(numberAt(schema, "minItems", 0), 100) }, () =>
          this.of(schema["items"], depth + 1),
        );
      case "string":
        return this.#string(schema);
      case "integer":
        return Math.ceil(lowest(schema));
      case "number":
        return lowest(schema);
      case "boolean":
        return false;
      default:
        return null;
    }
  }

  #object(schema: JsonObject, depth: number): JsonObject {
    const properties = isObject(schema["properties"]) ? schema["properties"] : {};
    const names = [
      ...new Set([...listed(schema["required"]).flatMap((name) => textOf(name) ?? []), ...Object.keys(properties)]),
    ];
    return Object.fromEntries(names.map((name) => [name, this.of(ownMember(properties, name) ?? {}, depth + 1)]));
  }

  #string(schema: JsonObject): string {
    const format = ownMember(formats, textOf(schema["format"]) ?? "");
    const text = format ?? this.#text.padEnd(Math.min(numberAt(schema, "minLength", 0), 10_000), ".");
    return format ?? text.slice(0, numberAt(schema, "maxLength", text.length));
  }

  /** @param pointer `#`, or `#/$defs/<name>` and its like; others lead nowhere */
  #at(pointer: string): unknown {
    const [origin, ...names] = pointer.split("/");
    if (origin !== "#") return undefined;
    return names.reduce<unknown>(
      (place, name) =>
        isObject(place) ? ownMember(place, name.replaceAll("~1", "/").replaceAll("~0", "~")) : undefined,
      this.#root,
    );
  }
}

const listed = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const numberAt = (schema: JsonObject, name: string, otherwise: number): number =>
  typeof schema[name] === "number" && schema[name] >= 0 ? schema[name] : otherwise;

/** The first kind of several; without one, the kind that its other members are of. */
function kindOf(schema: JsonObject): unknown {
  const type = Array.isArray(schema["type"]) ? schema["type"][0] : schema["type"];
  if (type !== undefined) return type;
  if (schema["properties"] !== undefined) return "object";
  return schema["items"] === undefined ? "string" : "array";
}

/** The number nearest to 0 within the schema's bounds. */
function lowest(schema: JsonObject): number {
  const bound = (name: string) => (typeof schema[name] === "number" ? schema[name] : undefined);
  const above = bound("exclusiveMinimum");
  const below = bound("exclusiveMaximum");
  const least = bound("minimum") ?? (above === undefined ? undefined : above + 1);
  const most = bound("maximum") ?? (below === undefined ? undefined : below - 1);
  const step = bound("multipleOf") ?? 0;
  const number = Math.min(Math.max(0, least ?? 0), most ?? Math.max(0, least ?? 0));
  return step > 0 ? Math.ceil(number / step) * step : number;
}
