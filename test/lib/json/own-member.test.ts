import { expect, test } from "bun:test";
import { ownMember } from "../../../src/lib/json/own-member.ts";

test("a word that every object knows is no entry of a table", () => {
  const table = { known: 400, constructorOf: 1 };
  expect(ownMember(table, "known")).toBe(400);
  for (const word of ["constructor", "__proto__", "toString", "valueOf", "unknown", ""]) {
    expect(ownMember(table, word)).toBeUndefined();
  }
  expect(ownMember(JSON.parse('{"__proto__":1,"constructor":2}'), "__proto__")).toBe(1);
});
