/** Counts that a request names, in bodies that nothing has checked. */
import { isObject } from "../lib/json/json.ts";

/** @param names of the members on the way @returns undefined for what is no count */
export function countIn(body: unknown, ...names: string[]): number | undefined {
  let value = body;
  for (const name of names) value = isObject(value) ? value[name] : undefined;
  return typeof value === "number" && value >= 0 ? value : undefined;
}
