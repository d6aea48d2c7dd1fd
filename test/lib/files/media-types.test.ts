import { expect, test } from "bun:test";
import { typeByName } from "../../../src/lib/files/media-types.ts";

test.each([
  ["report.pdf", "application/pdf"],
  ["https://example.com/a/B.JPEG", "image/jpeg"],
  ["notes.tar.md", "text/markdown"],
  ["pdf", undefined],
  ["a.unknown", undefined],
  ["a.constructor", undefined],
  ["", undefined],
])("%p: %p", (name, type) => {
  expect(typeByName(name)).toBe(type);
});
