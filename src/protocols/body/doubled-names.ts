/**
 * Refuses a body in which a name stands twice at the top, or within what is judged. A parser takes one of the two values, and servers differ in which: what was
 * judged here would not be what the upstream does.
 * Source: https://www.rfc-editor.org/rfc/rfc8259#section-4
 */
import { type JsonObject, objectOf } from "../../lib/json/json.ts";
import { elementsAt, membersAt } from "../../lib/json/ranges.ts";
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import { ApiError } from "../errors.ts";
import { camelCase } from "../generate-content/spelling.ts";
import type { Source } from "./source.ts";

/**
 * @param outerKeys how many members the text's outermost object has, as they were counted on its way
 * @throws ApiError invalid_value
 */
export function refuseDoubledNames(bytes: Uint8Array, outerKeys: number, parsed: JsonObject): void {
  refuseOtherCase(parsed);
  if (Object.keys(parsed).length !== outerKeys) refuseAt(bytes, 0);
}

/** The same at every depth, for what is judged there. @throws ApiError invalid_value naming the place */
export function refuseDoubledWithin({ body, parsed, keys }: Source): void {
  refuseBothSpellings(parsed, []);
  if (keys !== undefined && membersOf(parsed) !== keys) refuseAt(typeof body === "string" ? Buffer.from(body) : body);
}

/** Google's members that choose the price or the length of an answer, and hold such. */
const configs = ["generationConfig", "generation_config"];

/** Google reads members in either spelling, and which counts where both stand is its own to say: https://protobuf.dev/programming-guides/json/ */
function refuseBothSpellings(object: JsonObject, path: readonly PathPart[]): void {
  for (const name in object) {
    if (!name.includes("_")) continue;
    const other = camelCase(name);
    if (other !== name && Object.hasOwn(object, other) && !isSame(object[name], object[other]))
      throw doubled(formatPath([...path, name]));
  }
  if (path.length > 0) return;
  for (const name of configs) {
    const config = objectOf(object[name]);
    if (config !== undefined) refuseBothSpellings(config, [name]);
  }
}

const isSame = (one: unknown, other: unknown) => one === other || JSON.stringify(one) === JSON.stringify(other);

function refuseAt(bytes: Uint8Array, depth = Number.POSITIVE_INFINITY): void {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const path = doubledAt(text, text.indexOf("{"), [], depth);
  // Without a place there is no object in which one would be lost.
  if (path !== undefined) throw doubled(formatPath(path));
}

const doubled = (path: string) => ApiError.invalidValue(path, `${path} stands twice in one object.`);

/** Some servers read the names of a body whatever their letters' case: https://pkg.go.dev/encoding/json#Unmarshal */
function refuseOtherCase(body: JsonObject): void {
  let others: Set<string> | undefined;
  for (const name in body) {
    if (!/[^a-z0-9_]/.test(name)) continue;
    const plain = inLowerCase(name);
    if (plain !== name && Object.hasOwn(body, plain)) throw doubled(name);
    others ??= new Set();
    if (others.has(plain)) throw doubled(name);
    others.add(plain);
  }
}

/** Letters beside ASCII that have a small one of it too: the long s, and the sign of Kelvin. */
const inLowerCase = (name: string) => name.toUpperCase().toLowerCase();

function membersOf(value: object): number {
  let count = 0;
  if (Array.isArray(value)) {
    for (const one of value) if (typeof one === "object" && one !== null) count += membersOf(one);
    return count;
  }
  for (const name in value) {
    count += 1;
    const one = (value as JsonObject)[name];
    if (typeof one === "object" && one !== null) count += membersOf(one);
  }
  return count;
}

function doubledAt(text: Buffer, start: number, path: readonly PathPart[], depth: number): PathPart[] | undefined {
  const names = new Set<string>();
  let found: PathPart[] | undefined;
  membersAt(text, start, (name, { value }) => {
    if (names.has(name)) found ??= [...path, name];
    names.add(name);
    if (depth > 0) found ??= doubledAt(text, value, [...path, name], depth - 1);
  });
  let at = 0;
  elementsAt(text, start, (range) => {
    found ??= doubledAt(text, range.start, [...path, at], depth - 1);
    at += 1;
  });
  return found;
}
