/**
 * Finds the parts of a JSON text, in bytes. For texts that a parser has read already: what is no JSON gives ranges that
 * mean nothing, or none, and never throws.
 */
import { closingQuote } from "./closing-quote.ts";

/** A value or a member of an object; `end` is behind it. */
export type ByteRange = { readonly start: number; readonly end: number };
/** A member begins with its key, the value behind it at `value`. */
export type MemberRange = ByteRange & { readonly value: number };

const quote = 34;
const comma = 44;
const colon = 58;
const openBracket = 91;
const closeBracket = 93;
const openBrace = 123;
const closeBrace = 125;

/** @returns the value's range; undefined where the text ends before it does */
export function valueAt(bytes: Buffer, from: number): ByteRange | undefined {
  const start = skipSpace(bytes, from);
  const end = valueEnd(bytes, start);
  return end < 0 ? undefined : { start, end };
}

/** @param visit takes each element's range, in their order; nothing where no array begins at `start` */
export function elementsAt(bytes: Buffer, start: number, visit: (range: ByteRange) => void): void {
  if (bytes[start] !== openBracket) return;
  let at = skipSpace(bytes, start + 1);
  while (at < bytes.length && bytes[at] !== closeBracket) {
    const end = valueEnd(bytes, at);
    if (end < 0) return;
    visit({ start: at, end });
    at = nextAfter(bytes, end);
  }
}

/**
 * @param visit takes each member's name and range, in the order of the text (of members of one name, the last one counts);
 *   nothing where no object begins at `start`
 */
export function membersAt(bytes: Buffer, start: number, visit: (name: string, range: MemberRange) => void): void {
  if (bytes[start] !== openBrace) return;
  let at = skipSpace(bytes, start + 1);
  while (bytes[at] === quote) {
    const keyEnd = stringEnd(bytes, at);
    if (keyEnd < 0) return;
    const value = skipSpace(bytes, skipSpace(bytes, keyEnd) + 1);
    const end = valueEnd(bytes, value);
    if (end < 0) return;
    const name = stringAt(bytes, at, keyEnd);
    if (name === undefined) return;
    visit(name, { start: at, value, end });
    at = nextAfter(bytes, end);
  }
}

/** True if there is only a comma between, and white space. */
export function isSeparator(bytes: Buffer, from: number, to: number): boolean {
  const at = skipSpace(bytes, from);
  return bytes[at] === comma && skipSpace(bytes, at + 1) === to;
}

function stringAt(bytes: Buffer, start: number, end: number): string | undefined {
  const text = bytes.toString("utf8", start + 1, end - 1);
  if (!text.includes("\\")) return text;
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return undefined;
  }
}

/** The next member or element, or the closing brace. */
function nextAfter(bytes: Buffer, end: number): number {
  const at = skipSpace(bytes, end);
  return bytes[at] === comma ? skipSpace(bytes, at + 1) : at;
}

function skipSpace(bytes: Buffer, from: number): number {
  let at = from;
  while (isSpace(bytes[at])) at += 1;
  return at;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 32 || byte === 10 || byte === 13 || byte === 9;
}

function isOpening(byte: number): boolean {
  return byte === openBrace || byte === openBracket;
}

function isClosing(byte: number): boolean {
  return byte === closeBrace || byte === closeBracket;
}

/** @returns -1 where the text ends first */
function valueEnd(bytes: Buffer, start: number): number {
  const first = bytes[start];
  if (first === undefined) return -1;
  if (first === quote) return stringEnd(bytes, start);
  return isOpening(first) ? containerEnd(bytes, start) : scalarEnd(bytes, start);
}

function containerEnd(bytes: Buffer, start: number): number {
  let depth = 0;
  for (let at = start; at < bytes.length; at += 1) {
    const byte = bytes[at]!;
    if (byte === quote) {
      at = stringEnd(bytes, at) - 1;
      if (at < 0) return -1;
    } else if (isOpening(byte)) depth += 1;
    else if (isClosing(byte)) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return -1;
}

function scalarEnd(bytes: Buffer, start: number): number {
  let at = start;
  for (let byte = bytes[at]; byte !== undefined; byte = bytes[++at]) {
    if (byte === comma || byte === colon || isClosing(byte) || isSpace(byte)) break;
  }
  return at === start ? -1 : at;
}

/** @returns -1 where the text ends first */
function stringEnd(bytes: Buffer, start: number): number {
  const end = closingQuote(bytes, start + 1);
  return end < bytes.length ? end + 1 : -1;
}
