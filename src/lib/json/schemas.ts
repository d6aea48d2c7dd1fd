/** Schemas that formats are made of, beside those of TypeBox. */
import { type ObjectOptions, type SchemaOptions, type TProperties, type TSchema, Type } from "@sinclair/typebox";

/** A member that may be left out. Clients in typed languages write null where they leave one out. */
export const Nullable = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]));

/** An object that may hold members beside these: formats grow some with every model. */
export const Open = <P extends TProperties>(properties: P, options: ObjectOptions = {}) =>
  Type.Object(properties, { additionalProperties: true, ...options });

/** An object in which any other member is a mistake. */
export const Closed = <P extends TProperties>(properties: P, options: ObjectOptions = {}) =>
  Type.Object(properties, { additionalProperties: false, ...options });

/** An open object of a union, told from its others by its `type`. */
export const Tagged = <N extends string, P extends TProperties>(type: N, properties: P) =>
  Open({ type: Type.Literal(type), ...properties });

/**
 * Gives schemas the names by which the API's description lists them and generated clients call them.
 * @param before what comes before each name
 */
export function titled(schemas: Readonly<Record<string, TSchema>>, before = ""): void {
  for (const [name, schema] of Object.entries(schemas)) schema.title = before + name;
}

/** One of these words. */
export const Words = <const W extends string>(words: readonly W[], options: SchemaOptions = {}) =>
  Type.Unsafe<W>(
    Type.Union(
      words.map((word) => Type.Literal(word)),
      options,
    ),
  );

/**
 * Any word but these, of at most so many characters. To the compiler it is a literal of its own, so that `type` tells the kinds of a
 * union apart.
 */
export const WordBut = (known: readonly string[], maxLength: number) =>
  Type.Unsafe<"(another type)">(Type.String({ pattern: `^(?!(?:${known.join("|")})$)[\\s\\S]{1,${maxLength}}$` }));
