/** A body of the Gemini API as Vertex AI takes it: without what it has not, and with what it counts in its own place. */
import { derive, isObject, type JsonObject, keepSame, objectOf, withEach } from "../../lib/json/json.ts";
import { snakeCase } from "../../lib/text/snake-case.ts";
import { countedPrompt, listed } from "../../protocols/generate-content/request.ts";
import { countedMembers, unknownMembers, unknownParts } from "./facts.ts";

type Place = keyof typeof unknownMembers;

/** Members may be spelt in two ways. */
const namesOf = (names: readonly string[]): ReadonlySet<string> =>
  new Set(names.flatMap((name) => [name, snakeCase(name)]));

const unknown = Object.fromEntries(
  Object.entries(unknownMembers).map(([place, names]) => [place, namesOf(names)]),
) as Record<Place, ReadonlySet<string>>;
const counted = namesOf(countedMembers);
const foreignParts = namesOf(unknownParts);

/** @returns the body itself where all of it is known there */
export function fitted(body: JsonObject): JsonObject {
  const prompt = countedPrompt(body);
  const asked = prompt === body ? body : only(prompt, (name) => counted.has(name));
  return mapped(known(asked, "body"), {
    contents: (given) => contentsOf(given),
    generationConfig: (given) => knownIn(given, "generationConfig"),
    toolConfig: (given) => knownIn(given, "toolConfig"),
  });
}

const only = (object: JsonObject, isKept: (name: string) => boolean): JsonObject =>
  keepSame(object, Object.fromEntries(Object.entries(object).filter(([name]) => isKept(name))));

const known = (object: JsonObject, place: Place): JsonObject =>
  Object.keys(object).some((name) => unknown[place].has(name))
    ? only(object, (name) => !unknown[place].has(name))
    : object;

const knownIn = (value: unknown, place: Place): unknown => (isObject(value) ? known(value, place) : value);

/** @param by what becomes of members, by their names in the first of both spellings */
function mapped(object: JsonObject, by: Readonly<Record<string, (value: unknown) => unknown>>): JsonObject {
  let next: JsonObject | undefined;
  for (const [name, map] of Object.entries(by))
    for (const spelt of new Set([name, snakeCase(name)])) {
      if (object[spelt] == null) continue;
      const value = map(object[spelt]);
      if (value !== object[spelt]) next = { ...(next ?? object), [spelt]: value };
    }
  return next === undefined ? object : derive(object, next);
}

/** One content stands for a list of one. */
function contentsOf(given: unknown): unknown {
  /** The places of the calls of the turn before, by their ids. */
  let order: ReadonlyMap<unknown, number> = new Map();
  const contentOf = (content: unknown): unknown => {
    if (!isObject(content) || content["parts"] == null) return content;
    const parts = listed(content["parts"]);
    const called = parts.flatMap((part) => memberOf(part, "functionCall")?.["id"] ?? []);
    const next = keepSame(parts, partsOf(inOrderOfCalls(parts, order)));
    order = new Map(called.map((id, at) => [id, at]));
    return next === parts ? content : derive(content, { ...content, parts: next });
  };
  return Array.isArray(given) ? withEach(given, contentOf) : contentOf(given);
}

const memberOf = (part: unknown, name: string): JsonObject | undefined => {
  const object = objectOf(part);
  return object && (objectOf(object[name]) ?? objectOf(object[snakeCase(name)]));
};

/** Without ids the order of results alone says what each of them answers. Other parts keep their places. */
function inOrderOfCalls(parts: readonly unknown[], order: ReadonlyMap<unknown, number>): readonly unknown[] {
  const rankOf = (part: unknown) => order.get(memberOf(part, "functionResponse")?.["id"]);
  const results = parts.filter((part) => rankOf(part) !== undefined);
  const sorted = results.toSorted((one, other) => rankOf(one)! - rankOf(other)!);
  if (sorted.every((part, at) => part === results[at])) return parts;
  let at = 0;
  return parts.map((part) => (rankOf(part) === undefined ? part : sorted[at++]));
}

function partsOf(parts: readonly unknown[]): readonly unknown[] {
  const kept = parts.filter((part) => !isObject(part) || !Object.keys(part).some((name) => foreignParts.has(name)));
  return kept.map((part) =>
    isObject(part)
      ? mapped(known(part, "part"), {
          functionCall: (call) => knownIn(call, "functionCall"),
          functionResponse: (response) => (isObject(response) ? responseOf(response) : response),
        })
      : part,
  );
}

const responseOf = (response: JsonObject): JsonObject =>
  mapped(known(response, "functionResponse"), {
    parts: (parts) => (Array.isArray(parts) ? withEach(parts, (part) => knownIn(part, "responsePart")) : parts),
  });
