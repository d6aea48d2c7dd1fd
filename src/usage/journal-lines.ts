/**
 * Ledger lines as they are noted in a mapped file, a short one as a call begins and a whole one when it is over: what like calls share as
 * JSON, once, and a line's own part as numbers, so that a note costs a quarter of a microsecond. Read back, a note that was cut short or
 * damaged ends the notes.
 */
import { isAlike } from "../store/ledger-kinds.ts";
import { costKinds, type LedgerLine, tokenKinds } from "../store/usage.ts";
import { noTokens } from "./counts.ts";

/** Header of an area: the format of its notes, a number that tells which area was begun later, and the end of the notes, in words. */
const formatAt = 0;
const generationAt = 1;
const endAt = 2;
const headerWords = 4;
/** Header of a note: its size in words, its checksum, and its kind. */
const sizeAt = 0;
const sumAt = 1;
/** The length of a line's id; 0: what the lines behind it share. */
const kindAt = 2;
const noteWords = 4;

const numberCount = 6 + tokenKinds.length + 1 + costKinds.length;
/** Ids are ours, and have 36 characters. */
const maxId = 40;
const lineWords = noteWords + 2 * numberCount + maxId / 4;
/** Size of the note of a call that begins: its kind, its attempt, its time and whether it is known to cost nothing. */
const begunWords = noteWords + 2 * 4 + maxId / 4;
/** Another version's notes may have other numbers. */
const format = Bun.hash.crc32(["4", ...tokenKinds, ...costKinds].join(" "));
/** So many kinds of calls are distinguished before one has to be noted again. */
const maxKinds = 32;

type Shared = Omit<
  LedgerLine,
  "requestId" | "attempt" | "at" | "status" | "tokens" | "cost" | "costs" | "firstTokenMs" | "totalMs"
>;

/** The bytes of an area, also as words and as numbers. They are a multiple of 8, and begin at one. */
class Area {
  protected readonly words: Uint32Array;
  protected readonly numbers: Float64Array;
  protected readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
    this.numbers = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8);
  }
}

/** One part of the file, for the notes between two writes of the ledger. */
export class NoteArea extends Area {
  #end = headerWords;
  /** Lines whose shared part is noted, with its place among the notes. */
  #kinds: { readonly line: LedgerLine; readonly place: number }[] = [];

  get isEmpty(): boolean {
    return this.#end === headerWords;
  }

  /** Forgets its notes. @param generation higher than that of the other area */
  begin(generation: number): void {
    this.words[endAt] = headerWords;
    this.words[generationAt] = generation;
    this.words[formatAt] = format;
    this.#end = headerWords;
    this.#kinds = [];
  }

