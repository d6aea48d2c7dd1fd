/**
 * What SillyTavern keeps under `extensions` of a lorebook's entry, and reads in place of the specification's fields.
 * Source: https://docs.sillytavern.app/usage/core-concepts/worldinfo/
 */
import { type JsonObject, listOf, numberOf, objectOf, textOf } from "../../../../lib/json/json.ts";
import { words } from "../../../../lib/text/words.ts";
import type { Draft } from "../draft.ts";

type Entry = Exclude<NonNullable<Draft["lorebook"]>, readonly unknown[]>["entries"][number];

type TavernFields = Pick<
  Entry,
  | "case_sensitive"
  | "whole_words"
  | "secondary_logic"
  | "scan_depth"
  | "position"
  | "depth"
  | "exclude_recursion"
  | "prevent_recursion"
  | "delay_until_recursion"
>;

/** What its own defaults say of a book: its settings, which a card does not hold. */
export const tavernDefaults = { scan_depth: 2, recursive_scanning: true } as const;

const marks = words("selectiveLogic probability useProbability display_index match_whole_words exclude_recursion");

/** True for an entry that SillyTavern wrote. */
export const isTavernEntry = (entry: JsonObject): boolean => {
  const extensions = objectOf(entry["extensions"]) ?? {};
  return marks.some((name) => Object.hasOwn(extensions, name)) || typeof extensions["position"] === "number";
};

/** A key that is read as a pattern: between slashes, with flags, and no bare slash within. */
export const isTavernPattern = (key: string): boolean => {
  const inside = /^\/([\s\S]+?)\/[gimsuy]*$/.exec(key)?.[1];
  return inside !== undefined && !/(?:^|[^\\])\//.test(inside);
};

const logics = ["any", "not_all", "not_any", "all"] as const;
const atDepth = 4;
const outlet = 7;
const usualDepth = 4;

/** @returns the fields that a persona's lorebook has too */
export function tavernFields(extensions: JsonObject, entry: JsonObject): TavernFields {
  const { selectiveLogic, scan_depth: scanDepth, position, depth } = extensions;
  const place = numberOf(position) ?? (entry["position"] === "before_char" ? 0 : 1);
  const logic = logics[numberOf(selectiveLogic) ?? 0];
  const isTrue = (name: string) => (extensions[name] === true || undefined) as true | undefined;
  const isBounded = Number.isInteger(scanDepth) && (scanDepth as number) >= 1 && (scanDepth as number) <= 1000;
  const fields: { [K in keyof TavernFields]: TavernFields[K] | undefined } = {
    case_sensitive: isTrue("case_sensitive"),
    whole_words: extensions["match_whole_words"] === false ? undefined : true,
    secondary_logic: logic === "any" ? undefined : logic,
    scan_depth: isBounded ? (scanDepth as number) : undefined,
    position: place === atDepth ? undefined : place === 0 ? "before_system" : "after_system",
    depth: place === atDepth ? Math.min(1000, Math.max(0, Math.trunc(numberOf(depth) ?? usualDepth))) : undefined,
    exclude_recursion: isTrue("exclude_recursion"),
    prevent_recursion: isTrue("prevent_recursion"),
    delay_until_recursion: extensions["delay_until_recursion"] ? true : undefined,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** @returns why it never comes, as a sentence without its subject; undefined where it may */
export function neverComes({ probability, useProbability, position }: JsonObject): string | undefined {
  if (position === outlet) return "is an outlet's, which no text here names: the entry is left out";
  return probability === 0 && useProbability !== false ? "is 0: the entry is turned off" : undefined;
}

/** Fields that are read above, or that say how an editor shows an entry. */
const known = [
  ...["case_sensitive", "match_whole_words", "selectiveLogic", "scan_depth", "depth", "exclude_recursion"],
  ...["prevent_recursion", "delay_until_recursion", "display_index", "useProbability", "addMemo", "add_memo"],
  ...["group_override", "group_weight", "use_group_scoring"],
];

const places = [
  "",
  "",
  "beside the author's note",
  "beside the author's note",
  "",
  "beside examples",
  "beside examples",
];

/** What an entry says there and can't say here: names of fields, each with a sentence without its subject. */
export function* tavernOmissions(extensions: JsonObject): Generator<readonly [name: string, message: string]> {
  const positive = (name: string) => (numberOf(extensions[name]) ?? 0) > 0;
  const { probability, useProbability, position, role } = extensions;
  for (const [name, value] of Object.entries(extensions)) {
    const says = Array.isArray(value)
      ? value.length > 0
      : value !== null && value !== false && value !== "" && value !== undefined;
    if (known.includes(name) || !says) continue;
    if (name === "probability") {
      const isLess = useProbability !== false && (numberOf(probability) ?? 100) < 100 && probability !== 0;
      if (isLess) yield [name, `is ${numberOf(probability)} %: the entry comes whenever it is mentioned`];
    } else if (name === "position") {
      const where = places[numberOf(position) ?? 1] ?? "";
      if (where !== "") yield [name, `stands ${where} there, and after the system text here`];
    } else if (name === "role") {
      if (position === atDepth && role !== 1)
        yield [name, "is a message of its own there, and stands in the user's here"];
    } else if (name === "group")
      yield [name, `'${textOf(value)?.slice(0, 40)}' lets one of its entries come there, and all here`];
    else if (["sticky", "cooldown", "delay"].includes(name)) {
      if (positive(name)) yield [name, "counts messages there, and has no place here"];
    } else if (name === "outlet_name") {
      if (position === outlet) yield [name, "is kept under card only"];
    } else if (typeof value !== "object" || listOf(value).length > 0 || Object.keys(objectOf(value) ?? {}).length > 0)
      yield [name, "is kept under card only"];
  }
}

/** The other way: what an entry's fields are under `extensions`, where they say something. */
export function tavernExtensions(entry: TavernFields): JsonObject {
  const { secondary_logic: logic, whole_words, scan_depth, exclude_recursion, prevent_recursion } = entry;
  return {
    ...(logic !== undefined && { selectiveLogic: logics.indexOf(logic) }),
    ...(whole_words !== undefined && { match_whole_words: whole_words }),
    ...(scan_depth !== undefined && { scan_depth }),
    ...(exclude_recursion !== undefined && { exclude_recursion }),
    ...(prevent_recursion !== undefined && { prevent_recursion }),
    ...(entry.delay_until_recursion !== undefined && { delay_until_recursion: entry.delay_until_recursion }),
  };
}
