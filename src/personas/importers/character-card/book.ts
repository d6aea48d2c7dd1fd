/** A card's `character_book` as a persona's `lorebook`. Source: https://github.com/kwaroran/character-card-spec-v3/blob/main/SPEC_V3.md#lorebook-object */
import { isObject, type JsonObject, listOf, numberOf, textOf } from "../../../lib/json/json.ts";
import type { PathPart } from "../../../lib/schema-errors.ts";
import { type Draft, type Omissions, withoutEmpty } from "../draft.ts";
import type { Macros } from "./macros.ts";

type Lorebook = Exclude<NonNullable<Draft["lorebook"]>, readonly unknown[]>;
type Entry = Lorebook["entries"][number];

const maxEntries = 2000;
const maxKeys = 64;
const maxKeyLength = 256;

export function lorebookOf(
  book: JsonObject,
  path: readonly PathPart[],
  macros: Macros,
  omissions: Omissions,
): Lorebook {
  const entries: Entry[] = [];
  const given = listOf(book["entries"]);
  for (const [at, entry] of given.slice(0, maxEntries).entries()) {
    const made = isObject(entry) ? entryOf(entry, [...path, "entries", at], macros, omissions) : undefined;
    if (made !== undefined) entries.push(made);
  }
  if (given.length > maxEntries)
    omissions.add([...path, "entries"], `has ${given.length}: the first ${maxEntries} are taken`);
  return {
    entries,
    ...bounded("scan_depth", book["scan_depth"], 1, 1000),
    ...bounded("token_budget", book["token_budget"], 1, 100_000),
    ...(book["recursive_scanning"] === true && { recursive_scanning: true }),
  };
}

/** A number that is out of bounds means "none" or "all" to most programs: the default stands in for it. */
function bounded<K extends string>(key: K, value: unknown, min: number, max: number): { [key in K]?: number } {
  const isFit = Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
  return (isFit ? { [key]: value } : {}) as { [key in K]?: number };
}

function entryOf(
  entry: JsonObject,
  path: readonly PathPart[],
  macros: Macros,
  omissions: Omissions,
): Entry | undefined {
  const { content: text, decorators } = splitDecorators(textOf(entry["content"]) ?? "");
  const content = macros.template(text, [...path, "content"]).trim();
  const decorated = fieldsOfDecorators(decorators, path, omissions);
  const keys = keysOf(entry["keys"], [...path, "keys"], omissions);
  const secondary =
    entry["selective"] === true ? keysOf(entry["secondary_keys"], [...path, "secondary_keys"], omissions) : [];
  const constant = decorated.constant ?? entry["constant"] === true;
  if (entry["use_regex"] === true) omissions.add([...path, "keys"], "are regular expressions: the entry is left out");
  else if (content === "") omissions.add([...path, "content"], "is empty: the entry is left out");
  else if (keys.length === 0 && !constant) omissions.add([...path, "keys"], "are empty: the entry is left out");
  else {
    const { depth } = decorated;
    const position = decorated.position ?? positions[textOf(entry["position"]) ?? ""];
    return withoutEmpty({
      name: (textOf(entry["name"]) || textOf(entry["comment"]))?.slice(0, 256).toWellFormed() || undefined,
      keys,
      secondary_keys: [...secondary, ...(decorated.secondary_keys ?? [])].slice(0, maxKeys),
      content,
      constant: constant || undefined,
      enabled: entry["enabled"] === false || decorated.enabled === false ? false : undefined,
      case_sensitive: entry["case_sensitive"] === true || undefined,
      order: numberOf(entry["insertion_order"]),
      priority: numberOf(entry["priority"]),
      position: depth === undefined ? position : undefined,
      depth,
    });
  }
  return undefined;
}

const positions: Readonly<Record<string, Entry["position"]>> = {
  before_char: "before_system",
  after_char: "after_system",
  before_desc: "before_system",
  after_desc: "after_system",
};

function keysOf(value: unknown, path: readonly PathPart[], omissions: Omissions): string[] {
  const all = listOf(value).filter((key): key is string => typeof key === "string" && key !== "");
  const taken = all.filter((key) => key.length <= maxKeyLength).slice(0, maxKeys);
  if (taken.length < all.length) {
    omissions.add(
      path,
      `has keys beyond the first ${maxKeys}, or of more than ${maxKeyLength} characters, which are left out`,
    );
  }
  return taken;
}

type Decorator = { readonly name: string; readonly value: string; readonly isFallback: boolean };

/** Lines `@@name value` at the head of an entry; `@@@name` stands in where the one before is not known. */
function splitDecorators(text: string): { readonly content: string; readonly decorators: readonly Decorator[] } {
  const lines = text.split("\n");
  const decorators: Decorator[] = [];
  let at = 0;
  for (; at < lines.length; at++) {
    const [whole, marks, name, value] = /^(@{2,3})([a-z_]+)(?:[ \t]+(.*?))?\s*$/.exec(lines[at]!) ?? [];
    if (whole === undefined) break;
    decorators.push({ name: name!, value: value ?? "", isFallback: marks === "@@@" });
  }
  return { content: lines.slice(at).join("\n"), decorators };
}

type Decorated = {
  constant?: boolean;
  enabled?: boolean;
  depth?: number;
  position?: Entry["position"];
  secondary_keys?: string[];
};

function fieldsOfDecorators(
  decorators: readonly Decorator[],
  path: readonly PathPart[],
  omissions: Omissions,
): Decorated {
  const fields: Decorated = {};
  let isKnown = true;
  for (const { name, value, isFallback } of decorators) {
    if (isFallback && isKnown) continue;
    isKnown = apply(name, value, fields);
    if (!isKnown) omissions.add([...path, "content"], `@@${name} is not known here`);
  }
  return fields;
}

/** @returns false for a decorator, or a value of it, that has no equal here */
function apply(name: string, value: string, fields: Decorated): boolean {
  switch (name) {
    case "activate":
      fields.constant = true;
      return true;
    case "dont_activate":
      fields.enabled = false;
      return true;
    case "depth":
      if (!/^\d{1,3}$/.test(value)) return false;
      fields.depth = Number(value);
      return true;
    case "position":
      fields.position = positions[value];
      return fields.position !== undefined;
    case "additional_keys":
      fields.secondary_keys = value.split(",").flatMap((key) => key.trim().slice(0, maxKeyLength) || []);
      return true;
    default:
      return false;
  }
}
