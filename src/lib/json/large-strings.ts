/**
 * Large strings of a JSON text: images in base64, and the texts of an agent's turns. They are checked in pieces, stand as placeholders in
 * what is parsed and encoded, and are sent as the bytes that came: no text and no copy of them is made. Who looks into them restores them
 * first.
 */
import { isAscii, isUtf8 } from "node:buffer";
import { nextSlice } from "../time/cooperative-scheduling.ts";
import { bytePairsOf, contentEnd } from "./closing-quote.ts";
import type { LargeRanges } from "./large-ranges.ts";
import type { ByteRange } from "./ranges.ts";

/** Shorter strings are parsed with the rest: that costs less than a placeholder. */
export const minLargeString = 512;

export type Bytes = Uint8Array<ArrayBuffer>;
type Pieces = readonly (string | Bytes)[];

/**
 * A placeholder stands behind a string's first bytes, which show its kind. No text holds it by chance, or by guessing, and it holds nothing that
 * looks like a number with a spelling of its own. All are of one length: a marker, the string's index in letters, and the last sign.
 */
const marker = `large-string-${crypto.randomUUID().replace(/[\d-]/g, (sign) => "ghijklmnopq"["0123456789-".indexOf(sign)]!)}_`;
const markerBytes = Buffer.from(marker);
const indexDigits = 6;
const lastSign = ";";
const lastByte = lastSign.charCodeAt(0);
const placeholderSize = marker.length + indexDigits + lastSign.length;
const placeholder = new RegExp(`${marker}([a-p]{${indexDigits}})${lastSign}`, "g");
const maxVisibleBytes = 256;
/** Of a string: what is shown is parsed. */
const maxVisibleShare = 1 / 32;

/** Bytes that are checked or decoded in one turn: 1 to 5 ms. */
const maxPerTurn = 512 * 1024;

export class LargeStrings {
  readonly #parts: readonly Bytes[];
  /** Offsets at which the parts begin in the text. */
  readonly #starts: number[] = [];
  /** Bytes of the whole body. */
  readonly size: number;
  /** Where what the placeholders stand for begins and ends, by turns. */
  readonly #bounds: Float64Array;
  /** Indexes of strings that are still to be looked through. */
  #unseen: readonly number[];
  /** By index: 1 for a string that is not restored. */
  readonly #kept: Uint8Array;
  readonly #restored: string[] = [];
  /** Bytes of restored strings. */
  restoredBytes = 0;
  #perByte: number | undefined;

  /** @param strings what stands between the quotes of each, in the order of the text */
  constructor(parts: readonly Bytes[], strings: LargeRanges) {
    this.#parts = parts;
    let size = 0;
    for (const part of parts) {
      this.#starts.push(size);
      size += part.length;
    }
    this.size = size;
    this.#unseen = strings.unseen;
    this.#bounds = strings.bounds();
    for (let index = 0; index < strings.length; index += 1) this.#showBeginning(index);
    this.#kept = new Uint8Array(strings.length).fill(1);
  }

  /** Looks for what a parser would refuse in them, in turns. */
  async check(): Promise<"utf8" | "json" | undefined> {
    const [whole] = this.#parts;
    if (this.#parts.length === 1 && this.size <= maxPerTurn) return this.#checkAtOnce(whole!);
    this.#unseen = [];
    for await (const piece of this.#inTurns(this.#ranges())) {
      if (!isAscii(piece) && !isUtf8(piece)) return "utf8";
      if (!isStringContent(piece)) return "json";
    }
    return undefined;
  }

  /** @returns how many bytes a text is long, with what its placeholders stand for */
  sizeOf(text: string): number {
    let size = text.length;
    for (const [, digits] of text.matchAll(placeholder)) size += this.#sizeOf(indexOf(digits!)) - placeholderSize;
    return size;
  }

  #rangeOf(index: number): ByteRange {
    return { start: this.#bounds[2 * index]!, end: this.#bounds[2 * index + 1]! };
  }

  #sizeOf(index: number): number {
    return this.#bounds[2 * index + 1]! - this.#bounds[2 * index]!;
  }

  *#ranges(): Generator<ByteRange> {
    for (let index = 0; index < this.#kept.length; index += 1) yield this.#rangeOf(index);
  }

