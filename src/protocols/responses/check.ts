/** Checks of values that are told apart by their `type`, with the place of what is wrong. */
import type { Static, TSchema } from "@sinclair/typebox";
import { type TypeCheck, TypeCompiler } from "@sinclair/typebox/compiler";
import { formatPath, type PathPart, schemaErrors } from "../../lib/schema-errors.ts";
import { truncate } from "../../lib/truncate.ts";
import { ApiError } from "../errors.ts";

/** Made for the first value of their kind, as that takes a while. */
const compiled = new Map<TSchema, TypeCheck<TSchema>>();

/** @throws ApiError invalid_value or missing_field */
export function checked<T extends TSchema>(schema: T, value: unknown, path: readonly PathPart[]): Static<T> {
  let check = compiled.get(schema);
  if (check === undefined) {
    check = TypeCompiler.Compile(schema as TSchema);
    compiled.set(schema, check);
  }
  if (check.Check(value)) return value as Static<T>;
  const fault = schemaErrors(schema, value, 1)[0];
  const at = formatPath([...path, ...(fault?.path ?? [])]);
  throw fault?.kind === "missing"
    ? ApiError.missingField(at)
    : ApiError.invalidValue(at, `${at} ${fault?.message ?? "has a wrong value"}.`);
}

/** @throws ApiError invalid_value, naming what may stand there */
export function refuseKind(type: string, path: readonly PathPart[], allowed: readonly string[]): never {
  const at = formatPath([...path, "type"]);
  const names = allowed.map((one) => JSON.stringify(one)).join(", ");
  throw ApiError.invalidValue(at, `${at} is '${truncate(type)}', and must be one of ${names}.`);
}
