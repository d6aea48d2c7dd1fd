/** Checks values from outside against a schema; what is wrong is named by its place. */
import type { Static, TSchema } from "@sinclair/typebox";
import { type TypeCheck, TypeCompiler } from "@sinclair/typebox/compiler";
import { formatPath, type PathPart, type SchemaError, schemaErrors } from "../../lib/json/schema-errors.ts";
import { ApiError } from "../errors.ts";
import { loosened } from "./judged.ts";

/** Made for the first value of their kind: that takes milliseconds, which a start should not wait for. */
const compiled = new WeakMap<TSchema, TypeCheck<TSchema>>();

/**
 * @param path where the value stands in the body
 * @returns the value itself
 * @throws ApiError invalid_value or missing_field
 */
export function checked<T extends TSchema>(schema: T, value: unknown, path: readonly PathPart[] = []): Static<T> {
  return checkedAt(schema, value, (found) => [...path, ...found]);
}

/**
 * @param place where in the body a part of the value stands, by its path in the value; absent: there
 * @param refuse takes the error of what upstreams of the same format judge by themselves; absent: it is thrown
 * @returns the value itself
 * @throws as `checked` does
 */
export function checkedAt<T extends TSchema>(
  schema: T,
  value: unknown,
  place?: (path: readonly PathPart[]) => readonly PathPart[],
  refuse?: (error: ApiError) => void,
): Static<T> {
  let check = compiled.get(schema);
  if (check === undefined) {
    check = TypeCompiler.Compile(schema as TSchema);
    compiled.set(schema, check);
  }
  if (check.Check(value)) return value as Static<T>;
  const fault = schemaErrors(schema, value, 1)[0];
  const error = faultError(fault, formatPath(place?.(fault?.path ?? []) ?? fault?.path ?? []));
  if (refuse === undefined) throw error;
  checkedAt(loosened(schema), value, place);
  refuse(error);
  return value as Static<T>;
}

/** @param at the place that is named */
function faultError(fault: SchemaError | undefined, at: string): ApiError {
  if (fault?.kind === "missing") return ApiError.missingField(at);
  return ApiError.invalidValue(at, `${at} ${fault?.message ?? "has a wrong value"}.`);
}
