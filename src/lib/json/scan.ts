/**
 * Bounds on JSON, held against its bytes before a parser sees them. A parser builds whatever it is given: 20 MB of `[` hold it up
 * for seconds and leave gigabytes, a million keys half a second. Counting them takes one pass, 0.1 to 2.5 ns a byte.
 */

import { bytePairsOf, closingQuote, contentEnd, contentSigns } from "./closing-quote.ts";
import { LargeRanges } from "./large-ranges.ts";

export type JsonLimits = {
  /** Maximum nesting of arrays and objects. */
  readonly jsonDepth: number;
  /** Values of all kinds, those inside others too. */
  readonly jsonValues: number;
  /** Keys of all objects together. */
  readonly jsonKeys: number;
  /** Bytes of one string or key, as it is spelled. */
  readonly jsonStringBytes: number;
};

/** For who only looks at a text's structure. */
export const noLimits: JsonLimits = {
  jsonDepth: Number.POSITIVE_INFINITY,
  jsonValues: Number.POSITIVE_INFINITY,
  jsonKeys: Number.POSITIVE_INFINITY,
  jsonStringBytes: Number.POSITIVE_INFINITY,
};

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

const minus = 0x2d;
const [zero, nine] = [0x30, 0x39];

/** Of numbers: 1 marks digits, 2 what else stands in them. */
const numberSigns = new Uint8Array(256);
for (const sign of "+-.eE") numberSigns[sign.charCodeAt(0)] = 2;
numberSigns.fill(1, zero, nine + 1);

/** Integers of so many digits are written as they stood. */
const maxDigits = 15;

/** Of a text whose large strings nobody asks for. */
const none = new LargeRanges();

/** Strings whose large ones are noted are looked through byte by byte for so long; behind that the platform looks for their end. */
const maxLookedThrough = 64 * 1024;

/** Bodies have fewer members. */
const maxNoted = 64;

/** Names and most values are no longer: their end is looked for at once. */
const maxShort = 24;

/**
 * Takes a JSON text in pieces, cut anywhere. The counts are exact for JSON. For what is no JSON they bound the work; what is
 * wrong with it is the parser's to report.
 */
export class JsonScan {
  readonly #limits: JsonLimits;
  #depth = 0;
  /** The outermost one has neither a comma nor a bracket before it. */
  #values = 1;
  /** Members of all objects so far; of one name in one object each counts. Set by the scan alone. */
  keys = 0;
  /** Members of the outermost object. Set by the scan alone. */
  outerKeys = 0;
  /** Where the colons of the first of them stand, where that is noted. */
  readonly outerColons: number[] | undefined;
  /** True if the last token opened an array or object, which holds no value if it is closed now. */
  #hasOpened = false;
  #isInString = false;
  /** Bytes of the string that is being read, or was last. */
  #stringBytes = 0;
  /** True if the string's next byte is escaped. */
  #isEscaped = false;

  /** Offset of the piece at hand in the text. */
  #offset = 0;
  readonly #minLargeBytes: number;
  /** The ranges between the quotes of large strings that are values. */
  readonly largeStrings: LargeRanges;
  #isLastLarge = false;
  /** False only where `JSON.stringify` writes each number as it stood. */
  hasOddNumbers = false;

  /** The piece at hand by two bytes, where large strings are noted. */
  #pairs: Uint16Array | undefined;

  /** @param minLargeBytes strings from this length on are noted in `largeStrings` @param notesColons of outer members, in any case where strings are noted */
  constructor(limits: JsonLimits, minLargeBytes = Number.POSITIVE_INFINITY, notesColons = false) {
    this.#limits = limits;
    if (notesColons || minLargeBytes !== Number.POSITIVE_INFINITY) this.outerColons = [];
    this.#minLargeBytes = minLargeBytes;
    this.largeStrings = minLargeBytes === Number.POSITIVE_INFINITY ? none : new LargeRanges();
  }

  /** True if all that was opened is closed. */
  get isClosed(): boolean {
    return this.#depth === 0 && !this.#isInString;
  }

