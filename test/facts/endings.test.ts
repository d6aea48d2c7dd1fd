/** When models end, and how that is said. */
import { expect, test } from "bun:test";
import { announcedEnd, endState, endWords } from "../../src/facts/endings.ts";

test.each([
  ["openai", "gpt-4o", "2027-01-14"],
  ["openai", "gpt-4o-2024-08-06", "2027-01-14"],
  // A snapshot of its own date goes before its model's.
  ["openai", "gpt-4o-2024-05-13", "2026-10-23"],
  ["openai", "GPT-4.1-mini", "2027-01-14"],
  ["openai", "gpt-5.5", undefined],
  ["anthropic", "claude-sonnet-4-5-20250929", "2026-11-30"],
  ["anthropic", "claude-opus-4-20250514", "2026-06-15"],
  ["anthropic", "claude-opus-4-5-20251101", "2027-01-22"],
  ["openrouter", "openai/gpt-4o", undefined],
  ["openai", "constructor", undefined],
  ["__proto__", "gpt-4o", undefined],
])("%s/%s ends on %p", (provider, model, ends) => {
  expect(announcedEnd(provider, model)).toBe(ends!);
});

test("six months before its end it ends soon, and has ended on the day", () => {
  const at = (day: string) => endState("2027-01-14", Date.parse(day));
  expect([at("2026-07-15T00:00:00Z"), at("2026-07-15T00:00:00.001Z")]).toEqual(["later", "ends_soon"]);
  expect([at("2027-01-13T23:59:59.999Z"), at("2027-01-14")]).toEqual(["ends_soon", "ended"]);
  expect(endWords("2027-01-14", Date.parse("2027-01-13"))).toBe("ends on 2027-01-14");
  expect(endWords("2027-01-14", Date.parse("2027-01-14"))).toBe("ended on 2027-01-14");
});
