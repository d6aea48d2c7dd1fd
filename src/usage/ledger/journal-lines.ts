/**
 * Ledger lines as they are noted in a mapped file: one text of JSON behind another, each with its checksum. The first line of like calls stands
 * whole; like ones name it, and have their own part. Read back, a note that was cut short or damaged ends the notes.
 */

import type { LedgerLine } from "../../store/contract/usage.ts";
import { hasSameDimensions } from "../../store/ledger/dimensions.ts";

/** Header of an area: the format of its notes, and a number that tells which area was begun later. */
const formatAt = 0;
const generationAt = 4;
const headerBytes = 8;
const format = 0x5452_0005;
/** Before each text: its checksum and its size. Behind the last one is nothing that has the right one. */
const noteBytes = 8;
/** So many unlike calls are remembered before one has to stand whole again. */
const maxKnown = 32;

/** What is a line's own, in the order in which it stands behind the place of the first one like it. A call that begins has the first four. */
const ownNames = [
  "requestId",
  "attempt",
  "at",
  "cost",
  "status",
  "firstTokenMs",
  "totalMs",
  "tokens",
  "costs",
] as const;

/** One part of the file. */
export class NoteArea {
  readonly #bytes: Buffer;
  #end = headerBytes;
  #generation = 0;
  /** Lines that stand whole, with their places. */
  #known: { readonly line: LedgerLine; readonly place: number }[] = [];

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  get isHalfFull(): boolean {
    return this.#end > this.#bytes.length / 2;
  }

  /** Forgets its notes, as no checksum of theirs is right any more. @param generation higher than that of the other area; 0: it is in use for none */
  begin(generation: number): void {
    this.#bytes.writeUInt32LE(generation, generationAt);
    this.#bytes.writeUInt32LE(format, formatAt);
    this.#generation = generation;
    this.#end = headerBytes;
    this.#known = [];
  }

  /** @returns whether there was room for it */
  note(line: LedgerLine): boolean {
    for (const known of this.#known) if (isLikeCall(known.line, line)) return this.#put(ownPart(line, known.place));
    const place = this.#end;
    if (!this.#put(JSON.stringify(line))) return false;
    if (this.#known.length === maxKnown) this.#known.shift();
    this.#known.push({ line, place });
    return true;
  }

  /** The checksum comes last, as only a whole note counts: whoever is killed before has noted nothing. */
  #put(text: string): boolean {
    const bytes = this.#bytes;
    const from = this.#end + noteBytes;
    // A character has three bytes at most.
    if (from + text.length * 3 > bytes.length) return false;
    const size = bytes.write(text, from);
    bytes.writeUInt32LE(size, from - 4);
    bytes.writeUInt32LE(Bun.hash.crc32(text, this.#generation), from - 8);
    this.#end = from + size;
    return true;
  }
}

/** @returns what is in a file's areas, the later note of a line in place of the earlier one; undefined where another version wrote it */
export function notedLines(areas: readonly Uint8Array[]): LedgerLine[] | undefined {
  const read = areas.map((area) => Buffer.from(area.buffer, area.byteOffset, area.length));
  // One that was never begun is nobody's.
  if (read.some((bytes) => ![0, format].includes(bytes.readUInt32LE(formatAt)))) return undefined;
  const found = new Map<string, LedgerLine>();
  for (const bytes of read.sort((a, b) => a.readUInt32LE(generationAt) - b.readUInt32LE(generationAt))) {
    for (const line of linesOf(bytes)) found.set(`${line.requestId} ${line.attempt}`, line);
  }
  return [...found.values()];
}

function* linesOf(bytes: Buffer): Iterable<LedgerLine> {
  const generation = bytes.readUInt32LE(generationAt);
  const firsts = new Map<number, LedgerLine>();
  if (generation === 0) return;
  for (let at = headerBytes; at + noteBytes < bytes.length; ) {
    const from = at + noteBytes;
    const text = bytes.subarray(from, from + bytes.readUInt32LE(at + 4));
    if (text.length === 0 || bytes.readUInt32LE(at) !== Bun.hash.crc32(text, generation)) return;
    const noted = JSON.parse(text.toString()) as LedgerLine | [number, ...unknown[]];
    if (Array.isArray(noted)) {
      const [place, ...own] = noted;
      yield { ...firsts.get(place)!, ...Object.fromEntries(own.map((value, index) => [ownNames[index], value])) };
    } else {
      firsts.set(at, noted);
      yield noted;
    }
    at = from + text.length;
  }
}

/** In the order of `ownNames`, written out, as it runs for every call. */
function ownPart(line: LedgerLine, place: number): string {
  const { requestId, attempt, at, cost } = line;
  if (line.ended === "interrupted") return JSON.stringify([place, requestId, attempt, at, cost]);
  const { status, firstTokenMs, totalMs, tokens, costs } = line;
  return JSON.stringify([place, requestId, attempt, at, cost, status, firstTokenMs, totalMs, tokens, costs]);
}

/** True if two lines differ in their own parts alone. */
const isLikeCall = (a: LedgerLine, b: LedgerLine) =>
  hasSameDimensions(a, b) &&
  a.callOf === b.callOf &&
  a.errorText === b.errorText &&
  a.tier === b.tier &&
  a.beside === b.beside &&
  a.variantCall === b.variantCall;
