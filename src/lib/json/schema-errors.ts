/**
 * Validation errors for people: the path and what must change. TypeBox says which check failed;
 * this says it precisely for unions too: the variant that the value was meant to be is found by its kind and its literals.
 */
import type { TSchema } from "@sinclair/typebox";
import { Kind } from "@sinclair/typebox";
import { Errors, type ValueError, type ValueErrorIterator, ValueErrorType } from "@sinclair/typebox/errors";
import { truncate } from "../text/truncate.ts";
import { isObject } from "./json.ts";
import { ownMember } from "./own-member.ts";

export type PathPart = string | number;
export type SchemaError = {
  /** `key`: what is wrong is the last key of the path itself. */
  readonly kind: "missing" | "unknown" | "key" | "value";
  readonly path: readonly PathPart[];
  /** A sentence without the path: "must be a number from 0 to 2". */
  readonly message: string;
  /** Keys that may stand in the place of an unknown one. */
  readonly known?: readonly string[];
};

/** `messages[0].role`; the root itself is "". It names a place, and is cut where its keys are the sender's own and long. */
export function formatPath(path: readonly PathPart[]): string {
  return truncate(
    path.reduce<string>((text, part) => {
      if (typeof part === "number") return `${text}[${part}]`;
      const name = truncate(part);
      const plain = /^[A-Za-z_][\w-]*$/.test(name);
      return plain ? (text === "" ? name : `${text}.${name}`) : `${text}[${JSON.stringify(name)}]`;
    }, ""),
  );
}

/**
 * Only for values known to be invalid: it is slow beside a compiled check.
 * @param max how many errors to report
 */
export function schemaErrors(schema: TSchema, value: unknown, max = 50): SchemaError[] {
  const errors: SchemaError[] = [];
  collect(Errors(schema, value), value, errors, max);
  return errors;
}

function collect(
  found: ValueErrorIterator | Iterable<ValueError>,
  root: unknown,
  errors: SchemaError[],
  max: number,
): void {
  const seen = new Set<string>();
  for (const error of found) {
    if (errors.length >= max) return;
    const key = error.path;
    // A missing property is reported again for its type; the first word on a place is enough.
    if (seen.has(key)) continue;
    seen.add(key);
    if (error.type === ValueErrorType.Union) addUnionErrors(error, root, errors, max);
    else errors.push(errorOf(error, root));
  }
}

function addUnionErrors(error: ValueError, root: unknown, errors: SchemaError[], max: number): void {
  const path = pathOf(error.path, root);
  const variants = (error.schema["anyOf"] as TSchema[]).map((schema, at) => ({
    schema,
    errors: [...error.errors[at]!],
  }));
  if (variants.every(({ schema }) => "const" in schema || schema[Kind] === "Null")) {
    errors.push({ kind: "value", path, message: `must be one of ${literalsOf(variants.map((v) => v.schema))}` });
    return;
  }
  const fitting = variants.filter(({ schema }) => kindFits(schema, error.value));
  if (fitting.length === 0) {
    errors.push({ kind: "value", path, message: `must be ${kindNames(variants.map((v) => v.schema))}` });
    return;
  }
  const tag = ["role", "type"].find((name) => fitting.some(({ schema }) => schema["properties"]?.[name] !== undefined));
  const meant =
    fitting.length === 1 || tag === undefined
      ? fitting
      : fitting.filter(({ errors }) => !errors.some((inner) => inner.path === `${error.path}/${tag}`));
  const chosen = meant.find(({ schema }) => hasRequired(schema, error.value)) ?? meant[0];
  if (chosen === undefined) {
    const given = (error.value as Record<string, unknown>)[tag!];
    const allowed = literalsOf(fitting.flatMap(({ schema }) => literalSchemas(schema["properties"]?.[tag!])));
    errors.push(
      given === undefined
        ? { kind: "missing", path: [...path, tag!], message: `is required: one of ${allowed}` }
        : { kind: "value", path: [...path, tag!], message: `must be one of ${allowed}` },
    );
    return;
  }
  collect(chosen.errors, root, errors, max);
}

