/**
 * Matches the plain text events of a stream against a byte template, as most upstreams write the same bytes around each text.
 * A comparison costs a fraction of parsing the JSON.
 *
 * It may only decline: nothing here throws, and uncertain events are left to the parser.
 */
import { isUtf8 } from "node:buffer";
import { elementsAt, membersAt, type Span, valueAt } from "../../lib/json/spans.ts";
import { SseParser } from "../../lib/sse.ts";
import type { TextPlace } from "../../providers/provider.ts";
import { endOfNumber, Totals } from "./totals.ts";

type Part = { readonly start: number; readonly end: number; readonly length: number };

const quote = 34;
const backslash = 92;
const space = 32;
/** What may follow a backslash in what `JSON.stringify` writes, but for code points. */
const shortEscapes: ReadonlySet<number> = new Set([...'"\\bfnrt'].map((letter) => letter.charCodeAt(0)));
const blankLines = ["\n\n", "\r\n\r\n"].map((line) => Buffer.from(line));

export class TextTemplate {
  /** The parts, concatenated: a buffer for each would cost more memory than they hold. */
  readonly #parts: Buffer;
  /** Up to the text, or to the number where there is one. */
  readonly #before: Part;
  /** From the number's end to the text; undefined where there is no number. */
  readonly #toText: Part | undefined;
  /** The number of the next event. */
  #next = 0;
  /** From the text's end to what may differ behind it, or to the end of all. */
  readonly #between: Part;
  /** Behind that; undefined where there is nothing of the kind. */
  readonly #after: Part | undefined;
  /** From a text's end to the next event's text, where one event follows the other; undefined where they differ in more. */
  readonly #toNext: Part | undefined;
  readonly #gap: Gap;

  private constructor(
    before: Buffer,
    toText: Buffer | undefined,
    between: Buffer,
    after: Buffer | undefined,
    gap: Gap,
  ) {
    this.#gap = gap;
    const parts: Buffer[] = [];
    let start = 0;
    const add = (part: Buffer): Part => {
      parts.push(part);
      const added = { start, end: start + part.length, length: part.length };
      start = added.end;
      return added;
    };
    this.#before = add(before);
    this.#toText = toText && add(toText);
    this.#between = add(between);
    this.#after = after && add(after);
    if (toText === undefined && after === undefined) {
      const { start, length } = this.#between;
      const end = add(before).end;
      this.#toNext = { start, end, length: length + before.length };
    }
    this.#parts = Buffer.concat(parts);
  }

  /**
   * The places are found by the structure of the JSON, not by what stands there: any text may stand elsewhere too.
   * @returns undefined when it is not certain where they stand
   */
  static learn({ bytes: event, data }: RawEvent, place: TextPlace): TextTemplate | undefined {
    const { path, padding, counter, totals } = place;
    const json = isOneEvent(event) ? valueAt(event, data) : undefined;
    const text = spanAt(event, json, path);
    if (text === undefined) return undefined;
    const number = counter === undefined ? undefined : membersOf(event, json)?.get(counter);
    if (counter !== undefined && (number === undefined || number.end > text.start)) return undefined;
    const pad = padding === undefined ? undefined : membersOf(event, json)?.get(padding);
    const isPadded = pad !== undefined && event[pad.start] === quote;
    if (isPadded && pad.start < text.end) return undefined;
    const sums =
      isPadded || totals === undefined ? undefined : totalsAt(event, membersOf(event, json)?.get(totals), text);
    const spaces = !isPadded && sums === undefined && event[json!.end] === space ? json!.end : undefined;
    const gapStart = isPadded ? pad.start + 1 : (sums?.start ?? spaces);
    const gapEnd = isPadded ? pad.end - 1 : (sums?.end ?? endOfSpaces(event, spaces));
    const template = new TextTemplate(
      event.subarray(0, number?.start ?? text.start),
      number && event.subarray(number.end, text.start),
      event.subarray(text.end, gapStart),
      gapEnd === undefined ? undefined : event.subarray(gapEnd),
      sums?.totals ?? (spaces === undefined ? "text" : "spaces"),
    );
    return template.fits(event) ? template : undefined;
  }

