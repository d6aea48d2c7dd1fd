/** Joins two reports of the same counts: whatever comes later says more, or nothing. */
import { isObject, type JsonObject } from "./json.ts";

/** @returns the members of both; of a number the larger one, so that a zero, a gap or a word does not undo what was counted before */
export function raised(known: JsonObject, reported: JsonObject): JsonObject {
  const joined = new Map(Object.entries(known));
  for (const [name, value] of Object.entries(reported)) joined.set(name, raisedValue(joined.get(name), value));
  return Object.fromEntries(joined);
}

function raisedValue(known: unknown, reported: unknown): unknown {
  if (known == null || reported == null) return reported ?? known;
  if (typeof known === "number") return typeof reported === "number" ? Math.max(known, reported) : known;
  if (Array.isArray(known)) return raisedList(known, reported);
  if (isObject(known)) return isObject(reported) ? raised(known, reported) : known;
  return reported;
}

function raisedList(known: readonly unknown[], reported: unknown): readonly unknown[] {
  if (!Array.isArray(reported) || reported.length < known.length) return known;
  return reported.map((one, at) => (isSameKind(known[at], one) ? raisedValue(known[at], one) : one));
}

/** True if the words of two entries, such as what they count, are the same. */
const isSameKind = (one: unknown, other: unknown): boolean =>
  isObject(one) &&
  isObject(other) &&
  Object.entries(other).every(([name, value]) => typeof value !== "string" || one[name] === value);
