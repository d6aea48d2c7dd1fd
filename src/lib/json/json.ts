/** Careful reading of JSON that nobody has checked: what is not of the wanted kind is absent. */
import { JsonScan, noLimits } from "./scan.ts";

export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function objectOf(value: unknown): JsonObject | undefined {
  return isObject(value) ? value : undefined;
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** True for an object without members. */
export function isEmpty(value: object): boolean {
  for (const _ in value) return false;
  return true;
}

/** True for null, "", and lists and objects that hold nothing but that: what many write where they mean to leave a field out. */
export function saysNothing(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return value == null || value === "";
  for (const key in value) if (!saysNothing((value as JsonObject)[key])) return false;
  return true;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

/** A number of tokens, of uses, or a place in a text. */
export function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

/** The counts of an object by their names; empty for anything else. */
export function countsByName(value: unknown): Record<string, number> {
  const counts: Record<string, number> = {};
  if (!isObject(value)) return counts;
  for (const name in value) {
    const count = countOf(value[name]);
    if (count !== undefined) counts[name] = count;
  }
  return counts;
}

/** The objects that others were made from: who writes one finds there how the values it took over were written. */
const origins = new WeakMap<object, object>();

/** @returns `next`, marked as made from `previous` */
export function derive<T extends object>(previous: object, next: T): T {
  origins.set(next, previous);
  return next;
}

/** @returns what the object was made from, where `derive` or `keepSame` made it */
export function originOf(value: object): object | undefined {
  return origins.get(value);
}

/**
 * @returns `next`, marked as made from `previous`, or `previous` itself where both hold the very same values: what did not
 *   change can be seen by identity
 */
export function keepSame<T extends object>(previous: T, next: T): T {
  if (next === previous) return previous;
  const names = Object.keys(next);
  const isSame =
    names.length === Object.keys(previous).length &&
    names.every((name) => Object.is(next[name as keyof T], previous[name as keyof T]));
  return isSame ? previous : derive(previous, next);
}

/** @returns the list with each value replaced by what `read` makes of it, marked as made from it; itself where nothing changes */
export function withEach<T>(list: readonly T[], read: (value: T) => T): readonly T[] {
  let next: T[] | undefined;
  for (let at = 0; at < list.length; at += 1) {
    const value = read(list[at]!);
    if (next === undefined && value !== list[at]) next = derive(list, [...list]);
    if (next !== undefined) next[at] = value;
  }
  return next ?? list;
}

/** @returns undefined for a text that is no JSON */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @returns undefined for a text that is no JSON object */
export const parseObject = (text: string): JsonObject | undefined => objectOf(parseJson(text));

/** The most levels of lists and objects that are read. What is deeper can't be written again without running out of stack. */
const maxDepth = 1000;
const depthAlone = { ...noLimits, jsonDepth: maxDepth };

/** True if a JSON text nests deeper than is read. Most texts hold too few brackets for it, which is found without a look at the rest. */
export function isTooDeep(text: string): boolean {
  return (
    text.length > 2 * maxDepth &&
    hasMoreThan(text, "[", "{", maxDepth) &&
    new JsonScan(depthAlone).push(Buffer.from(text)) !== undefined
  );
}

function hasMoreThan(text: string, one: string, other: string, limit: number): boolean {
  let found = 0;
  for (const bracket of [one, other]) {
    for (let at = text.indexOf(bracket); at >= 0; at = text.indexOf(bracket, at + 1)) {
      found += 1;
      if (found > limit) return true;
    }
  }
  return false;
}
