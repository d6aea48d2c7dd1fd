/** JSON Schemas of a prompt's input and output, as a persona's `variables` and `response_format`. */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../../lib/json/json.ts";
import type { Draft, Omissions, Variables } from "./draft.ts";

/** Variables are text: a number is filled in as it is written. */
const textLike = ["string", "number", "integer", "boolean", undefined];

/**
 * @param schema of an object
 * @param defaults of its fields
 * @param place of the schema in its file
 */
export function variablesOfSchema(
  schema: JsonObject | undefined,
  defaults: Readonly<Record<string, unknown>>,
  place: string,
  omissions: Omissions,
): Variables {
  const required = new Set(listOf(schema?.["required"]));
  const properties = objectOf(schema?.["properties"]) ?? {};
  const variables: Variables = {};
  for (const name of new Set([...Object.keys(properties), ...Object.keys(defaults)])) {
    const property = objectOf(properties[name]) ?? {};
    const type = [property["type"]].flat().find((one) => one !== "null");
    if (!textLike.includes(type as string | undefined))
      omissions.add(`${place}.${name}`, `is ${type} there, and text here`);
    const description = textOf(property["description"]);
    const values = listOf(property["enum"])
      .filter((value) => value !== null)
      .map(String);
    if (values.length > 256) omissions.add(`${place}.${name}`, "has more than 256 values: any text will do here");
    const given = Object.hasOwn(defaults, name) ? defaults[name] : property["default"];
    const fallback = textOfDefault(given);
    variables[name] = {
      ...(description !== undefined && { description }),
      ...(values.length > 0 && values.length <= 256 && { enum: values }),
      ...(fallback !== undefined && { default: fallback }),
      ...(fallback === undefined && (required.has(name) || values.length > 0) && { required: true }),
      ...(fallback !== undefined && fallback.length > 2000 && { max_length: Math.min(100_000, fallback.length) }),
    };
  }
  return variables;
}

function textOfDefault(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** @param name of the schema: letters, digits, `_` and `-` stay of it */
export function responseFormatOf(schema: JsonObject, name: string): NonNullable<Draft["response_format"]> {
  const plain = name.replace(/[^A-Za-z0-9_-]+/g, "_").slice(0, 64);
  return {
    type: "json_schema",
    json_schema: { name: plain === "" ? "answer" : plain, schema },
  };
}

/** A `response_format` of chat completions, or the `text.format` of Responses. */
export function responseFormatIn(
  value: unknown,
  place: string,
  omissions: Omissions,
): Draft["response_format"] | undefined {
  if (!isObject(value) || value["type"] === "text") return undefined;
  if (value["type"] === "json_object") return { type: "json_object" };
  const { type: _, json_schema: inner, ...flat } = value;
  const { name, schema, strict, description } = objectOf(inner) ?? flat;
  if (typeof name !== "string" || !isObject(schema)) {
    omissions.add(place, "is no JSON schema with a name");
    return undefined;
  }
  return {
    type: "json_schema",
    json_schema: {
      name,
      ...(typeof description === "string" && { description }),
      ...(typeof strict === "boolean" && { strict }),
      schema,
    },
  };
}

type Tool = NonNullable<Draft["tools"]>[number];

/** @returns undefined for what can't be a tool here */
export function functionTool(
  name: unknown,
  description: unknown,
  parameters: unknown,
  strict?: unknown,
): Tool | undefined {
  if (typeof name !== "string" || !/^[A-Za-z0-9_-]{1,64}$/.test(name)) return undefined;
  return {
    type: "function",
    function: {
      name,
      ...(typeof description === "string" && description !== "" && { description }),
      ...(isObject(parameters) && { parameters }),
      ...(typeof strict === "boolean" && { strict }),
    },
  };
}