function errorOf(error: ValueError, root: unknown): SchemaError {
  const path = pathOf(error.path, root);
  if (error.type === ValueErrorType.ObjectRequiredProperty) return { kind: "missing", path, message: "is required" };
  if (error.type === ValueErrorType.ObjectAdditionalProperties) {
    const keyMessage = error.schema["keyErrorMessage"];
    const explained = keyMessage ?? error.schema["explainKey"]?.(path.at(-1));
    if (explained !== undefined) return { kind: "key", path, message: explained };
    return {
      kind: "unknown",
      path,
      message: "is not a known key",
      known: Object.keys(error.schema["properties"] ?? {}),
    };
  }
  return { kind: "value", path, message: sentence(error) };
}

function sentence({ type, schema, message }: ValueError): string {
  switch (type) {
    case ValueErrorType.Literal:
      return `must be ${JSON.stringify(schema["const"])}`;
    case ValueErrorType.StringMinLength:
      return schema["minLength"] === 1 ? "must not be empty" : `must have at least ${schema["minLength"]} characters`;
    case ValueErrorType.StringMaxLength:
      return `must have at most ${schema["maxLength"]} characters`;
    case ValueErrorType.StringPattern:
      return schema["patternErrorMessage"] ?? `must match ${schema["pattern"]}`;
    case ValueErrorType.ArrayMinItems:
      return schema["minItems"] === 1 ? "must not be empty" : `must have at least ${schema["minItems"]} items`;
    case ValueErrorType.ArrayMaxItems:
      return `must have at most ${schema["maxItems"]} items`;
    case ValueErrorType.ArrayUniqueItems:
      return "must not hold the same thing twice";
    case ValueErrorType.ObjectMaxProperties:
      return `must have at most ${schema["maxProperties"]} entries`;
    case ValueErrorType.ObjectMinProperties:
      return `must have at least ${schema["minProperties"]} entries`;
    default:
      return schema["type"] === undefined ? message : `must be ${kindName(schema)}`;
  }
}

const kinds = {
  array: "an array",
  object: "an object",
  boolean: "true or false",
  string: "a string",
  null: "null",
  number: "a number",
  integer: "an integer",
} as const;

function kindName(schema: TSchema): string {
  if ("const" in schema) return JSON.stringify(schema["const"]);
  const kind = ownMember<string>(kinds, String(schema["type"]));
  if (kind !== undefined) return kind + rangeOf(schema);
  return schema["anyOf"] === undefined ? "a value of another kind" : kindNames(schema["anyOf"] as TSchema[]);
}

function rangeOf({ minimum, maximum }: TSchema): string {
  if (minimum !== undefined && maximum !== undefined) return ` from ${minimum} to ${maximum}`;
  if (minimum !== undefined) return ` of at least ${minimum}`;
  return maximum === undefined ? "" : ` of at most ${maximum}`;
}

function kindNames(schemas: readonly TSchema[]): string {
  return [...new Set(schemas.map(kindName))].filter((kind) => kind !== "null").join(" or ");
}

function kindFits(schema: TSchema, value: unknown): boolean {
  if ("const" in schema) return false;
  if (schema["anyOf"] !== undefined) return (schema["anyOf"] as TSchema[]).some((inner) => kindFits(inner, value));
  const type = schema["type"] === "integer" ? "number" : schema["type"];
  return type === (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);
}

/** True if the variant's own keys are there, which distinguishes variants without a tag. */
const hasRequired = ({ required }: TSchema, value: unknown): boolean =>
  Array.isArray(required) && isObject(value) && required.every((key: string) => Object.hasOwn(value, key));

function literalSchemas(schema: TSchema | undefined): TSchema[] {
  if (schema === undefined) return [];
  return schema["anyOf"] === undefined ? [schema] : (schema["anyOf"] as TSchema[]);
}

function literalsOf(schemas: readonly TSchema[]): string {
  return schemas
    .filter((schema) => "const" in schema)
    .map((schema) => JSON.stringify(schema["const"]))
    .join(", ");
}

/** TypeBox's JSON pointer as a path: a part is a number only where the value really is an array. */
function pathOf(pointer: string, root: unknown): PathPart[] {
  const parts = pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  let value = root;
  return parts.map((part) => {
    const isIndex = Array.isArray(value);
    value = typeof value === "object" && value !== null ? (value as Record<string, unknown>)[part] : undefined;
    return isIndex ? Number(part) : part;
  });
}
