/**
 * A body that differs from its source in some places. What did not change is copied as it was written, and with it all that a
 * parser does not keep: numbers beyond 2^53, the spelling of 1.0, names that stand twice. The rest is written anew.
 */
import { isExactNumber, keepsSpelling } from "../../lib/json/exact.ts";
import { isObject, type JsonObject, originOf } from "../../lib/json/json.ts";
import {
  type ByteRange,
  elementsAt,
  isSeparator,
  type MemberRange,
  membersAt,
  valueAt,
} from "../../lib/json/ranges.ts";
import type { Source } from "./source.ts";

export type Pieces = string | readonly (string | Uint8Array<ArrayBuffer>)[];

/** Ranges of so many bytes are sent as views of the source; shorter ones are copied into the text around them. */
const minViewBytes = 4096;

/**
 * @param next what is to be said. An array or object that is the source's own is copied, and so is a member that has the
 *   very value of its namesake in the source, or in what its object was made from (`keepSame`, `derive`)
 * @param namesOf the names under which a member of `next` may stand in the source, its own first
 */
export function patchBody(source: Source, next: JsonObject, namesOf: (name: string) => readonly string[]): Pieces {
  return isPlain(source) ? JSON.stringify(next) : new BodyPatch(source).write(next, namesOf);
}

function isPlain({ body, hasOddNumbers }: Source): boolean {
  if (hasOddNumbers !== undefined) return !hasOddNumbers && body.length <= maxPlainKnown;
  if (body.length > maxPlainLength) return false;
  return keepsSpelling(typeof body === "string" ? body : viewOf(body).toString("latin1"));
}

const viewOf = ({ buffer, byteOffset, length }: Uint8Array<ArrayBuffer>) => Buffer.from(buffer, byteOffset, length);

/** Up to so many characters, or bytes, it is faster to look for odd numbers, and to write a body anew that has none. */
const maxPlainLength = 16 * 1024;
/** The same where that is known. */
const maxPlainKnown = 256 * 1024;

/** Members and elements that are looked up in one body, which takes 1 to 2 µs each: what is beyond them is written anew. */
const maxLookups = 32 * 1024;
/** Objects in which a member of the top level is looked for. */
const maxPlaces = 16;

/** One body's patch: an index of the source, made as far as it is needed, and what was written so far. */
class BodyPatch {
  readonly #bytes: Buffer<ArrayBuffer>;
  readonly #root: JsonObject;
  /** The ranges of the source's arrays and objects, as far as those that hold them were opened. */
  readonly #ranges = new Map<object, ByteRange>();
  /** The members of opened objects; opened arrays have none. */
  readonly #opened = new Map<object, ReadonlyMap<string, MemberRange>>();
  #lookups = 0;
  readonly #written: (string | ByteRange)[] = [];
  #text = "";
  #comma = false;

  constructor({ body, parsed }: Source) {
    this.#bytes = typeof body === "string" ? Buffer.from(body) : viewOf(body);
    this.#root = parsed;
    this.#place(parsed, valueAt(this.#bytes, 0));
  }

  write(next: JsonObject, namesOf: (name: string) => readonly string[]): Pieces {
    if (this.#open(this.#root).size === 0) return JSON.stringify(next);
    const places = [this.#root, ...this.#openMoved(next)];
    this.#add("{");
    for (const name in next) {
      if (next[name] === undefined) continue;
      this.#topMember(name, next[name], places, namesOf);
      this.#comma = true;
    }
    this.#end("}");
    return this.#pieces();
  }

  /**
   * Opens what the top level of `next` does not hold as it stood: it was taken apart, or moved there.
   * @returns the objects among it, whose members may have moved to the top level
   */
  #openMoved(next: JsonObject): JsonObject[] {
    const moved: JsonObject[] = [];
    const take = (value: unknown) => {
      const container = this.#known(value);
      if (container === undefined) return;
      this.#open(container);
      if (isObject(container) && moved.length < maxPlaces) moved.push(container);
    };
    // Options stand in `extra_body`, and there or at the top level in an object of their family's name.
    const literal = this.#root["extra_body"];
    if (next["extra_body"] !== literal) {
      take(literal);
      if (isObject(literal)) Object.values(literal).forEach(take);
    }
    for (const name in this.#root) if (name !== "extra_body" && next[name] !== this.#root[name]) take(this.#root[name]);
    return moved;
  }

  #topMember(
    name: string,
    value: unknown,
    places: readonly JsonObject[],
    namesOf: (name: string) => readonly string[],
  ): void {
    if (this.#copyMember(this.#root, name, value)) return;
    this.#key(name);
    let namesake: object | undefined;
    for (const place of places) {
      for (const other of namesOf(name)) {
        const member = this.#open(place).get(other);
        if (member === undefined) continue;
        if (Object.is(place[other], value)) {
          this.#copy({ start: member.value, end: member.end });
          return;
        }
        namesake ??= this.#known(place[other]);
      }
    }
    this.#value(value, namesake);
  }

  /** @param namesake of the source, that an array or object may have been made from */
  #value(value: unknown, namesake: object | undefined): void {
    if (typeof value !== "object" || value === null || isExactNumber(value)) {
      this.#add(JSON.stringify(value) ?? "null");
      return;
    }
    const range = this.#ranges.get(value);
    if (range !== undefined) this.#copy(range);
    else if (Array.isArray(value)) this.#array(value, this.#originOf(value) ?? namesake);
    else this.#object(value as JsonObject, this.#originOf(value) ?? namesake);
  }

  #array(values: readonly unknown[], origin: object | undefined): void {
    if (Array.isArray(origin)) this.#openChanged(origin, values);
    this.#add("[");
    for (const value of values) {
      this.#value(value, undefined);
      this.#comma = true;
    }
    this.#end("]");
  }

