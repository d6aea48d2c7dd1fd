/**
 * Strict reading of what upstreams send, for the parts in which words may stand: a value of another kind than its format
 * gives it is a fault, as leaving it out could shorten the answer. What is absent or null is absent.
 */
import { isObject, isTooDeep, type JsonObject } from "../lib/json/json.ts";
import { InvalidAnswer } from "../protocols/errors.ts";

const empty: readonly JsonObject[] = [];

/** The JSON of an event or of a whole answer. @throws InvalidAnswer */
export function jsonIn(text: string): unknown {
  if (isTooDeep(text)) throw new InvalidAnswer("JSON that nests too deep");
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidAnswer("an event that can't be read");
  }
}

/** The JSON object of an event. @throws InvalidAnswer */
export function eventIn(data: string): JsonObject {
  const event = jsonIn(data);
  if (!isObject(event)) throw new InvalidAnswer("an event that is no JSON object");
  return event;
}

/** @throws InvalidAnswer where there is something else */
export function objectIn(holder: JsonObject, name: string): JsonObject | undefined {
  const value = holder[name];
  return value == null || isObject(value) ? (value ?? undefined) : wrong(name);
}

/** @throws InvalidAnswer where there is something else, or nothing */
export function objectAt(holder: JsonObject, name: string): JsonObject {
  return objectIn(holder, name) ?? wrong(name);
}

/** @throws InvalidAnswer where there is something else, or something else in it */
export function objectsIn(holder: JsonObject, name: string): readonly JsonObject[] {
  const value = holder[name] ?? empty;
  if (!Array.isArray(value)) return wrong(name);
  for (const one of value) if (!isObject(one)) wrong(name);
  return value;
}

/** @throws InvalidAnswer where there is something else */
export function textIn(holder: JsonObject, name: string): string | undefined {
  const value = holder[name] ?? undefined;
  return value === undefined || typeof value === "string" ? value : wrong(name);
}

/** @throws InvalidAnswer where there is something else, or nothing */
export function textAt(holder: JsonObject, name: string): string {
  return textIn(holder, name) ?? wrong(name);
}

/** What an error event says where it is no JSON: plain words, told as they are. @throws InvalidAnswer for JSON that is broken */
export function plainWords(data: string): string {
  const words = data.trim();
  if (words === "" || /^[{["]/.test(words)) throw new InvalidAnswer("an error that can't be read");
  return words;
}

function wrong(name: string): never {
  throw new InvalidAnswer(`an answer whose '${name}' is missing or of the wrong kind`);
}
