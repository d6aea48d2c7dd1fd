import { expect, test } from "bun:test";
import { resetMs, retryAfterMs } from "../../../src/lib/http/retry-after.ts";

const now = Date.parse("2026-11-23T12:00:00Z");

test.each<[string | null, number | undefined]>([
  ["7", 7000],
  [" 2.5 ", 2500],
  ["0", undefined],
  ["-3", undefined],
  ["", undefined],
  [null, undefined],
  ["Infinity", undefined],
  ["soon", undefined],
  ["Mon, 23 Nov 2026 12:01:00 GMT", 60_000],
  ["2026-11-23T12:00:09Z", 9000],
  ["Mon, 23 Nov 2026 11:01:00 GMT", undefined],
  [String(now / 1000 + 90), 90_000],
  [String(now + 90_000), 90_000],
  [String(now / 1000 - 90), undefined],
  ["999999999", 999_999_999_000],
])("%p is a wait of %p ms", (text, ms) => {
  expect(retryAfterMs(text, now)).toBe(ms);
});

test.each<[string, number | undefined]>([
  ["6m0s", 360_000],
  ["1h2m3.5s", 3_723_500],
  ["120ms", 120],
  ["2d", 172_800_000],
  ["0s", undefined],
  ["12", 12_000],
  ["6 minutes", undefined],
  ["2026-11-23T12:00:09Z", 9000],
])("a reset at %p is %p ms away", (text, ms) => {
  expect(resetMs(text, now)).toBe(ms);
});
