import { expect, test } from "bun:test";
import { createdByDefault, parseCreated } from "../../../src/personas/file/created.ts";

test.each<[string | number, number | undefined]>([
  ["2026-11-21", 1_795_219_200],
  ["2024-02-29", 1_709_164_800],
  ["2026-11-21T10:00Z", 1_795_255_200],
  ["2026-11-21T10:00:00.999Z", 1_795_255_200],
  ["2026-11-21T12:00:00+02:00", 1_795_255_200],
  [1_795_219_200, 1_795_219_200],
  [0, 0],
  ["2026-02-29", undefined],
  ["2026-13-01", undefined],
  ["2026-11-21T25:00Z", undefined],
  ["2026-11-21T10:00:00", undefined],
  ["21.11.2026", undefined],
  ["1969-12-31", undefined],
  ["yesterday", undefined],
  ["", undefined],
])("%p", (written, seconds) => {
  expect(parseCreated(written)).toBe(seconds as number);
});

test("the default is a fixed day", () => {
  expect(createdByDefault).toBe(1_795_219_200);
});