  /** @returns the limit that the text went beyond with this piece; undefined: none. Nothing may follow on a limit. */
  push(bytes: Uint8Array): keyof JsonLimits | undefined {
    const { jsonDepth, jsonValues, jsonKeys, jsonStringBytes } = this.#limits;
    const { length } = bytes;
    if (length === 0) return undefined;
    if (this.largeStrings !== none) this.#pairs = bytePairsOf(bytes);
    const maxNear = Math.min(maxShort, jsonStringBytes, this.#minLargeBytes);
    let depth = this.#depth;
    let values = this.#values;
    let keys = this.keys;
    let hasOpened = this.#hasOpened;
    let at = this.#isInString ? this.#skipString(bytes, 0) : 0;
    if (this.#stringBytes > jsonStringBytes) return "jsonStringBytes";
    while (at < length) {
      const byte = bytes[at]!;
      at += 1;
      if (byte <= 0x20) continue;
      if (byte === quote) {
        hasOpened = false;
        let end = at;
        const near = Math.min(at + maxNear, length);
        while (end < near && contentSigns[bytes[end]!] === 0) end += 1;
        if (end < near && bytes[end] === quote) {
          this.#isLastLarge = false;
          at = end + 1;
          continue;
        }
        this.#isInString = true;
        this.#stringBytes = 0;
        at = this.#skipString(bytes, at);
        if (this.#stringBytes > jsonStringBytes) return "jsonStringBytes";
      } else if (byte === comma) {
        values += 1;
        if (values > jsonValues) return "jsonValues";
      } else if (byte === colon) {
        keys += 1;
        if (keys > jsonKeys) return "jsonKeys";
        if (depth === 1) {
          this.outerKeys += 1;
          if (this.outerKeys <= maxNoted) this.outerColons?.push(this.#offset + at - 1);
        }
        if (this.#isLastLarge) this.#forgetKey();
      } else if (byte === openBracket || byte === openBrace) {
        depth += 1;
        if (depth > jsonDepth) return "jsonDepth";
        values += 1;
        hasOpened = true;
      } else if (byte === closeBracket || byte === closeBrace) {
        depth -= 1;
        if (hasOpened) values -= 1;
        if (values > jsonValues) return "jsonValues";
        hasOpened = false;
      } else {
        hasOpened = false;
        if (this.hasOddNumbers || byte < minus || byte > nine) continue;
        const start = at - 1;
        let signs = numberSigns[byte]!;
        for (; at < length && numberSigns[bytes[at]!] !== 0; at += 1) signs |= numberSigns[bytes[at]!]!;
        // One that is cut here goes on in the next piece.
        this.hasOddNumbers =
          at === length || at - start > maxDigits || (signs !== 1 && isOdd(bytes.subarray(start, at)));
      }
    }
    this.#depth = depth;
    this.#values = values;
    this.keys = keys;
    this.#hasOpened = hasOpened;
    this.#offset += length;
    return undefined;
  }

  /** The last string was a key. */
  #forgetKey(): void {
    this.largeStrings.pop();
    this.#isLastLarge = false;
  }

  /** @returns where the text goes on behind the string, or the end of the bytes */
  #skipString(bytes: Uint8Array, start: number): number {
    const { length } = bytes;
    const isBegun = this.#stringBytes > 0 || this.#minLargeBytes === Number.POSITIVE_INFINITY;
    const seen = isBegun ? start : contentEnd(bytes, start, Math.min(length, start + maxLookedThrough), this.#pairs);
    const isContent = !isBegun && bytes[seen] === quote;
    const at = isContent ? seen : closingQuote(bytes, this.#isEscaped ? start + 1 : seen);
    this.#stringBytes += Math.min(at, length) - start;
    this.#isEscaped = at > length;
    if (at >= length) return length;
    this.#isInString = false;
    this.#isLastLarge = this.#stringBytes >= this.#minLargeBytes;
    const end = this.#offset + at;
    if (this.#isLastLarge) this.largeStrings.push(end - this.#stringBytes, end, isContent);
    return at + 1;
  }
}

/** @returns false only where `JSON.stringify` writes each number of a JSON text as it stands: what strings hold is none */
export function hasOddNumbers(text: string): boolean {
  const scan = new JsonScan(noLimits);
  scan.push(Buffer.from(text));
  return scan.hasOddNumbers;
}

/** Checks whether a number is written otherwise than it stands. */
function isOdd(digits: Uint8Array): boolean {
  const text = String.fromCharCode(...digits);
  return String(Number(text)) !== text;
}
