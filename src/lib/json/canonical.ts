/** One text for equal JSON values, whatever the order of their keys: what hashes of them are made of. */
import { isExactNumber } from "./exact.ts";

/** JSON with sorted keys and nothing between the tokens. Keys without a value are absent, as in JSON. */
export function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null || isExactNumber(value)) return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const fields = value as Record<string, unknown>;
  return `{${namesOf(fields)
    .map((name) => `${JSON.stringify(name)}:${canonical(fields[name])}`)
    .join(",")}}`;
}

/** The names of fields that have a value, in the order of that JSON. */
export const namesOf = (fields: Record<string, unknown>) =>
  Object.keys(fields)
    .filter((name) => fields[name] !== undefined)
    .sort();
