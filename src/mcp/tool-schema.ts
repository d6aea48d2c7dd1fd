/**
 * Schemas of tools' arguments as every provider takes them. One that is none by JSON Schema (null for a keyword, an older draft's
 * spelling), an array without `items`, or a choice at the root, makes OpenAI and Anthropic answer 400 to the whole request, so that one
 * tool would take all others with it. What is mended says less than before, never more: the server still judges the arguments.
 * Sources: https://json-schema.org/draft/2020-12/json-schema-validation,
 * https://github.com/spacelift-io/spacectl/issues/402 (array schema missing items),
 * https://github.com/enechange/collmbo/pull/384 (object schema missing properties),
 * https://github.com/promptfoo/promptfoo/pull/5965 ($schema), https://github.com/smallmain/vscode-unify-chat-provider/issues/162 (a property
 * that is no schema), https://github.com/anthropics/claude-code/issues/4886 (no oneOf, allOf or anyOf at the root)
 */
import { isObject, type JsonObject, listOf, objectOf } from "../lib/json/json.ts";
import { ownMember } from "../lib/json/own-member.ts";

type Read = (value: unknown) => unknown;

const types: readonly unknown[] = ["array", "boolean", "integer", "null", "number", "object", "string"];

const schemaOf: Read = (value) => (isObject(value) ? mended(value) : typeof value === "boolean" ? value : undefined);
const texts: Read = (value) =>
  Array.isArray(value) ? [...new Set(value.filter((one) => typeof one === "string"))] : undefined;
const numeric: Read = (value) => (typeof value === "number" ? value : undefined);
const count: Read = (value) => (typeof value === "number" && value >= 0 && Number.isInteger(value) ? value : undefined);
const flag: Read = (value) => (typeof value === "boolean" ? value : undefined);
const words: Read = (value) => (typeof value === "string" ? value : undefined);
const list: Read = (value) => (Array.isArray(value) ? value : undefined);
const choices: Read = (value) => (Array.isArray(value) && value.length > 0 ? value : undefined);

function schemas(value: unknown): unknown {
  const read = listOf(value).flatMap((one) => schemaOf(one) ?? []);
  return read.length === 0 ? undefined : read;
}

/** Null is a schema that says nothing. */
function schemasByName(value: unknown): unknown {
  if (!isObject(value)) return undefined;
  const read = Object.entries(value).map(([name, one]) => [name, one === null ? {} : schemaOf(one)] as const);
  return Object.fromEntries(read.filter(([, schema]) => schema !== undefined));
}

function typeOf(value: unknown): unknown {
  if (!Array.isArray(value)) return types.includes(value) ? value : undefined;
  const known = [...new Set(value.filter((one) => types.includes(one)))];
  return known.length === 0 ? undefined : known;
}

/** How the value of a keyword is read; undefined is returned for what it can't be. Other members stay as they are. */
const keywords: Readonly<Record<string, Read>> = {
  type: typeOf,
  enum: choices,
  required: texts,
  properties: schemasByName,
  patternProperties: schemasByName,
  dependentSchemas: schemasByName,
  $defs: schemasByName,
  definitions: schemasByName,
  items: schemaOf,
  additionalProperties: schemaOf,
  propertyNames: schemaOf,
  contains: schemaOf,
  not: schemaOf,
  if: schemaOf,
  // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema.
  then: schemaOf,
  else: schemaOf,
  unevaluatedItems: schemaOf,
  unevaluatedProperties: schemaOf,
  allOf: schemas,
  anyOf: schemas,
  oneOf: schemas,
  prefixItems: schemas,
  minimum: numeric,
  maximum: numeric,
  exclusiveMinimum: numeric,
  exclusiveMaximum: numeric,
  multipleOf: numeric,
  minLength: count,
  maxLength: count,
  minItems: count,
  maxItems: count,
  minProperties: count,
  maxProperties: count,
  minContains: count,
  maxContains: count,
  uniqueItems: flag,
  readOnly: flag,
  writeOnly: flag,
  deprecated: flag,
  title: words,
  description: words,
  format: words,
  pattern: words,
  $ref: words,
  $comment: words,
  examples: list,
};

/** Members whose value may be null. */
const valued: ReadonlySet<string> = new Set(["default", "const", "example"]);

/** The first says which draft it is of, which is today's from here on. */
const unread: ReadonlySet<string> = new Set(["$schema", "__proto__"]);

/** @param inputSchema as a server listed it, not too deep @returns it as an object's schema, or why it can be none */
export function toolSchema(inputSchema: unknown): JsonObject | string {
  if (inputSchema == null) return { type: "object", properties: {} };
  if (!isObject(inputSchema)) return "its inputSchema is no object";
  const root = objectRoot(mended(inputSchema), inputSchema, 0);
  if (root === undefined) return "its inputSchema is not that of an object";
  const properties = objectOf(root["properties"]) ?? {};
  const required = listOf(root["required"]).filter((name) => Object.hasOwn(properties, String(name)));
  return withoutUnused({ ...root, type: "object", properties, ...(root["required"] !== undefined && { required }) });
}

function mended(schema: JsonObject): JsonObject {
  const made: JsonObject = {};
  for (const [name, value] of Object.entries(inPresentDraft(schema))) {
    if (unread.has(name) || (value === null && !valued.has(name))) continue;
    const read = ownMember(keywords, name);
    const taken = read === undefined ? value : read(value);
    if (taken !== undefined) made[name] = taken;
  }
  const { type, items } = made;
  if ((type === "array" || listOf(type).includes("array")) && items === undefined) made["items"] = {};
  return made;
}

