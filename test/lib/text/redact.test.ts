import { expect, test } from "bun:test";
import { detailKinds, redacted } from "../../../src/lib/text/redact.ts";

test.each([
  ["emails", "Ask ada.l+x@mail.example.co.uk, or bob@corp.io.", "Ask person-1@example.com, or person-2@example.com."],
  ["emails", "a@b is none, and @user is none", "a@b is none, and @user is none"],
  ["phones", "Call +49 (170) 123-4567 or 0041 44 668 18 00", "Call +1 202-555-0100 or +1 202-555-0101"],
  ["phones", "030 1234567, (415) 555-2671, 415.555.2671", "+1 202-555-0100, +1 202-555-0101, +1 202-555-0102"],
  [
    "phones",
    "On 2026-11-22 order 4711 cost 1,200.50 for 3 of 10",
    "On 2026-11-22 order 4711 cost 1,200.50 for 3 of 10",
  ],
  ["cards", "4111 1111 1111 1111 and 5500-0000-0000-0004", "4242424242424242 and 5555555555554444"],
  [
    "cards",
    "4111 1111 1111 1112 is no card, 0000000000000 neither",
    "4111 1111 1111 1112 is no card, 0000000000000 neither",
  ],
  ["ibans", "To GB82 WEST 1234 5698 7654 32, please", "To DE89370400440532013000, please"],
  ["ibans", "To GB83 WEST 1234 5698 7654 32, please", "To GB83 WEST 1234 5698 7654 32, please"],
  ["ips", "From 10.0.0.7 and fe80::1, at 12:30:45", "From 192.0.2.1 and 2001:db8::2, at 12:30:45"],
  ["ips", "From 999.0.0.7", "From 999.0.0.7"],
] as const)("%s: %p", (kind, text, wanted) => {
  expect<string>(redacted(text, [kind])).toBe(wanted);
});

test("the same detail has the same example in all texts of a value, whose names and pictures stay", () => {
  const picture = "data:image/png;base64,AAAA+12025550123456";
  const value = {
    "a@b.de": [{ content: "a@b.de or +49 30 1234567" }, "A: a@b.de, c@d.de", picture, 3, null],
    card: "4111111111111111",
  };
  expect(redacted(value, detailKinds)).toEqual({
    "a@b.de": [
      { content: "person-1@example.com or +1 202-555-0100" },
      "A: person-1@example.com, person-2@example.com",
      picture,
      3,
      null,
    ],
    card: "4242424242424242",
  } as never);
  expect(redacted(value, [])).toBe(value);
});

test("a long text that is nearly something is read in time that grows with its length", () => {
  for (const text of ["a@", "0 ", "1.", "DE89 ", "ff:", "a.", "+1-"]) {
    const long = text.repeat(100_000);
    expect(redacted(long, detailKinds).length).toBeGreaterThan(0);
  }
});
