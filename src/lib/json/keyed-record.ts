/**
 * A mapping from free names to values of one kind, whose names are checked too. `Type.Record` alone checks values only: of
 * its key's schema nothing but `pattern` counts, and keys that don't match are let through unless the record is closed.
 */
import { type TSchema, Type } from "@sinclair/typebox";

/** The form of a key: a regular expression over all of it, and the same in words ("must be …"), for messages and editors. */
type KeyRule = { readonly pattern: string; readonly message: string };

/** @returns the rule of keys that may hold anything */
export function keyOfLength(maxLength: number): KeyRule {
  return { pattern: `^[\\s\\S]{1,${maxLength}}$`, message: `must be named by 1 to ${maxLength} characters` };
}

export function KeyedRecord<V extends TSchema>({ pattern, message }: KeyRule, value: V, options: object = {}) {
  return Type.Record(Type.String({ pattern }), value, {
    ...options,
    additionalProperties: false,
    keyErrorMessage: message,
  });
}
