/**
 * A request's body as it was sent. Who sends it on with no more than another model's name need not write it anew: it is
 * copied, and with it all that a parser does not keep (numbers beyond 2^53, the spelling of 1.0, the order).
 */
import type { JsonObject } from "../../lib/json/json.ts";
import { charactersPerByte, type LargeStrings } from "../../lib/json/large-strings.ts";

/** A body, a large one as the bytes that came, and the object that it was parsed to. */
export type Source = {
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly parsed: JsonObject;
  /** The number of members that the objects of the text have; more than were parsed, where names are doubled. Absent: as many. */
  readonly keys?: number;
  /** Whether `JSON.stringify` would write a number otherwise than it stands; absent: nobody looked. */
  readonly hasOddNumbers?: boolean;
  /** Where the colons of outer members stand in the bytes that came; absent: nobody looked, or the body is another. */
  readonly outerColons?: readonly number[] | undefined;
  /** The strings that placeholders stand for in both; absent: none is left out. */
  readonly large?: LargeStrings | undefined;
  /** Those of them that every upstream takes without a look; the others only one that speaks the client's format. */
  readonly passed?: readonly string[] | undefined;
};

/** Bytes of a body that are held in what it was parsed to: all but large strings that were left out. */
export const parsedBytes = ({ body, large }: Source): number => body.length + (large?.restoredBytes ?? 0);

/** About as many characters as `parsedBytes` are. */
export const parsedCharacters = (source: Source): number =>
  typeof source.body === "string"
    ? source.body.length
    : Math.round(parsedBytes(source) * charactersPerByte([source.body]));

/** Bytes of the body as it was sent. */
export const bodyBytes = ({ body, large }: Source): number =>
  large?.size ?? (typeof body === "string" ? Buffer.byteLength(body) : body.length);

/** Puts large strings back, for who looks into them. @param roots made of the body, changed in place */
export async function restoreLarge(
  { large, parsed }: Pick<Source, "large" | "parsed">,
  roots: readonly object[] = [parsed],
): Promise<void> {
  await large?.restore(roots);
}

/** The same for who translates the body, and so has to read all but what every format takes as it is. */
export async function restoreTranslated({ large, passed, parsed }: Source, request: object): Promise<void> {
  await large?.restore([parsed, request], passed);
}

type Large = Pick<Source, "large">;

/** A text with what its placeholder stands for, or the beginning of that. */
export const wholeText = ({ large }: Large, text: string, maxBytes?: number): string =>
  large === undefined ? text : large.textOf(text, maxBytes);

/** Bytes of a text with what its placeholder stands for. */
export const textBytes = ({ large }: Large, text: string): number => large?.sizeOf(text) ?? text.length;

/** About how many characters are left out of a text. */
export const charactersLeftOut = ({ large }: Large, text: string): number => large?.charactersBehind(text) ?? 0;

/** @returns a body with the large strings in it; undefined where one of them is not left out of it any more: somebody looked into it */
export function fillLarge<B extends Parameters<LargeStrings["fill"]>[0]>({ large }: Large, body: B) {
  return large === undefined ? body : large.fill(body);
}

/** @param written of `next` @returns the same with the large strings in it: one that was looked into is there as text */
export const filledText = (source: Large, written: Parameters<LargeStrings["fill"]>[0], next: JsonObject) =>
  fillLarge(source, written) ?? JSON.stringify(next);

export const asCame = ({ body, large, outerColons }: Source) =>
  large === undefined || outerColons === undefined ? body : large.slices(0, large.size);

/**
 * @param next what is to be said: an object whose unchanged fields hold the very values of `source.parsed`
 * @returns the source's body with the model's name of `next`, and the fields that `next` has beside; undefined where it
 *   differs in more, or where the place of the name is in doubt
 */
export function respell(source: Source, next: JsonObject): string | (string | Uint8Array<ArrayBuffer>)[] | undefined {
  const { body, parsed } = source;
  for (const name in parsed) {
    if (name !== "model" && (next[name] !== parsed[name] || !Object.hasOwn(next, name))) return undefined;
  }
  if (next["model"] === undefined) return undefined;
  const place = typeof body === "string" && source.large === undefined ? placeInText(body) : placeInBytes(source);
  if (place === undefined) return undefined;
  let fields = JSON.stringify(next["model"]);
  for (const name in next) {
    if (next[name] === undefined || Object.hasOwn(parsed, name)) continue;
    fields += `,${JSON.stringify(name)}:${JSON.stringify(next[name])}`;
  }
  const { start, end } = place;
  if (typeof body === "string" && source.large === undefined) return body.slice(0, start) + fields + body.slice(end);
  return [...slicesOf(source, 0, start), fields, ...slicesOf(source, end, bodyBytes(source))];
}

const slicesOf = ({ body, large }: Source, start: number, end: number) =>
  large?.slices(start, end) ?? [(body as Uint8Array<ArrayBuffer>).subarray(start, end)];

type Place = { readonly start: number; readonly end: number };

/**
 * The value of the body's own field `model` stands where its key does. The parser found that field, so that the only place
 * that spells its key is the one, unless it were spelled with escapes: each of its letters is a \u006….
 */
const key = '"model"';
const escapedLetter = "\\u006";
/** The key and its value, a plain name, from the key on. */
const field = /"model"[ \t\n\r]*:[ \t\n\r]*("[^"\\]*")/y;

function placeInText(text: string): Place | undefined {
  const at = text.indexOf(key);
  if (text.indexOf(key, at + 1) >= 0 || text.includes(escapedLetter)) return undefined;
  return placeOfValue(field, text, at, 0);
}

/** The key, as it is spelled without escapes, up to its colon. */
const keyAtEnd = /[{,][ \t\n\r]*"model"[ \t\n\r]*$/;
const maxKey = 32;
/** The value behind the colon. */
const fieldValue = /:[ \t\n\r]*("[^"\\]*")/y;
/** The longest value that is looked for, in bytes; a longer one is written anew. */
const maxValue = 1024;

function placeInBytes(source: Source): Place | undefined {
  // A character for each byte, so that places are the same.
  const latin1 = (start: number, end: number) => Buffer.concat(slicesOf(source, start, end)).toString("latin1");
  const size = bodyBytes(source);
  for (const colon of source.outerColons ?? [])
    if (keyAtEnd.test(latin1(Math.max(0, colon - maxKey), colon)))
      return placeOfValue(fieldValue, latin1(colon, Math.min(size, colon + maxValue)), 0, colon);
  return undefined;
}

function placeOfValue(form: RegExp, text: string, at: number, offset: number): Place | undefined {
  form.lastIndex = at;
  const value = form.exec(text)?.[1];
  if (value === undefined) return undefined;
  const end = offset + form.lastIndex;
  return { start: end - value.length, end };
}
