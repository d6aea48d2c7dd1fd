import { expect, test } from "bun:test";
import fc from "fast-check";
import { KeyError, matchKey } from "../../src/auth/key-lookup.ts";
import { hashOf, newSecret, shownLength, withoutKeys } from "../../src/auth/key-secret.ts";
import { keyRow } from "../helpers/key-row.ts";
import { runs } from "../helpers/long-form.ts";

const secret = newSecret();
const rowOf = (id: string, name: string, key: string) =>
  keyRow(id, { name, prefix: key.slice(0, shownLength), hash: hashOf(key) });
const rows = [
  rowOf("key_0a", "alice", secret),
  rowOf("key_0b", "trp_team", newSecret()),
  rowOf("key_1", "k", newSecret()),
];

/** The longest piece of the secret that a text holds. */
function maxPiece(text: string): number {
  for (let length = secret.length; length > 0; length -= 1) {
    for (let at = 0; at + length <= secret.length; at += 1)
      if (text.includes(secret.slice(at, at + length))) return length;
  }
  return 0;
}

test("a key is named by its id, its name, all of it, or any beginning that fits no other", () => {
  for (const given of [
    "key_0a",
    "alice",
    secret,
    `${secret}\n`,
    ...[8, 12, 13, 30, 49].map((end) => secret.slice(0, end)),
  ])
    expect(matchKey(rows, given)).toEqual({ row: rows[0]!, isVague: false });
  for (const given of ["key_1", "k"]) expect(matchKey(rows, given)).toEqual({ row: rows[2]!, isVague: false });
  expect(matchKey(rows, "trp_team").row).toBe(rows[1]!);
  expect(matchKey(rows.slice(0, 1), "t")).toEqual({ row: rows[0]!, isVague: true });
  expect(matchKey(rows.slice(0, 1), "key_0")).toEqual({ row: rows[0]!, isVague: true });
  expect(() => matchKey(rows, "key_0")).toThrow("'key_0' fits 2 keys");
});

test("however a key was damaged, no other is taken for it, and the error shows no more of it than lists do", () => {
  const part = fc.integer({ min: 0, max: secret.length });
  fc.assert(
    fc.property(part, part, fc.string({ maxLength: 3 }), (from, to, between) => {
      const given = secret.slice(0, from) + between + secret.slice(to);
      try {
        const { row, isVague } = matchKey(rows, given);
        if (!isVague && row !== rows[0]) expect(given.trim()).toBe(row.id === "key_1" ? "k" : row.name);
      } catch (error) {
        expect(error).toBeInstanceOf(KeyError);
        expect(maxPiece((error as KeyError).message)).toBeLessThanOrEqual(shownLength);
      }
    }),
    { numRuns: runs(500) },
  );
});

test("texts are cleared of keys", () => {
  expect(withoutKeys(`a '${secret}' b ${secret.toUpperCase()}`)).toBe(
    `a '${secret.slice(0, 12)}…' b ${secret.slice(0, 12).toUpperCase()}…`,
  );
  expect(withoutKeys(secret.slice(0, 12))).toBe(secret.slice(0, 12));
});
