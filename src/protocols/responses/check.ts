/** Refuses values whose `type` is none that may stand there. */
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { ApiError } from "../errors.ts";

/** @throws ApiError invalid_value, naming what may stand there */
export function refuseKind(type: string, path: readonly PathPart[], allowed: readonly string[]): never {
  const at = formatPath([...path, "type"]);
  const names = allowed.map((one) => JSON.stringify(one)).join(", ");
  throw ApiError.invalidValue(at, `${at} is '${truncate(type)}', and must be one of ${names}.`);
}
