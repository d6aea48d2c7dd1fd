/** What shapes of the admin API are made of, and the types of answers that have them. */
import { type Static, type TSchema, Type } from "@sinclair/typebox";

/** The same without any member to write: what is answered is not changed. */
type Fixed<T> = T extends readonly (infer Item)[]
  ? readonly Fixed<Item>[]
  : T extends object
    ? { readonly [Name in keyof T]: Fixed<T[Name]> }
    : T;

/** An answer of that shape, as a handler gives it and a front end reads it. */
export type Answer<S extends TSchema> = Fixed<Static<S>>;

/** A page of a list as front ends read it. */
export type Listed<T> = { readonly data: readonly T[]; readonly has_more: boolean; readonly last_id: string | null };

export const OrNull = <T extends TSchema>(schema: T, options: object = {}) =>
  Type.Union([schema, Type.Null()], options);

/** A page of a list: `limit` items behind the one that `after` names. */
export const pageSchema = <S extends TSchema>(item: S) =>
  Type.Object({
    object: Type.Literal("list"),
    data: Type.Array(item),
    has_more: Type.Boolean(),
    last_id: OrNull(Type.String(), { description: "Where the next page begins: after=<last_id>." }),
  });
