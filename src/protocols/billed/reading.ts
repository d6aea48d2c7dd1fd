/** Reads an answer by a table of the places where it tells what is billed (`billed-places.ts`). */
import { countOf, isObject, type JsonObject, textOf } from "../../lib/json/json.ts";
import { billedAs } from "../chat/schema.ts";
import type { Place } from "./places.ts";

/** What an answer tells. A count of nothing is none. */
type Found = {
  readonly cached?: number;
  readonly written?: number;
  readonly writtenLong?: number;
  readonly audioCached?: number;
  readonly reasoning?: number;
  readonly imageInput?: number;
  readonly imageOutput?: number;
  readonly audioSeconds?: number;
  readonly serviceTier?: string;
  readonly surcharges?: readonly string[];
  /** Uses of hosted tools, by their names. */
  readonly tools?: Readonly<Record<string, number>>;
  /** Counts of what was done beside the answer, by what it was. */
  readonly parts?: readonly { readonly what: string; readonly counts: JsonObject }[];
  readonly served?: JsonObject;
  readonly attempts?: readonly JsonObject[];
};

type Step = { readonly name: string; readonly isEach: boolean; readonly kind: readonly [string, string] | undefined };
/** A place, worked out once. @property isList true where there may be several values */
type Row = { readonly place: Place; readonly steps: readonly Step[]; readonly isList: boolean };

const useOf = "use of ";
const countsOf = "counts of ";
/** Longer words are no names. */
const maxWord = 64;

/** @param answer as it came, or what of it is told by its places */
export function toldIn(places: readonly Place[], answer: JsonObject): Found {
  const found: Writable<Found> = {};
  for (const { place, steps, isList } of rowsOf(places)) {
    if (isList) {
      const values = valuesAt(answer, steps, place.only);
      if (values.length > 0) addEntries(found, place, values);
    } else {
      const value = valueAt(answer, steps);
      // Most counts of most answers are zeros.
      if (value != null && value !== 0) addValue(found, place, value);
    }
  }
  return found;
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };

function addValue(found: Writable<Found>, place: Place, value: unknown): void {
  const { is } = place;
  if (is === "serviceTier") {
    const tier = textOf(value);
    if (tier) found.serviceTier ??= tier.slice(0, maxWord);
  } else if (is === "surcharge") addSurcharge(found, place, value);
  else if (is.startsWith(countsOf)) addEntries(found, place, [value]);
  else addCount(found, place, countOf(value) ?? 0);
}

function addEntries(found: Writable<Found>, place: Place, values: readonly unknown[]): void {
  const { is, at } = place;
  const objects = values.filter(isObject);
  if (is === "served") found.served = objects.at(-1)!;
  else if (is === "attempt") found.attempts = objects;
  else if (is.startsWith(countsOf) && objects.length > 0) {
    const what = is.slice(countsOf.length);
    found.parts = [...(found.parts ?? []), ...objects.map((counts) => ({ what, counts }))];
  } else if (!is.startsWith(countsOf)) {
    // Each entry of a list is one use, where it is not its members that count.
    const isEach = at.endsWith("]");
    addCount(found, place, isEach ? values.length : values.reduce<number>((all, one) => all + (countOf(one) ?? 0), 0));
  }
}

function addCount(found: Writable<Found>, { is }: Place, count: number): void {
  if (count === 0) return;
  if (!is.startsWith(useOf)) found[is as "cached"] ??= count;
  else found.tools = { [is.slice(useOf.length)]: count, ...found.tools };
}

/** @param more of what has no place of its own @returns the member of a usage with what the public form has no place for */
export const billedBy = (found: Found, more: Parameters<typeof billedAs>[0] = {}): ReturnType<typeof billedAs> =>
  billedAs({
    cacheWrite1h: found.writtenLong,
    audioCacheRead: found.audioCached,
    imageInput: found.imageInput,
    imageOutput: found.imageOutput,
    audioSeconds: found.audioSeconds,
    tools: found.tools,
    serviceTier: found.serviceTier,
    surcharges: found.surcharges,
    ...more,
  });

function addSurcharge(found: Writable<Found>, { at, usual = [] }: Place, value: unknown): void {
  const word = textOf(value)?.toLowerCase().slice(0, maxWord) ?? "";
  if (word === "" || usual.includes(word)) return;
  found.surcharges = [...(found.surcharges ?? []), `${at.slice(at.lastIndexOf(".") + 1)}_${word}`];
}

/** A list has no more entries than are counted. */
const maxEntries = 10_000;

const memberOf = (value: unknown, name: string): unknown =>
  isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;

function valueAt(answer: JsonObject, steps: readonly Step[]): unknown {
  let value: unknown = answer;
  for (const { name } of steps) {
    value = memberOf(value, name);
    if (value == null) return undefined;
  }
  return value;
}

function valuesAt(answer: JsonObject, steps: readonly Step[], only: Place["only"]): readonly unknown[] {
  let found: readonly unknown[] = [answer];
  for (const { name, isEach, kind } of steps) {
    const next: unknown[] = [];
    for (const one of found) {
      const value = memberOf(one, name);
      if (!isEach) {
        if (value != null) next.push(value);
      } else if (Array.isArray(value)) {
        const entries = value.slice(0, maxEntries);
        next.push(...(kind === undefined ? entries : entries.filter((entry) => memberOf(entry, kind[0]) === kind[1])));
      }
    }
    if (next.length === 0) return next;
    found = next;
  }
  return only === undefined ? found : found.filter((one) => isObject(one) && only(one));
}

const known = new WeakMap<readonly Place[], readonly Row[]>();

function rowsOf(places: readonly Place[]): readonly Row[] {
  let rows = known.get(places);
  if (rows === undefined) {
    rows = places.map((place) => {
      const steps = place.at.split(".").map(stepOf);
      return { place, steps, isList: steps.some(({ isEach }) => isEach) };
    });
    known.set(places, rows);
  }
  return rows;
}

function stepOf(step: string): Step {
  const [, name = "", each, member = "", value = ""] = /^(\w+)(\[(?:(\w+)=(\w+))?\])?$/.exec(step) ?? [];
  return { name, isEach: each !== undefined, kind: member === "" ? undefined : [member, value] };
}