  /** Whether that is one event that differs in nothing but its text, and its number: those of the next ones go on from there. */
  fits(event: Buffer): boolean {
    if (this.#toText !== undefined) {
      const number = numberAt(event, this.#before.length);
      if (number === undefined) return false;
      this.#next = number;
    }
    return this.find(event, []) === event.length;
  }

  /**
   * Looks for whole events with some text each, written as `JSON.stringify` writes it, and the next number, up to the first that is
   * none of these.
   * @param piece begins with an event
   * @param places takes where the texts begin and end, in turns
   * @returns where the last event ends
   */
  find(piece: Buffer, places: number[]): number {
    let found = 0;
    let isAscii = true;
    let start = this.#startOfText(piece, found);
    for (;;) {
      if (start < 0 || piece[start] !== quote) break;
      let end = start + 1;
      let byte = piece[end];
      for (; byte !== undefined && byte !== quote && byte >= 32; byte = piece[++end]) {
        if (byte === backslash && !shortEscapes.has(piece[++end]!)) break;
        if (byte > 127) isAscii = false;
      }
      if (byte !== quote || end === start + 1) break;
      end += 1;
      // Where another event follows, one comparison does for both.
      if (this.#toNext !== undefined && this.#holds(piece, end, this.#toNext)) {
        places.push(start, end);
        found = end + this.#between.length;
        start = end + this.#toNext.length;
        continue;
      }
      const next = this.#endOfEvent(piece, end);
      if (next < 0) break;
      places.push(start, end);
      found = next;
      this.#next += 1;
      start = this.#startOfText(piece, found);
    }
    return isAscii || isUtf8(piece.subarray(0, found)) ? found : 0;
  }

  /** @returns -1 where it begins in another way */
  #startOfText(piece: Buffer, from: number): number {
    if (!this.#holds(piece, from, this.#before)) return -1;
    let at = from + this.#before.length;
    if (this.#toText === undefined) return at;
    const digits = String(this.#next);
    for (let digit = 0; digit < digits.length; digit += 1, at += 1) {
      if (piece[at] !== digits.charCodeAt(digit)) return -1;
    }
    return this.#holds(piece, at, this.#toText) ? at + this.#toText.length : -1;
  }

  /** @returns -1 where it goes on in another way */
  #endOfEvent(piece: Buffer, from: number): number {
    if (!this.#holds(piece, from, this.#between)) return -1;
    let at = from + this.#between.length;
    if (this.#after === undefined) return at;
    at = this.#endOfGap(piece, at);
    return at >= 0 && this.#holds(piece, at, this.#after) ? at + this.#after.length : -1;
  }

  /** @returns -1 where it is something else */
  #endOfGap(piece: Buffer, from: number): number {
    let at = from;
    if (this.#gap === "spaces") {
      while (piece[at] === space) at += 1;
      return at;
    }
    if (this.#gap !== "text") return this.#gap.endIn(piece, at);
    for (let byte = piece[at]; byte !== quote; byte = piece[++at]) {
      if (byte === undefined || byte === backslash || byte < 32) return -1;
    }
    return at;
  }

  #holds(piece: Buffer, at: number, { start, end, length }: Part): boolean {
    return at + length <= piece.length && this.#parts.compare(piece, at, at + length, start, end) === 0;
  }
}

/** What may differ behind the text: a string's text, spaces behind the JSON, or the numbers of an object. */
type Gap = "text" | "spaces" | Totals;

/** @returns undefined where they stand before the text, or can't be learnt */
function totalsAt(bytes: Buffer, span: Span | undefined, text: Span): (Span & { readonly totals: Totals }) | undefined {
  if (span === undefined || span.start < text.end) return undefined;
  const totals = Totals.learn(bytes.subarray(span.start, span.end));
  return totals && { ...span, totals };
}

/** @returns undefined where no whole number of at most 15 digits begins */
function numberAt(bytes: Buffer, at: number): number | undefined {
  const end = endOfNumber(bytes, at);
  return end < 0 ? undefined : Number(bytes.toString("latin1", at, end));
}

function endOfSpaces(bytes: Buffer, from: number | undefined): number | undefined {
  let end = from;
  while (end !== undefined && bytes[end] === space) end += 1;
  return end;
}

/** The bytes of an event, with the blank line behind it, and where its data begins in them. */
export type RawEvent = { readonly bytes: Buffer; readonly data: number };

/**
 * @param piece what was parsed
 * @param beginsEvent whether it did so from between two events on
 * @param data of the last event that came of it
 * @returns undefined where the data does not stand in one line, or it is not certain where its event begins
 */
export function lastEventIn(piece: Buffer, beginsEvent: boolean, data: string): RawEvent | undefined {
  const at = piece.lastIndexOf(data);
  const end = at + Buffer.byteLength(data);
  const blank = at < 0 ? undefined : blankLines.find((line) => line.equals(piece.subarray(end, end + line.length)));
  if (blank === undefined) return undefined;
  const before = piece.lastIndexOf(blank, at);
  if (before < 0 && !beginsEvent) return undefined;
  const start = before < 0 ? 0 : before + blank.length;
  return { bytes: piece.subarray(start, end + blank.length), data: at - start };
}

/** A byte-order mark means something at a stream's beginning alone. */
function isOneEvent(bytes: Buffer): boolean {
  const parser = new SseParser();
  return bytes[0]! < 128 && parser.push(bytes).length === 1 && parser.isBetweenEvents;
}

type Members = ReadonlyMap<string, Span>;

/** @param path a number in it stands for the only element of an array */
function spanAt(bytes: Buffer, root: Span | undefined, path: TextPlace["path"]): Span | undefined {
  let span = root;
  for (const step of path) {
    span = typeof step === "string" ? membersOf(bytes, span)?.get(step) : onlyElement(bytes, span);
  }
  return span;
}

/** The values' spans by name; undefined where there is no object, or two members have one name. */
function membersOf(bytes: Buffer, object: Span | undefined): Members | undefined {
  if (object === undefined) return undefined;
  const members = new Map<string, Span>();
  let count = 0;
  membersAt(bytes, object.start, (name, { value, end }) => {
    members.set(name, { start: value, end });
    count += 1;
  });
  return members.size === count ? members : undefined;
}

/** The span of the only element; undefined where that is no array of one. */
function onlyElement(bytes: Buffer, array: Span | undefined): Span | undefined {
  const elements: Span[] = [];
  if (array !== undefined) elementsAt(bytes, array.start, (element) => elements.push(element));
  return elements.length === 1 ? elements[0] : undefined;
}
