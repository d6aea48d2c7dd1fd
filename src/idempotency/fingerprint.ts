/** Request fingerprints: SHA-256 in hexadecimal, equal for equal JSON values whatever the order of their keys. */

import { canonical, namesOf } from "../lib/json/canonical.ts";
import { nextSlice } from "../lib/time/cooperative-scheduling.ts";

type Body = string | Uint8Array<ArrayBuffer>;

/**
 * @param value a request as it was understood
 * @param body the request as it was sent
 */
export function fingerprint(value: unknown, body: Body): string {
  return Bun.SHA256.hash([canonical(value), ...longNumbers(body)].join("\n"), "hex");
}

/** Characters hashed in one slice, which takes about 3 ms. */
const maxPerSlice = 1024 * 1024;

/** `fingerprint` of a large request; yields to the event loop between slices. */
export async function fingerprintInSlices(value: unknown, body: Body): Promise<string> {
  const hash = new Bun.SHA256();
  let text = "";
  for (const token of tokens(value)) {
    text += token;
    if (text.length < maxPerSlice) continue;
    hash.update(text);
    text = "";
    await nextSlice();
  }
  return hash.update([text, ...longNumbers(body)].join("\n")).digest("hex");
}

/** Matches a number of 16 digits or more, which a JSON parser may round. */
const longNumber = /[:,[][ \t\r\n]*(-?\d[\d.]{15,}(?:[eE][-+]?\d+)?)(?=[ \t\r\n]*[,\]}])/g;

/** Long numbers as sent, since the body may be passed through unparsed; sorted, as the order of keys does not matter. */
function longNumbers(body: Body): string[] {
  const text =
    typeof body === "string" ? body : Buffer.from(body.buffer, body.byteOffset, body.length).toString("latin1");
  return Array.from(text.matchAll(longNumber), ([, number]) => number!).sort();
}

/** `canonical`, token by token. */
function* tokens(value: unknown): Generator<string> {
  if (typeof value === "string" && value.length > maxPerSlice) yield* quoted(value);
  else if (typeof value !== "object" || value === null) yield canonical(value);
  else if (Array.isArray(value)) {
    for (const [at, one] of value.entries()) {
      yield at === 0 ? "[" : ",";
      yield* tokens(one);
    }
    yield value.length === 0 ? "[]" : "]";
  } else {
    const fields = value as Record<string, unknown>;
    let mark = "{";
    for (const name of namesOf(fields)) {
      yield `${mark}${JSON.stringify(name)}:`;
      yield* tokens(fields[name]);
      mark = ",";
    }
    yield mark === "{" ? "{}" : "}";
  }
}

function* quoted(text: string): Generator<string> {
  yield '"';
  for (let at = 0, end = 0; at < text.length; at = end) {
    end = Math.min(at + maxPerSlice, text.length);
    // Halves of a pair are written as escapes.
    if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1]!)) end -= 1;
    yield JSON.stringify(text.slice(at, end)).slice(1, -1);
  }
  yield '"';
}
