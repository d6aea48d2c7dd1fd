/** A card's `character_book` as a persona's `lorebook`. Source: https://github.com/kwaroran/character-card-spec-v3/blob/main/SPEC_V3.md#lorebook-object */
import {
  isObject,
  type JsonObject,
  listOf,
  numberOf,
  objectOf,
  saysNothing,
  textOf,
} from "../../../../lib/json/json.ts";
import type { PathPart } from "../../../../lib/json/schema-errors.ts";
import { type Draft, type Omissions, withoutEmpty } from "../draft.ts";
import { defaultUser, type Macros } from "./macros.ts";
import {
  isTavernEntry,
  isTavernPattern,
  neverComes,
  tavernDefaults,
  tavernFields,
  tavernOmissions,
} from "./silly-tavern.ts";

type Lorebook = Exclude<NonNullable<Draft["lorebook"]>, readonly unknown[]>;
type Entry = Lorebook["entries"][number];

/** The entry of the card that each was made of, for the way back. */
export const bookSources = new WeakMap<object, JsonObject>();

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
  const grouped = new Grouped();
  const given = listOf(book["entries"]);
  for (const [at, entry] of given.slice(0, maxEntries).entries()) {
    const made = isObject(entry) ? entryOf(entry, [...path, "entries", at], macros, omissions, grouped) : undefined;
    if (made === undefined) continue;
    entries.push(made);
    bookSources.set(made, entry as JsonObject);
  }
  if (given.length > maxEntries)
    omissions.add([...path, "entries"], `has ${given.length}: the first ${maxEntries} are taken`);
  grouped.listIn(omissions);
  const isTavern = given.some((entry) => isObject(entry) && isTavernEntry(entry));
  omissions.addRest(
    book,
    ["entries", "scan_depth", "token_budget", "recursive_scanning", "name", "extensions"],
    path,
    keptOnly,
  );
  const recursive = book["recursive_scanning"];
  return {
    entries,
    ...withoutEmpty({
      ...(isTavern && tavernDefaults),
      ...bounded("scan_depth", book["scan_depth"], 1, 1000),
      ...bounded("token_budget", book["token_budget"], 1, 100_000),
      // Off is what a book is without a word.
      ...(typeof recursive === "boolean" && { recursive_scanning: recursive || undefined }),
    }),
  };
}

const keptOnly = "is kept under card only";

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
  grouped: Grouped,
): Entry | undefined {
  const { content: text, decorators } = splitDecorators(textOf(entry["content"]) ?? "");
  const content = macros.template(text, [...path, "content"]).trim();
  const decorated = fieldsOfDecorators(decorators, path, omissions);
  const keyed = { entry, path, macros, omissions, grouped };
  const { keys, isPattern } = keysOf(keyed, "keys");
  const secondary = entry["selective"] === true ? keysOf(keyed, "secondary_keys").keys : [];
  const constant = decorated.constant ?? entry["constant"] === true;
  const extensions = objectOf(entry["extensions"]) ?? {};
  const isTavern = isTavernEntry(entry);
  const never = isTavern ? neverComes(extensions) : undefined;
  for (const [name, message] of isTavern ? tavernOmissions(extensions) : otherOmissions(extensions))
    grouped.add([...path, "extensions", name], name, message);
  for (const [name, value] of Object.entries(entry)) {
    if (!knownFields.includes(name) && !saysNothing(value)) grouped.add([...path, name], name, keptOnly);
  }
  const isOutlet = never !== undefined && extensions["probability"] !== 0;
  if (never !== undefined) {
    const name = isOutlet ? "position" : "probability";
    grouped.add([...path, "extensions", name], `never ${name}`, never);
  }
  if (isOutlet) return undefined;
  if (content === "") omissions.add([...path, "content"], "is empty: the entry is left out");
  else if (keys.length === 0 && !constant)
    omissions.add([...path, "keys"], `are ${isPattern ? "regular expressions" : "empty"}: the entry is left out`);
  else {
    const { depth } = decorated;
    const read = isTavern ? tavernFields(extensions, entry) : undefined;
    const position = decorated.position ?? read?.position ?? positions[textOf(entry["position"]) ?? ""];
    const isInMessages = depth !== undefined || (decorated.position === undefined && read?.depth !== undefined);
    return withoutEmpty({
      name: (textOf(entry["name"]) || textOf(entry["comment"]))?.slice(0, 256).toWellFormed() || undefined,
      keys,
      secondary_keys: [...secondary, ...(decorated.secondary_keys ?? [])].slice(0, maxKeys),
      content,
      constant: constant || undefined,
      enabled: entry["enabled"] === false || decorated.enabled === false || never !== undefined ? false : undefined,
      case_sensitive: entry["case_sensitive"] === true || undefined,
      ...read,
      ...decorated.own,
      order: numberOf(entry["insertion_order"]),
      priority: numberOf(entry["priority"]),
      position: isInMessages ? undefined : position,
      depth: depth ?? (isInMessages ? read?.depth : undefined),
    });
  }
  return undefined;
}

