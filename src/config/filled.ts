/** A configuration file with its defaults filled in, by the names that the code has for its settings. */
import type { Static, TObject, TOptional, TSchema } from "@sinclair/typebox";
import { isObject } from "../lib/json/json.ts";
import { camelCase } from "../lib/text/snake-case.ts";

/** A field that has a value even when the file does not name it. */
export type Defaulted<T extends TSchema> = TOptional<T> & { readonly default: unknown };

export type Frozen<T> = { readonly [Key in keyof T]: Frozen<T[Key]> };

type CamelCase<Name> = Name extends `${infer First}_${infer Rest}` ? `${First}${Capitalize<CamelCase<Rest>>}` : Name;

type IsAbsent<Field> = Field extends { readonly default: unknown }
  ? false
  : Field extends TOptional<TSchema>
    ? true
    : false;

/** Names of sections and settings are in camel case; what operators name themselves is as they wrote it. */
export type Filled<Schema> =
  Schema extends TObject<infer Fields>
    ? {
        readonly [Name in keyof Fields as IsAbsent<Fields[Name]> extends true ? never : CamelCase<Name>]: Filled<
          Fields[Name]
        >;
      } & {
        readonly [Name in keyof Fields as IsAbsent<Fields[Name]> extends true ? CamelCase<Name> : never]?: Filled<
          Fields[Name]
        >;
      }
    : Schema extends TSchema
      ? Frozen<Static<Schema>>
      : never;

/** @param value fits the schema */
export function filledIn<Schema extends TObject>(schema: Schema, value: unknown): Filled<Schema> {
  return inCamelCase(schema, withDefaults(schema, value)) as Filled<Schema>;
}

/** Fills in what is absent and has a default; leaves the rest as it is. */
export function withDefaults(schema: TSchema, value: unknown): unknown {
  const given = value ?? schema["default"];
  const properties = propertiesOf(schema, given);
  if (properties === undefined) return given;
  const defaults = Object.entries(properties).flatMap(([key, inner]) => {
    const result = withDefaults(inner, given[key]);
    return result === undefined ? [] : [[key, result]];
  });
  return { ...given, ...Object.fromEntries(defaults) };
}

function inCamelCase(schema: TSchema | undefined, value: unknown): unknown {
  const properties = propertiesOf(schema, value);
  if (properties === undefined) return value;
  const entries = Object.entries(value as object).map(([key, inner]) =>
    Object.hasOwn(properties, key) ? [camelCase(key), inCamelCase(properties[key], inner)] : [key, inner],
  );
  return Object.fromEntries(entries);
}

const propertiesOf = (schema: TSchema | undefined, value: unknown): Record<string, TSchema> | undefined =>
  isObject(value) ? schema?.["properties"] : undefined;
