/** Which of the keys a person at a terminal means. */
import type { KeyRow } from "../store/contract/store.ts";
import { hashOf, isWellFormed, secretLength, secretStart, shownLength, withoutKeys } from "./key-secret.ts";

/** A request about keys that can't be met; the message says why, and never repeats a key. */
export class KeyError extends Error {
  override readonly name: string = "KeyError";
}

type KeyMatch = {
  readonly row: KeyRow;
  /** True where so little was given that a slip of the fingers would have named a key as well. */
  readonly isVague: boolean;
};

/** `trp_` or `key_` and four more: below it, a beginning is vague. */
const clearLength = 8;

/**
 * @param given an id, a unique name, a whole key, or the beginning of an id or of a key. Of a key no more is kept than the
 * characters it is shown by, and the hash of it all: beyond the first, what is given must be whole to count.
 * @throws KeyError when it fits no key, or several, or holds a typo
 */
export function matchKey(rows: readonly KeyRow[], given: string): KeyMatch {
  const text = given.trim();
  const exact = rows.find(({ id }) => id === text);
  if (exact !== undefined) return { row: exact, isVague: false };
  const every = rows.filter(({ name }) => name === text);
  // A revoked key frees its name.
  const usable = every.filter(({ revokedAt }) => revokedAt === null);
  const named = usable.length > 0 ? usable : every;
  if (text.startsWith(secretStart) && named.length === 0) return matchSecret(rows, text);
  if (named.length > 0) return { row: onlyNamed(named, text), isVague: false };
  return { row: onlyBeginning(rows, text), isVague: text.length < clearLength };
}

function matchSecret(rows: readonly KeyRow[], text: string): KeyMatch {
  if (isWellFormed(text)) {
    const hash = hashOf(text);
    // An old one too, whether it is still taken or not: who wants to revoke it may have no other.
    const row = rows.find((one) => one.hash === hash) ?? rows.find((one) => one.oldHash === hash);
    if (row !== undefined) return { row, isVague: false };
    throw new KeyError(`There is no key ${quoted(text)}: it was rotated, or is of another data folder.`);
  }
  const typo = typoIn(text);
  if (typo !== undefined) throw new KeyError(`${quoted(text)} ${typo}.${hintAt(rows, text)}`);
  return { row: onlyBeginning(rows, text), isVague: text.length < clearLength };
}

/** Finds signs that a key, or its beginning, was not copied as it is. */
function typoIn(text: string): string | undefined {
  const wrong = /[^0-9A-Za-z]/u.exec(text.slice(secretStart.length));
  if (wrong !== null) {
    const place = secretStart.length + wrong.index + 1;
    return `is no key: its character ${place} is neither a letter of a to z nor a digit`;
  }
  if (text.length > secretLength) return `is no key: it has ${text.length} characters, and a key ${secretLength}`;
  if (text.length === secretLength)
    return "has a typing error: the check digits at its end do not fit the rest, so one character or more is wrong";
  return undefined;
}

/** A key that begins alike; not acted upon, as it may be another. */
function hintAt(rows: readonly KeyRow[], text: string): string {
  if (text.length < shownLength) return "";
  const alike = rows.filter(({ prefix }) => prefix === text.slice(0, shownLength));
  return alike.length === 1 ? ` The key that begins so is ${alike[0]!.id} (${alike[0]!.name}).` : "";
}

function onlyNamed(named: readonly KeyRow[], text: string): KeyRow {
  if (named.length === 1) return named[0]!;
  const ids = named.slice(0, 5).map(({ id, revokedAt }) => (revokedAt === null ? id : `${id} (revoked)`));
  const more = named.length > ids.length ? ", …" : "";
  throw new KeyError(`${quoted(text)} is the name of ${named.length} keys; give an id: ${ids.join(", ")}${more}.`);
}

function onlyBeginning(rows: readonly KeyRow[], text: string): KeyRow {
  const shown = text.startsWith(secretStart) ? text.slice(0, shownLength) : text;
  const fitting = rows.filter(({ id, prefix }) => id.startsWith(text) || prefix.startsWith(shown));
  if (text === "" || fitting.length === 0) throw new KeyError(`There is no key ${quoted(text)}.`);
  if (fitting.length > 1) throw new KeyError(`${quoted(text)} fits ${fitting.length} keys; give more of the id.`);
  return fitting[0]!;
}

/** Matches a part of a key, as one that was copied without its start. */
const longRun = new RegExp(`[0-9A-Za-z]{${shownLength + 1}}`);

function quoted(text: string): string {
  const isId = /^key_[0-9a-f]*$/.test(text);
  const isCut = !isId && longRun.test(text);
  return `'${isCut ? `${text.slice(0, shownLength)}…` : withoutKeys(text)}'`;
}
