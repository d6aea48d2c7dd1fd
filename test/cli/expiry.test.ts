import { describe, expect, test } from "bun:test";
import { parseExpiry } from "../../src/cli/expiry.ts";

const now = Date.parse("2026-11-21T10:00:00Z");

describe("until when", () => {
  test.each([
    ["30m", "2026-11-21T10:30:00.000Z"],
    ["12h", "2026-11-21T22:00:00.000Z"],
    ["90d", "2027-02-19T10:00:00.000Z"],
    ["2w", "2026-12-05T10:00:00.000Z"],
    ["2027-01-31", "2027-01-31T00:00:00.000Z"],
    ["2028-02-29", "2028-02-29T00:00:00.000Z"],
    ["2027-01-31T12:00Z", "2027-01-31T12:00:00.000Z"],
    ["2027-01-31T12:00:30+02:00", "2027-01-31T10:00:30.000Z"],
  ])("%s", (text, time) => {
    expect(new Date(parseExpiry(text, now)!).toISOString()).toBe(time);
  });

  test.each(["", "soon", "30", "1y", "-1d", "1.5h", "2027-02-30", "2027-13-01", "31.1.2027", "2027-01-31 12:00"])(
    "%p is no time",
    (text) => {
      expect(parseExpiry(text, now)).toBeUndefined();
    },
  );
});