  /** @returns whether there was room for it */
  note(line: LedgerLine): boolean {
    for (const known of this.#kinds) if (isSameKind(known.line, line)) return this.#noteLine(line, known.place);
    const kind = { line, place: this.#end };
    if (!this.#noteShared(line)) return false;
    if (this.#kinds.length === maxKinds) this.#kinds.shift();
    this.#kinds.push(kind);
    return this.#noteLine(line, kind.place);
  }

  #noteShared(line: LedgerLine): boolean {
    const { requestId, attempt, at, status, tokens, cost, costs, firstTokenMs, totalMs, ...shared } = line;
    const text = new TextEncoder().encode(JSON.stringify(shared satisfies Shared));
    const size = noteWords + 2 * Math.ceil(text.length / 8);
    if (this.#end + size > this.words.length) return false;
    const from = (this.#end + noteWords) * 4;
    this.bytes.fill(0x20, from, (this.#end + size) * 4);
    this.bytes.set(text, from);
    this.#seal(size, 0);
    return true;
  }

  /** Written out, as it runs for every call. */
  #noteLine(line: LedgerLine, kind: number): boolean {
    const { requestId } = line;
    const { length } = requestId;
    const isBegun = line.ended === "interrupted";
    const size = isBegun ? begunWords : lineWords;
    if (this.#end + size > this.words.length || length === 0 || length > maxId) return false;
    const numbers = this.numbers;
    let at = (this.#end + noteWords) / 2;
    numbers[at++] = kind;
    numbers[at++] = line.attempt;
    numbers[at++] = line.at;
    if (isBegun) numbers[at++] = line.cost ?? Number.NaN;
    else at = this.#putOutcome(line, at);
    const bytes = this.bytes;
    for (let from = 0, to = at * 8; from < maxId; from++, to++) {
      const code = from < length ? requestId.charCodeAt(from) : 0;
      if (code > 0x7f) return false;
      bytes[to] = code;
    }
    this.#seal(size, length);
    return true;
  }

  /** @returns the place behind it */
  #putOutcome({ status, firstTokenMs, totalMs, cost, tokens, costs }: LedgerLine, place: number): number {
    const numbers = this.numbers;
    let at = place;
    numbers[at++] = status ?? Number.NaN;
    numbers[at++] = firstTokenMs ?? Number.NaN;
    numbers[at++] = totalMs;
    numbers[at++] = cost ?? Number.NaN;
    for (let kind = 0; kind < tokenKinds.length; kind++) numbers[at++] = tokens[tokenKinds[kind]!];
    if (costs === null) for (let kind = 0; kind < costKinds.length; kind++) numbers[at++] = Number.NaN;
    else for (let kind = 0; kind < costKinds.length; kind++) numbers[at++] = costs[costKinds[kind]!];
    return at;
  }

  /** Completes a note, as only complete ones count: whoever is killed before the last line has noted nothing. */
  #seal(size: number, kind: number): void {
    const words = this.words;
    const at = this.#end;
    words[at + sizeAt] = size;
    words[at + kindAt] = kind;
    words[at + sumAt] = sumOf(words, at, size);
    this.#end = at + size;
    words[endAt] = this.#end;
  }
}

/** @returns what is in a file's areas, the later note of a line in place of the earlier one; undefined where another version wrote it */
export function notedLines(areas: readonly Uint8Array[]): LedgerLine[] | undefined {
  const found = new Map<string, LedgerLine>();
  const read = areas.map((bytes) => new AreaReader(bytes));
  if (read.some(({ isForeign }) => isForeign)) return undefined;
  for (const area of read.sort((a, b) => a.generation - b.generation)) {
    for (const line of area.lines()) found.set(`${line.requestId} ${line.attempt}`, line);
  }
  return [...found.values()];
}

class AreaReader extends Area {
  /** One that was never begun is nobody's. */
  get isForeign(): boolean {
    return this.words[formatAt] !== format && this.words[formatAt] !== 0;
  }

  get generation(): number {
    return this.words[generationAt]!;
  }

  *lines(): Iterable<LedgerLine> {
    const words = this.words;
    const kinds = new Map<number, Shared>();
    const end = Math.min(words[endAt]!, words.length);
    for (let at = headerWords; at + noteWords <= end; ) {
      const size = words[at + sizeAt]!;
      if (size < noteWords || size % 2 !== 0 || at + size > end || words[at + sumAt] !== sumOf(words, at, size)) return;
      const length = words[at + kindAt]!;
      if (length === 0) kinds.set(at, JSON.parse(this.#text((at + noteWords) * 4, (at + size) * 4)) as Shared);
      else {
        const line = this.#line(at, length, kinds);
        if (line === undefined) return;
        yield line;
      }
      at += size;
    }
  }

  #line(place: number, length: number, kinds: ReadonlyMap<number, Shared>): LedgerLine | undefined {
    let at = (place + noteWords) / 2;
    const next = () => this.numbers[at++]!;
    const known = () => {
      const number = next();
      return Number.isNaN(number) ? null : number;
    };
    const shared = kinds.get(next());
    if (shared === undefined) return undefined;
    const begun = { attempt: next(), at: next() };
    const nothing = { status: null, firstTokenMs: null, totalMs: 0, tokens: noTokens, costs: null };
    if (this.words[place + sizeAt] === begunWords) {
      const cost = known();
      return { ...shared, ...begun, ...nothing, cost, requestId: this.#text(at * 8, at * 8 + length) };
    }
    const own = { ...begun, status: known(), firstTokenMs: known(), totalMs: next() };
    const cost = known();
    const tokens = Object.fromEntries(tokenKinds.map((kind) => [kind, next()])) as LedgerLine["tokens"];
    const parts = costKinds.map((kind) => [kind, known()] as const);
    const costs = parts[0]![1] === null ? null : (Object.fromEntries(parts) as LedgerLine["costs"]);
    const requestId = this.#text(at * 8, at * 8 + length);
    return { ...shared, ...own, requestId, tokens, cost, costs };
  }

  #text(from: number, to: number): string {
    return new TextDecoder().decode(this.bytes.subarray(from, to));
  }
}

/** FNV-1a over the note's words but for the sum itself. */
function sumOf(words: Uint32Array, from: number, size: number): number {
  let sum = 0x811c9dc5 ^ size;
  for (let at = from + kindAt; at < from + size; at++) sum = Math.imul(sum ^ words[at]!, 0x01000193);
  return sum >>> 0;
}

/** True if two lines share what is noted once. */
const isSameKind = (a: LedgerLine, b: LedgerLine) =>
  isAlike(a, b) &&
  a.callOf === b.callOf &&
  a.errorText === b.errorText &&
  a.tier === b.tier &&
  a.variantCall === b.variantCall;
