/** The form of an API key: `trp_`, 40 random base-62 characters (238 bits), and their check digits. */
import { decodedLetters } from "../lib/text/percent.ts";

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
export const secretStart = "trp_";
const randomLength = 40;
const checkLength = 6;
export const secretLength = secretStart.length + randomLength + checkLength;
/** So many of a key's first characters are kept and shown, for people to distinguish keys. */
export const shownLength = secretStart.length + 8;
const secretForm = new RegExp(`^${secretStart}[0-9A-Za-z]{${randomLength + checkLength}}$`);

/** CRC-32 in base 62: distinguishes a typo from a wrong key without a look-up, and lets scanners find leaked keys. */
function checkDigits(text: string): string {
  let rest = Bun.hash.crc32(text);
  let digits = "";
  for (let place = 0; place < checkLength; place += 1) {
    digits = base62[rest % 62]! + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

export function newSecret(): string {
  let random = "";
  while (random.length < randomLength) {
    // 248 is the greatest multiple of 62 in a byte: beyond it the first characters would be likelier than the others.
    for (const byte of crypto.getRandomValues(new Uint8Array(64))) if (byte < 248) random += base62[byte % 62];
  }
  random = random.slice(0, randomLength);
  return secretStart + random + checkDigits(random);
}

/** Checks that a text has the form of a key and no typo. */
export function isWellFormed(secret: string): boolean {
  if (!secretForm.test(secret)) return false;
  const checkAt = secretStart.length + randomLength;
  // Compared as a number: making the digits would cost a call 1 µs.
  let check = 0;
  for (let at = checkAt; at < secret.length; at += 1) check = check * 62 + base62.indexOf(secret[at]!);
  return check === Bun.hash.crc32(secret.slice(secretStart.length, checkAt));
}

// A key holds 238 random bits, so a fast hash is as good as a slow one: there is nothing to guess.
export const hashOf = (secret: string): string => Bun.SHA256.hash(secret, "hex");

const keysInText = new RegExp(`(${secretStart}[0-9a-z]{${shownLength - secretStart.length}})[0-9a-z]+`, "gi");

/** The same text, each key in it cut to the characters that it is shown by. */
export const withoutKeys = (text: string): string => text.replace(keysInText, "$1…");

const keyInText = new RegExp(`${secretStart}[0-9a-z]{20,}`, "i");

/** Checks whether a key, or most of one, stands in a text, percent-encoded or not. */
export const holdsKey = (text: string): boolean => keyInText.test(decodedLetters(text));