  /** The same as for pieces, of bytes that are there at once. */
  #checkAtOnce(bytes: Bytes): "utf8" | "json" | undefined {
    if (!isUtf8(bytes)) return "utf8";
    const unseen = this.#unseen;
    this.#unseen = [];
    const pairs = bytePairsOf(bytes);
    const isContent = (index: number) => {
      const { start, end } = this.#rangeOf(index);
      const content = bytes.subarray(start, end);
      return hasBackslash(content) ? contentEnd(bytes, start, end, pairs) === end : !hasControl(content);
    };
    return unseen.every(isContent) ? undefined : "json";
  }

  /** The text with placeholders. */
  skeleton(): Bytes {
    const count = this.#kept.length;
    let size = this.size + count * placeholderSize;
    for (let index = 0; index < count; index += 1) size -= this.#sizeOf(index);
    const text = Buffer.allocUnsafeSlow(size);
    let from = 0;
    let at = 0;
    for (let index = 0; index < count; index += 1) {
      at = this.#copy(from, this.#bounds[2 * index]!, text, at);
      text.set(markerBytes, at);
      at += markerBytes.length;
      for (let shift = 4 * (indexDigits - 1); shift >= 0; shift -= 4) text[at++] = firstDigit + ((index >> shift) & 15);
      text[at++] = lastByte;
      from = this.#bounds[2 * index + 1]!;
    }
    this.#copy(from, this.size, text, at);
    return text;
  }

  /** @returns where the copied bytes end */
  #copy(start: number, end: number, into: Buffer, first: number): number {
    let at = first;
    for (let part = this.#partAt(start), from = start; from < end; part += 1) {
      const bytes = this.#parts[part]!;
      const begin = this.#starts[part]!;
      const to = Math.min(end, begin + bytes.length);
      at += viewOf(bytes).copy(into, at, from - begin, to - begin);
      from = to;
    }
    return at;
  }

  /** @returns a text with what its placeholders stand for; nothing is restored @param maxBytes of each of them: the rest is left out */
  textOf(text: string, maxBytes = maxPerTurn): string {
    if (!text.includes(marker)) return text;
    return text.replace(placeholder, (_, digits) => {
      const index = indexOf(digits);
      const { start, end } = this.#rangeOf(index);
      return this.#restored[index] ?? this.#decoded({ start, end: Math.min(end, start + maxBytes) });
    });
  }

  /** About how many characters the placeholder stands for that a text ends with; 0 where none does. */
  charactersBehind(text: string): number {
    const index = indexAtEnd(text);
    return index < 0 ? 0 : Math.round(this.#sizeOf(index) * this.#charactersPerByte);
  }

  get #charactersPerByte(): number {
    this.#perByte ??= charactersPerByte(this.#parts);
    return this.#perByte;
  }

  /**
   * Puts strings back, in turns.
   * @param roots changed in place
   * @param passed strings that end with placeholders which stay
   */
  async restore(roots: readonly object[], passed: readonly string[] = []): Promise<void> {
    const stay = new Uint8Array(this.#kept.length);
    for (const text of passed) stay[indexAtEnd(text)] = 1;
    let done = 0;
    for (let index = 0; index < stay.length; index += 1) {
      if (stay[index] === 1 || this.#kept[index] === 0) continue;
      const range = this.#rangeOf(index);
      const size = this.#sizeOf(index);
      done += size;
      if (done > maxPerTurn) {
        await nextSlice();
        done = size;
      }
      this.#restored[index] = size <= maxPerTurn ? this.#decoded(range) : await this.#decodedInTurns(range);
      this.restoredBytes += size;
      this.#kept[index] = 0;
    }
    if (this.#restored.length === 0) return;
    const seen = new Set<object>();
    for (const root of roots) this.#restoreIn(root, seen);
  }

  /**
   * Puts the bytes in the placeholders' places.
   * @param body JSON that was made of what was parsed, of the skeleton, or of slices
   * @returns undefined where a string that is not restored does not stand in it exactly once: somebody looked into it
   */
  fill(body: string | Bytes | Pieces | undefined): Pieces | undefined {
    const missing = this.#kept.slice();
    const filled: (string | Bytes)[] = [];
    for (const piece of typeof body === "string" || body instanceof Uint8Array ? [body] : (body ?? [])) {
      const part = typeof piece === "string" ? -1 : this.#parts.findIndex((part) => holds(part, piece));
      if (part >= 0 && !this.#take(part, piece as Bytes, missing, filled)) return undefined;
      if (part >= 0) continue;
      if (typeof piece === "string" && !piece.includes(marker)) filled.push(piece);
      else if (!this.#fillPiece(typeof piece === "string" ? Buffer.from(piece) : viewOf(piece), missing, filled))
        return undefined;
    }
    return missing.includes(1) ? undefined : filled;
  }

  #fillPiece(bytes: Buffer<ArrayBuffer>, missing: Uint8Array, filled: (string | Bytes)[]): boolean {
    let from = 0;
    for (let at = bytes.indexOf(markerBytes); at >= 0; at = bytes.indexOf(markerBytes, from)) {
      const digits = at + marker.length;
      const index = indexOf(bytes.toString("latin1", digits, digits + indexDigits));
      // One that was cut, or stands there twice.
      if (bytes[digits + indexDigits] !== lastByte || (this.#kept[index] === 1 && missing[index] === 0)) return false;
      missing[index] = 0;
      filled.push(bytes.subarray(from, at), ...this.slices(this.#bounds[2 * index]!, this.#bounds[2 * index + 1]!));
      from = at + placeholderSize;
    }
    filled.push(bytes.subarray(from));
    return true;
  }

  /** Bytes as they came hold the strings that begin in them: they are cut within none. */
  #take(part: number, bytes: Bytes, missing: Uint8Array, filled: (string | Bytes)[]): boolean {
    const from = this.#starts[part]! + bytes.byteOffset - this.#parts[part]!.byteOffset;
    const to = from + bytes.length;
    filled.push(bytes);
    let low = 0;
    for (let high = missing.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (this.#bounds[2 * middle]! < from) low = middle + 1;
      else high = middle;
    }
    for (; low < missing.length && this.#bounds[2 * low]! < to; low += 1) {
      if (this.#kept[low] === 1 && missing[low] === 0) return false;
      missing[low] = 0;
    }
    return true;
  }

  #decoded({ start, end }: ByteRange): string {
    const slices = this.slices(start, end);
    const bytes = slices.length === 1 ? slices[0]! : Buffer.concat(slices);
    return decoded(bytes.subarray(0, wholeLength(bytes)));
  }

  async #decodedInTurns(range: ByteRange): Promise<string> {
    const texts: string[] = [];
    for await (const piece of this.#inTurns([range])) texts.push(decoded(piece));
    return texts.join("");
  }

  #restoreIn(value: object, seen: Set<object>): void {
    if (seen.has(value)) return;
    seen.add(value);
    const members = value as Record<string | number, unknown>;
    if (Array.isArray(value)) for (let at = 0; at < value.length; at += 1) this.#restoreMember(members, at, seen);
    else for (const key in members) this.#restoreMember(members, key, seen);
  }

  #restoreMember(members: Record<string | number, unknown>, key: string | number, seen: Set<object>): void {
    const member = members[key];
    if (typeof member === "object" && member !== null) this.#restoreIn(member, seen);
    else if (typeof member === "string" && member.length > marker.length && member.includes(marker)) {
      members[key] = member.replace(placeholder, (found, digits) => this.#restored[indexOf(digits)] ?? found);
    }
  }

  /** Takes the first bytes of a string, which are whole characters, out of its range. */
  #showBeginning(index: number): void {
    const start = this.#bounds[2 * index]!;
    const visible = Math.min(maxVisibleBytes, Math.ceil(this.#sizeOf(index) * maxVisibleShare));
    const [first = new Uint8Array()] = this.slices(start, start + visible);
    this.#bounds[2 * index] = start + wholeLength(first);
  }

  /** Pieces that end with a character or an escape. */
  async *#inTurns(ranges: Iterable<ByteRange>): AsyncGenerator<Bytes> {
    let done = 0;
    for (const { start, end } of ranges) {
      let rest: Bytes = new Uint8Array();
      for (const slice of this.slices(start, end)) {
        done += slice.length;
        if (done > maxPerTurn) {
          done = 0;
          await nextSlice();
        }
        const bytes = rest.length === 0 ? slice : Buffer.concat([rest, slice]);
        const length = wholeLength(bytes);
        yield bytes.subarray(0, length);
        rest = bytes.subarray(length);
      }
      if (rest.length > 0) yield rest;
    }
  }

  /** The bytes as they came, from one offset to another. */
  slices(start: number, end: number): Bytes[] {
    const slices: Bytes[] = [];
    for (let part = this.#partAt(start), at = start; at < end; part += 1) {
      const from = this.#starts[part]!;
      const slice = this.#parts[part]!.subarray(at - from, end - from);
      slices.push(slice);
      at += slice.length;
    }
    return slices;
  }

  #partAt(offset: number): number {
    let low = 0;
    let high = this.#starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#starts[middle]! <= offset) low = middle;
      else high = middle;
    }
    return low;
  }
}

/** An index is spelled by the letters from `a` to `p`. */
const firstDigit = 0x61;

function indexOf(digits: string): number {
  let index = 0;
  for (let at = 0; at < digits.length; at += 1) index = 16 * index + digits.charCodeAt(at) - firstDigit;
  return index;
}

/** @returns the part of a text before its placeholder; all of it where it has none */
export function withoutPlaceholder(text: string): string {
  const at = placeholderAt(text);
  return at < 0 ? text : text.slice(0, at);
}

/** @returns where the placeholder begins that a text ends with; -1: none */
function placeholderAt(text: string): number {
  const at = text.length - placeholderSize;
  return at >= 0 && text.charCodeAt(text.length - 1) === lastByte && text.startsWith(marker, at) ? at : -1;
}

/** @returns the index of the placeholder that a string ends with; -1: none */
function indexAtEnd(text: string): number {
  const at = placeholderAt(text);
  return at < 0 ? -1 : indexOf(text.slice(at + marker.length, -1));
}

/** Bytes that are looked at for an estimate. */
const maxSampled = 1024;

/** About how many characters a byte of UTF-8 stands for. */
export function charactersPerByte(parts: readonly Bytes[]): number {
  let bytes = 0;
  let characters = 0;
  for (const part of parts) {
    const step = Math.ceil((part.length * parts.length) / maxSampled);
    for (let at = 0; at < part.length; at += step) {
      bytes += 1;
      if ((part[at]! & 0xc0) !== 0x80) characters += 1;
    }
  }
  return characters / bytes;
}

const backslash = 0x5c;
const letterU = 0x75;
/** The longest escape, `\u0000`, without its last character. */
const maxEscapeBegun = 5;

/** @returns how many of the bytes end with a whole character that no escape goes on behind; all where nothing is whole */
function wholeLength(bytes: Uint8Array): number {
  const { length } = bytes;
  for (let at = length - 1; at >= Math.max(0, length - maxEscapeBegun); at -= 1) {
    const byte = bytes[at]!;
    if (byte === backslash) {
      let first = at;
      while (first > 0 && bytes[first - 1] === backslash) first -= 1;
      const isEscape = (at - first) % 2 === 0;
      const size = bytes[at + 1] === letterU ? 6 : 2;
      return isEscape && at + size > length ? at : length;
    }
    if (byte < 0x80 || (byte & 0xc0) === 0x80) continue;
    const size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    if (at + size > length) return at;
  }
  return length;
}

/** True if one is a view of the other. */
const holds = (whole: Bytes, { buffer, byteOffset, length }: Bytes) =>
  buffer === whole.buffer && byteOffset >= whole.byteOffset && byteOffset + length <= whole.byteOffset + whole.length;

/** True if it holds no control character, and escapes of JSON alone. */
function isStringContent(bytes: Bytes): boolean {
  return hasBackslash(bytes)
    ? contentEnd(bytes, 0, bytes.length, bytePairsOf(bytes)) === bytes.length
    : !hasControl(bytes);
}

const hasBackslash = (bytes: Bytes) => viewOf(bytes).includes(backslash);

const viewOf = ({ buffer, byteOffset, length }: Bytes) => Buffer.from(buffer, byteOffset, length);

/**
 * Looks at four bytes at once, which takes a third of the time: a byte below 0x20 sets its highest bit as 0x20 is taken from it.
 * Source: https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord
 */
function hasControl(bytes: Bytes): boolean {
  const { byteOffset, length } = bytes;
  const lead = (4 - (byteOffset % 4)) % 4;
  if (length < 4 + lead) return bytes.some(isControl);
  const words = new Int32Array(bytes.buffer, byteOffset + lead, (length - lead) >> 2);
  let found = 0;
  // An iterator takes thirty times as long.
  for (let at = 0; at < words.length; at += 1) found |= (words[at]! - 0x20202020) & ~words[at]!;
  if ((found & 0x80808080) !== 0) return true;
  const tail = lead + 4 * words.length;
  return bytes.subarray(0, lead).some(isControl) || bytes.subarray(tail).some(isControl);
}

const isControl = (byte: number) => byte < 0x20;

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** Decodes content that was checked. */
function decoded(piece: Bytes): string {
  const bytes = viewOf(piece);
  const text = isAscii(bytes) ? bytes.toString("latin1") : utf8.decode(bytes);
  return bytes.includes(backslash) ? (JSON.parse(`"${text}"`) as string) : text;
}