  /** Opens elements that were changed, or became parts of others: their own parts may still be what they were. */
  #openChanged(origin: readonly unknown[], values: readonly unknown[]): void {
    this.#open(origin);
    const kept = new Set(values);
    for (const one of origin) if (typeof one === "object" && one !== null && !kept.has(one)) this.#open(one);
  }

  #object(value: JsonObject, origin: object | undefined): void {
    const from = isObject(origin) ? origin : undefined;
    this.#add("{");
    for (const name of Object.keys(value)) {
      const one = value[name];
      if (one === undefined) continue;
      if (from === undefined || !this.#copyMember(from, name, one)) {
        this.#key(name);
        this.#value(one, from && this.#open(from).has(name) ? this.#known(from[name]) : undefined);
      }
      this.#comma = true;
    }
    this.#end("}");
  }

  /** With its key. @returns false where the object has no such member, or it has another value */
  #copyMember(from: JsonObject, name: string, value: unknown): boolean {
    const member = this.#open(from).get(name);
    if (member === undefined || !Object.is(from[name], value)) return false;
    this.#copy(member);
    return true;
  }

  /** The nearest of those it was made from that stands in the source. */
  #originOf(value: object): object | undefined {
    let origin = originOf(value);
    while (origin !== undefined && !this.#ranges.has(origin)) origin = originOf(origin);
    return origin;
  }

  #known(value: unknown): object | undefined {
    return typeof value === "object" && value !== null && this.#ranges.has(value) ? value : undefined;
  }

  /** Finds where the parts stand. @returns the members; none for an array, and for what is not of the source */
  #open(container: object): ReadonlyMap<string, MemberRange> {
    const known = this.#opened.get(container);
    if (known !== undefined) return known;
    const members = new Map<string, MemberRange>();
    this.#opened.set(container, members);
    const range = this.#ranges.get(container);
    const size = Array.isArray(container) ? container.length : Object.keys(container).length;
    if (range === undefined || this.#lookups + size > maxLookups) return members;
    this.#lookups += size;
    if (Array.isArray(container)) {
      let at = 0;
      elementsAt(this.#bytes, range.start, (element) => this.#place(container[at++], element));
      return members;
    }
    membersAt(this.#bytes, range.start, (name, member) => members.set(name, member));
    const object = container as JsonObject;
    for (const [name, { value, end }] of members) this.#place(object[name], { start: value, end });
    return members;
  }

  #place(value: unknown, range: ByteRange | undefined): void {
    if (typeof value === "object" && value !== null && range !== undefined) this.#ranges.set(value, range);
  }

  #key(name: string): void {
    this.#add(`${JSON.stringify(name)}:`);
  }

  #add(text: string): void {
    this.#text += this.#comma ? `,${text}` : text;
    this.#comma = false;
  }

  /** No comma stands before a closing brace. */
  #end(brace: string): void {
    this.#comma = false;
    this.#add(brace);
  }

  /** Neighbours in the source that are neighbours again are one piece, with the comma that stood between. */
  #copy({ start, end }: ByteRange): void {
    const last = this.#text === "" ? this.#written.at(-1) : undefined;
    if (this.#comma && typeof last === "object" && isSeparator(this.#bytes, last.end, start)) {
      this.#written[this.#written.length - 1] = { start: last.start, end };
      this.#comma = false;
      return;
    }
    this.#add("");
    this.#written.push(this.#text, { start, end });
    this.#text = "";
  }

  #pieces(): Pieces {
    const pieces: (string | Uint8Array<ArrayBuffer>)[] = [];
    let text = "";
    for (const one of [...this.#written, this.#text]) {
      if (typeof one === "string") text += one;
      else if (one.end - one.start < minViewBytes) text += this.#bytes.toString("utf8", one.start, one.end);
      else {
        pieces.push(text, this.#bytes.subarray(one.start, one.end));
        text = "";
      }
    }
    return pieces.length === 0 ? text : [...pieces, text];
  }
}
