/**
 * A request's text as it was sent. Who sends the request on with no more than another model's name need not write it anew:
 * the text is copied, and with it all that a parser does not keep (numbers beyond 2^53, the spelling of 1.0, the order).
 */
import type { JsonObject } from "../lib/json.ts";

/** A body's text, and the object that it was parsed to. */
export type Source = { readonly text: string; readonly parsed: JsonObject };

/**
 * @param next what is to be said: an object whose unchanged fields hold the very values of `source.parsed`
 * @returns the source's text with the model's name of `next`, and the fields that `next` has beside; undefined where it
 *   differs in more, or where the place of the name is in doubt
 */
export function respell({ text, parsed }: Source, next: JsonObject): string | undefined {
  for (const name in parsed) {
    if (name !== "model" && (next[name] !== parsed[name] || !Object.hasOwn(next, name))) return undefined;
  }
  let fields = JSON.stringify(next["model"]);
  for (const name in next) {
    if (next[name] === undefined || Object.hasOwn(parsed, name)) continue;
    fields += `,${JSON.stringify(name)}:${JSON.stringify(next[name])}`;
  }
  const place = placeOfModel(text);
  return place && text.slice(0, place.start) + fields + text.slice(place.end);
}

const key = '"model"';
/** The key and its value, a plain name, from the key on. */
const field = /"model"[ \t\n\r]*:[ \t\n\r]*("[^"\\]*")/y;

/**
 * Where the value of the body's own field `model` stands. The parser found that field, so that the only place that spells
 * its key is its place, unless it were spelled with escapes: each of its letters is a \u006….
 */
function placeOfModel(text: string): { start: number; end: number } | undefined {
  const at = text.indexOf(key);
  if (text.indexOf(key, at + 1) >= 0 || text.includes("\\u006")) return undefined;
  field.lastIndex = at;
  const found = field.exec(text);
  return found === null ? undefined : { start: field.lastIndex - found[1]!.length, end: field.lastIndex };
}