/** Spellings of drafts 4 to 7 that are refused by today's. */
function inPresentDraft(schema: JsonObject): JsonObject {
  const { items, additionalItems, exclusiveMinimum, exclusiveMaximum } = schema;
  const next = { ...schema };
  if (Array.isArray(items)) {
    delete next["additionalItems"];
    if (items.length > 0) next["prefixItems"] = items;
    next["items"] = additionalItems ?? {};
  }
  if (exclusiveMinimum === true) moved(next, "minimum", "exclusiveMinimum");
  if (exclusiveMaximum === true) moved(next, "maximum", "exclusiveMaximum");
  return next;
}

function moved(schema: JsonObject, from: string, to: string): void {
  schema[to] = schema[from];
  delete schema[from];
}

/** So many references and choices within each other are followed at the root. */
const maxFollowed = 8;

/** What a choice of objects, or a reference to one, says of its members, in one object. @returns undefined where it is none */
function objectRoot(schema: JsonObject, document: JsonObject, followed: number): JsonObject | undefined {
  const { type, $ref, allOf, anyOf, oneOf, not: _not, enum: _enum, const: _const, ...own } = schema;
  if (type !== undefined && type !== "object" && !listOf(type).includes("object")) return undefined;
  if (followed > maxFollowed) return undefined;
  const read = (one: unknown) => (isObject(one) ? objectRoot(one, document, followed + 1) : undefined);
  const parts: JsonObject[] = [];
  if (typeof $ref === "string") {
    const found = read(mended(objectOf(targetOf($ref, document)) ?? {}));
    if (found === undefined) return undefined;
    parts.push(found);
  }
  for (const one of listOf(allOf)) parts.push(read(one) ?? {});
  for (const choice of [listOf(anyOf), listOf(oneOf)]) {
    const objects = choice.map(read).filter((one) => one !== undefined);
    if (choice.length > 0 && objects.length === 0) return undefined;
    if (objects.length > 0) parts.push(eitherOf(objects));
  }
  if (parts.length === 0) return own;
  const all = [own, ...parts];
  const required = [...new Set(all.flatMap((part) => listOf(part["required"])))];
  return {
    ...Object.assign({}, ...all.toReversed()),
    properties: joined(all),
    ...(required.length > 0 && { required }),
  };
}

/** Any of some objects: it needs what all of them need. */
function eitherOf(objects: readonly JsonObject[]): JsonObject {
  const [first, ...others] = objects.map(({ required }) => listOf(required));
  const required = first!.filter((name) => others.every((names) => names.includes(name)));
  const closed = objects.every(({ additionalProperties }) => additionalProperties === false);
  return {
    properties: joined(objects),
    ...(required.length > 0 && { required }),
    ...(closed && { additionalProperties: false }),
  };
}

/** The members of all of them; one that some say differently is a choice. */
function joined(objects: readonly JsonObject[]): JsonObject {
  const found = new Map<string, unknown[]>();
  for (const { properties } of objects) {
    for (const [name, schema] of Object.entries(objectOf(properties) ?? {})) {
      const known = found.get(name) ?? [];
      if (!known.some((one) => Bun.deepEquals(one, schema))) known.push(schema);
      found.set(name, known);
    }
  }
  return Object.fromEntries([...found].map(([name, said]) => [name, said.length === 1 ? said[0] : { anyOf: said }]));
}

const stepsOf = (pointer: string): string[] =>
  pointer
    .slice(1)
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));

/** @param reference of which only those within the document are followed */
function targetOf(reference: string, document: JsonObject): unknown {
  if (reference !== "#" && !reference.startsWith("#/")) return undefined;
  return stepsOf(reference).reduce<unknown>(
    (at, step) => (typeof at === "object" && at !== null ? ownMember(at as JsonObject, step) : undefined),
    document,
  );
}

const definitions = ["$defs", "definitions"] as const;

/** Leaves out references that lead nowhere, and definitions that nothing refers to: they would go to the model with every turn. */
export function withoutUnused(schema: JsonObject): JsonObject {
  const { $defs, definitions: older, ...rest } = schema;
  const used = new Set<string>();
  const body = resolved(rest, schema, used) as JsonObject;
  for (const member of definitions) {
    const kept = objectOf(schema[member]);
    if (kept === undefined) continue;
    const named = Object.entries(kept).filter(([name]) => used.has(`${member}/${name}`));
    if (named.length > 0)
      body[member] = Object.fromEntries(named.map(([name, one]) => [name, resolved(one, schema, used)]));
  }
  return body;
}

/** @param used gets the definitions that are referred to, and those that these refer to */
function resolved(value: unknown, document: JsonObject, used: Set<string>): unknown {
  if (Array.isArray(value)) return value.map((one) => resolved(one, document, used));
  if (!isObject(value)) return value;
  const { $ref, ...others } = value;
  if (typeof $ref !== "string") return mapped(value, document, used);
  if (targetOf($ref, document) === undefined) return mapped(others, document, used);
  const [member, name] = stepsOf($ref);
  const key = `${member}/${name}`;
  if (definitions.some((one) => one === member) && name !== undefined && !used.has(key)) {
    used.add(key);
    resolved(ownMember(objectOf(document[member!]) ?? {}, name), document, used);
  }
  return mapped(isAlone(value) ? value : { ...others, anyOf: [{ $ref }] }, document, used);
}

/**
 * True where nothing but references and names stand beside a reference, as Gemini has it, or no other place is free for it.
 * Source: https://ai.google.dev/api/caching#FunctionDeclaration
 */
const isAlone = (value: JsonObject) =>
  value["anyOf"] !== undefined || Object.keys(value).every((name) => name.startsWith("$"));

const mapped = (value: JsonObject, document: JsonObject, used: Set<string>): JsonObject =>
  Object.fromEntries(Object.entries(value).map(([name, one]) => [name, resolved(one, document, used)]));
