/**
 * Reads YAML by Bun's own parser, ten times as fast as by the `yaml` package, where it provably reads the same. Bun's parser
 * lets repeated keys, tags and several documents pass and names no places, so a text that may hold any of them, or a mistake,
 * is left to the package. It is also left to it in doubt: that costs time, never a wrong value.
 * Source: https://bun.com/docs/api/yaml
 */
import { isObject } from "../json/json.ts";

/** @returns the value, in an object of its own, null where nothing but comments is written; undefined: the text has to be read strictly, which says nothing about it */
export function readUnambiguousYaml(text: string): { readonly value: unknown } | undefined {
  if (unusualCharacters.test(text)) return undefined;
  const structure = text.replace(textBlocks, cutOut).replace(listedTextBlocks, cutOut).replace(commentLines, "");
  if (structure.trim() === "") return { value: null };
  if (unusualForms.test(structure) || !withoutBrackets(structure).split("\n").every(isPlainLine)) return undefined;
  try {
    const value: unknown = Bun.YAML.parse(text);
    // Each key that was written has its colon, so a key that was written twice leaves a colon over.
    return isObject(value) && countKeys(value) === (structure.match(colons)?.length ?? 0) ? { value } : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError || error === doubtful) return undefined;
    throw error;
  }
}

/** Tabs, carriage returns, other control characters and line breaks, and a mark of the byte order. */
const unusualCharacters = /[^\n\x20-\x7e\xa0-\u2027\u202a-\ufefe\uff00-\uffff]/;
/** Lines indented below `key: |` and its like, in a mapping and at a list's dash: text, whatever it looks like. */
const textBlocks = /^(( *)[A-Za-z_][\w./-]*: )[|>]-?\n(?:(?:\2 .*| *)(?:\n|$))*/gm;
const listedTextBlocks = /^(( *)- [A-Za-z_][\w./-]*: )[|>]-?\n(?:(?:\2 {3}.*| *)(?:\n|$))*/gm;
const cutOut = "$1text\n";
const commentLines = /^ *#.*$/gm;
/** The ends of keys, and all that may be one. */
const colons = /:(?=[\s,[\]{}]|$)|["']:/g;
/** Tags, anchors, aliases, explicit keys, reserved signs, text blocks that were not cut out, hexadecimal and octal numbers, and marks of documents. */
const unusualForms = /(?:^|[\s[\]{},:-])[!&*?%@`|>]|0[xo]|^(?:---|\.\.\.)/m;

/** On one line, as Bun's parser checks no indentation within brackets, and with a colon for each key, as `{a}` has a key without. */
const flowLists = /\[[^[\]{}\n]*\]/g;
const flowMappings = /\{ *\}|\{ *[\w-]+: [^{}[\],\n]*(?:, *[\w-]+: [^{}[\],\n]*)*\}/g;
const maxNesting = 8;

/** Cuts lists and mappings in brackets out, the innermost first. @returns a text with brackets where one has another form */
function withoutBrackets(structure: string): string {
  let text = structure;
  for (let level = 0; level < maxNesting; level += 1) {
    const next = text.replace(flowLists, "text").replace(flowMappings, "text");
    if (next === text) break;
    text = next;
  }
  return text;
}

/** Text without quotes: no sign at its beginning, and neither `: ` nor ` #` in it. */
const plainText = String.raw`(?:[^\s"'#&*!|>%@\x60,[\]{}?:-]|-(?=\S))(?:[^\s:#[\]{}]|:(?=\S)|#| +(?=[^\s#]))*`;
const value = `(?:"[^"\\\\]*"|'[^']*'|${plainText})`;
const plainLine = new RegExp(`^ *(?:(?:- +)*[A-Za-z_][\\w./-]*:(?: +${value})?|(?:- +)+${value})?(?: +#.*)? *$`);
/** A key, a list item, or both, on a line of its own: what goes on from line to line is left to the strict reading. */
const isPlainLine = (line: string) => plainLine.test(line);

const doubtful = new Error("This may be read otherwise.");
/** Keys that can only be text: no number, and none of the words that mean something. */
const plainKey = /^(?!(?:true|false|null)$)[A-Za-z_][\w./-]*$/i;

/** @throws doubtful for a value that the `yaml` package refuses or reads otherwise */
function countKeys(value: unknown): number {
  if (typeof value === "number" && !isPlainNumber(value)) throw doubtful;
  if (typeof value !== "object" || value === null) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, one) => sum + countKeys(one), 0);
  return Object.entries(value).reduce((sum, [key, one]) => {
    if (!plainKey.test(key) || key === "__proto__") throw doubtful;
    return sum + 1 + countKeys(one);
  }, 0);
}

const isPlainNumber = (value: number) =>
  Number.isFinite(value) && (Number.isSafeInteger(value) || !Number.isInteger(value));
