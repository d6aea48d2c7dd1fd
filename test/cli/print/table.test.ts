import { expect, test } from "bun:test";
import { formatFields, formatTable } from "../../../src/cli/print/table.ts";

test("columns are as wide as their widest cell, wide characters counted as two", () => {
  expect(
    formatTable(
      ["id", "name"],
      [
        ["1", "漢字"],
        ["22", undefined],
      ],
    ),
  ).toBe("ID  NAME\n1   漢字\n22  -\n");
  expect(
    formatTable(
      ["a", "b"],
      [
        ["漢", "x"],
        ["yyy", "z"],
      ],
    ),
  ).toBe("A    B\n漢   x\nyyy  z\n");
});

test("fields without a value are left out", () => {
  expect(formatFields({ a: "1", gone: undefined, long: "2" })).toBe("a     1\nlong  2\n");
  expect(formatFields({})).toBe("");
});