/** Fields of an entry that are read, or that only number it. */
const knownFields = [
  ...["keys", "secondary_keys", "selective", "content", "name", "comment", "constant", "enabled", "case_sensitive"],
  ...["insertion_order", "priority", "position", "use_regex", "extensions", "id"],
];

function* otherOmissions(extensions: JsonObject): Generator<readonly [string, string]> {
  for (const [name, value] of Object.entries(extensions))
    if (!saysNothing(value) && value !== false) yield [name, keptOnly];
}

/** What is the same of many entries is listed once, at the first of them. */
class Grouped {
  readonly #found = new Map<string, { readonly path: readonly PathPart[]; readonly message: string; count: number }>();

  /** @param kind tells what is the same */
  add(path: readonly PathPart[], kind: string, message: string): void {
    const found = this.#found.get(kind);
    if (found === undefined) this.#found.set(kind, { path, message, count: 1 });
    else found.count += 1;
  }

  listIn(omissions: Omissions): void {
    for (const { path, message, count } of this.#found.values()) {
      const more = count === 1 ? "" : `, and so in ${count - 1} more ${count === 2 ? "entry" : "entries"}`;
      omissions.add(path, `${message}${more}`);
    }
  }
}

const positions: Readonly<Record<string, Entry["position"]>> = {
  before_char: "before_system",
  after_char: "after_system",
  before_desc: "before_system",
  after_desc: "after_system",
};

type Keyed = {
  readonly entry: JsonObject;
  readonly path: readonly PathPart[];
  readonly macros: Macros;
  readonly omissions: Omissions;
  readonly grouped: Grouped;
};

/** @returns keys that are plain texts, and whether some were patterns, which are left out */
function keysOf(
  { entry, path, macros, omissions, grouped }: Keyed,
  field: "keys" | "secondary_keys",
): { readonly keys: string[]; readonly isPattern: boolean } {
  const at = [...path, field];
  const isTavern = isTavernEntry(entry);
  const isPattern = (key: string) =>
    isTavern
      ? isTavernPattern(key)
      : entry["use_regex"] === true && (isTavernPattern(key) || /[\\^$.|?*+()[\]{}]/.test(key));
  const all = listOf(entry[field]).filter((key): key is string => typeof key === "string" && key !== "");
  const plain = all.filter((key) => !isPattern(key));
  if (plain.length < all.length && plain.length > 0)
    grouped.add(at, `pattern ${field}`, "has regular expressions, which are left out");
  if (plain.some((key) => /\{\{user\}\}|<user>/i.test(key)))
    grouped.add(at, `user ${field}`, `have {{user}}, which stands for '${defaultUser}' in keys`);
  const filled = plain.map((key) => macros.plain(key, at)).map((key) => (isTavern ? key.trim() : key));
  const fit = filled.filter((key) => key !== "" && key.length <= maxKeyLength).slice(0, maxKeys);
  if (fit.length < filled.length)
    omissions.add(
      at,
      `has keys beyond the first ${maxKeys}, or of more than ${maxKeyLength} characters, which are left out`,
    );
  return { keys: fit, isPattern: plain.length < all.length };
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
  own: Partial<Entry>;
};

function fieldsOfDecorators(
  decorators: readonly Decorator[],
  path: readonly PathPart[],
  omissions: Omissions,
): Decorated {
  const fields: Decorated = { own: {} };
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
    case "scan_depth":
      if (!/^[1-9]\d{0,2}$/.test(value)) return false;
      fields.own = { ...fields.own, scan_depth: Number(value) };
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
