/** Finds the end of a string in the bytes of a JSON text, and what no string may hold. */

const quote = 0x22;
const backslash = 0x5c;

/** A string is looked through in the loop for so long; then the platform looks for its end, whose call costs about as much. */
const nearBytes = 64;

/** Marks a quote and a backslash. */
const signs = new Uint8Array(256);
signs[quote] = 1;
signs[backslash] = 1;

/**
 * @param from within a string, not behind a backslash that escapes
 * @returns where the closing quote stands; the bytes' length where the string goes on behind them, and one more where its first byte
 *   there is escaped
 */
export function closingQuote(bytes: Uint8Array, from: number): number {
  const { length } = bytes;
  let at = from;
  while (at < length) {
    const near = Math.min(at + nearBytes, length - 3);
    // Four bytes at a time take half of the time.
    while (
      at < near &&
      (signs[bytes[at]!]! | signs[bytes[at + 1]!]! | signs[bytes[at + 2]!]! | signs[bytes[at + 3]!]!) === 0
    )
      at += 4;
    while (at < near + 3 && signs[bytes[at]!] === 0) at += 1;
    const byte = bytes[at];
    if (byte === quote) return at;
    if (byte === backslash) {
      at += 2;
      continue;
    }
    const found = bytes.indexOf(quote, at);
    const next = found < 0 ? length : found;
    const isEscaped = endsEscaped(bytes, at, next);
    if (next < length && !isEscaped) return next;
    at = isEscaped ? next + 1 : next;
  }
  return at;
}

/** True if an odd number of backslashes stands before `end`. @param start no byte before it escapes one behind it */
function endsEscaped(bytes: Uint8Array, start: number, end: number): boolean {
  let first = end;
  while (first > start && bytes[first - 1] === backslash) first -= 1;
  return (end - first) % 2 === 1;
}

const letterU = 0x75;

/** Characters that may stand behind a backslash, but for `u`, by their codes. */
const escaped = new Uint8Array(256);
for (const character of '"\\/bfnrt') escaped[character.charCodeAt(0)] = 1;

/** Marks a quote, a backslash, and control characters. */
export const contentSigns = new Uint8Array(256);
contentSigns.fill(1, 0, 0x20);
contentSigns[quote] = 1;
contentSigns[backslash] = 1;

/** The same of two bytes, whose look costs as much as that of one: a quarter of the time less, for 12 KB that text touches of it. */
const pairSigns = new Uint8Array(65_536);
for (let pair = 0; pair < pairSigns.length; pair += 1)
  pairSigns[pair] = contentSigns[pair & 0xff]! | contentSigns[pair >> 8]!;

/** @returns the bytes by two, for `contentEnd`; undefined where they begin between two */
export const bytePairsOf = ({ buffer, byteOffset, length }: Uint8Array): Uint16Array | undefined =>
  byteOffset % 2 === 0 ? new Uint16Array(buffer, byteOffset, length >> 1) : undefined;

/**
 * Looks for what a string may not hold as it is: a quote, a control character, a backslash that begins no escape of JSON, or one whose escape
 * goes on behind `end`.
 * @param from within a string, not behind a backslash that escapes
 * @param pairs of the bytes; absent: it takes longer
 * @returns where that stands; `end` where there is none
 */
export function contentEnd(bytes: Uint8Array, from: number, end: number, pairs?: Uint16Array): number {
  const last = (end >> 1) - 1;
  for (let at = from; ; ) {
    if (pairs !== undefined) {
      if ((at & 1) === 1 && at < end && contentSigns[bytes[at]!] === 0) at += 1;
      if ((at & 1) === 0) {
        let pair = at >> 1;
        while (pair < last && (pairSigns[pairs[pair]!]! | pairSigns[pairs[pair + 1]!]!) === 0) pair += 2;
        at = pair << 1;
      }
    }
    while (at < end && contentSigns[bytes[at]!] === 0) at += 1;
    if (at >= end || bytes[at] !== backslash) return at;
    if (at + 2 <= end && escaped[bytes[at + 1]!] === 1) {
      at += 2;
      continue;
    }
    const size = escapeSize(bytes, at);
    if (size === 0 || at + size > end) return at;
    at += size;
  }
}

/** @returns how long the escape is that begins with this backslash; 0: it is none */
function escapeSize(bytes: Uint8Array, at: number): number {
  const sign = bytes[at + 1] ?? 0;
  if (sign !== letterU) return escaped[sign] === 1 ? 2 : 0;
  for (let digit = at + 2; digit < at + 6; digit += 1) if (!isHexDigit(bytes[digit])) return 0;
  return 6;
}

function isHexDigit(byte = 0): boolean {
  return (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}
