/**
 * JSON Schema rewritten into the OpenAPI subset of older models, which refuse the whole request at the first
 * keyword they do not know.
 * Source: https://ai.google.dev/api/caching#Schema
 */
import { type JsonObject, listOf, objectOf } from "../../lib/json/json.ts";
import { words } from "../../lib/text/words.ts";

const supportedKeys = new Set(
  words(`
    title description nullable maxItems minItems minProperties maxProperties required minimum maximum minLength
    maxLength pattern example default propertyOrdering
  `),
);
const stringFormats = new Set(["enum", "date-time"]);

/** The most text that is written out for references; a schema that asks for more is one that grows without end. */
const maxCharacters = 200_000;
/** A schema that holds itself is written out this often on the way down, and is an open object below. */
const maxUnrolled = 2;

type Document = { readonly root: JsonObject; readonly sizes: Map<string, number>; written: number };

/** References are written out where they stand. */
export function toOpenApiSchema(schema: JsonObject): JsonObject {
  return rewrite(schema, { root: schema, sizes: new Map(), written: 0 }, []);
}

/** @param above the references that led here */
function rewrite(value: unknown, document: Document, above: readonly string[]): JsonObject {
  const within = [...above];
  const flat = flatten(value, document, within);
  const inner = (one: unknown) => rewrite(one, document, within);
  const rewritten: JsonObject = {};
  for (const key in flat) if (supportedKeys.has(key)) rewritten[key] = flat[key];
  setType(rewritten, flat);
  setEnum(rewritten, flat);
  const properties = objectOf(flat["properties"]);
  if (properties !== undefined && Object.keys(properties).length > 0) {
    rewritten["properties"] = Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, inner(one)]));
  }
  if (flat["items"] !== undefined) rewritten["items"] = inner(flat["items"]);
  else if (rewritten["type"] === "array") rewritten["items"] = { type: "string" };
  setVariants(rewritten, [...listOf(flat["anyOf"]), ...listOf(flat["oneOf"])], inner);
  return rewritten;
}

/** A schema with what it refers to and all that it must fulfil besides, in one; its own words go before theirs. */
function flatten(value: unknown, document: Document, within: string[]): JsonObject {
  const { $ref: reference, allOf, ...own } = objectOf(value) ?? {};
  const parts = listOf(allOf).map((one) => flatten(one, document, within));
  if (typeof reference === "string") parts.unshift(flatten(resolve(reference, document, within), document, within));
  if (parts.length === 0) return own;
  const all = [...parts, own];
  const required = [...new Set(all.flatMap((part) => listOf(part["required"])))];
  const properties = Object.assign({}, ...all.map((part) => objectOf(part["properties"])));
  return { ...Object.assign({}, ...all), properties, ...(required.length > 0 && { required }) };
}

/** Resolves a reference, and notes it in `within`. */
function resolve(reference: string, document: Document, within: string[]): JsonObject {
  const steps = reference.replace(/^#\/?/, "").split("/");
  const found = steps.reduce<unknown>(
    (at, step) => (step === "" ? at : objectOf(at)?.[step.replaceAll("~1", "/").replaceAll("~0", "~")]),
    document.root,
  );
  const schema = objectOf(found) ?? {};
  const size = document.sizes.get(reference) ?? JSON.stringify(schema).length;
  document.sizes.set(reference, size);
  document.written += size;
  const unrolled = within.filter((one) => one === reference).length;
  if (unrolled >= maxUnrolled || document.written > maxCharacters) return { type: "object" };
  within.push(reference);
  return schema;
}

/** A list of types becomes one of them, or a choice; "null" is a property of its own here. */
function setType(rewritten: JsonObject, { type, format, exclusiveMinimum, exclusiveMaximum }: JsonObject): void {
  const types = Array.isArray(type) ? type : type === undefined ? [] : [type];
  const others = types.filter((one) => one !== "null");
  if (others.length < types.length) rewritten["nullable"] = true;
  if (others.length > 1) rewritten["anyOf"] = others.map((one) => ({ type: one }));
  else if (others.length === 1) rewritten["type"] = others[0];
  if (typeof format === "string" && (others[0] !== "string" || stringFormats.has(format))) rewritten["format"] = format;
  if (typeof exclusiveMinimum === "number") rewritten["minimum"] ??= exclusiveMinimum;
  if (typeof exclusiveMaximum === "number") rewritten["maximum"] ??= exclusiveMaximum;
}

/** Only texts can be enumerated. */
function setEnum(rewritten: JsonObject, flat: JsonObject): void {
  const values = flat["const"] === undefined ? listOf(flat["enum"]) : [flat["const"]];
  const texts = values.filter((value) => typeof value === "string");
  if (values.includes(null)) rewritten["nullable"] = true;
  if (texts.length === 0) return;
  rewritten["type"] ??= "string";
  rewritten["enum"] = texts;
}

function setVariants(rewritten: JsonObject, variants: readonly unknown[], inner: (one: unknown) => JsonObject): void {
  const others = variants.filter((one) => objectOf(one)?.["type"] !== "null");
  if (others.length < variants.length) rewritten["nullable"] = true;
  if (others.length === 1) Object.assign(rewritten, inner(others[0]));
  else if (others.length > 1) rewritten["anyOf"] = others.map(inner);
}
