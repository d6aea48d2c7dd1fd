import { expect, test } from "bun:test";
import fc from "fast-check";
import { fillTemplate, findMarks, parseTemplate } from "../../../src/personas/compose/template.ts";

const filled = (text: string, values: Record<string, string>) =>
  fillTemplate(parseTemplate(text), new Map(Object.entries(values)));

test.each([
  ["Hi {{name}}!", "Hi Ann!"],
  ["{{ name }}{{name}}", "AnnAnn"],
  ["{{\tname\t}}", "Ann"],
  ["{{name}", "{{name}"],
  ["\\{{name}} is {{name}}", "{{name}} is Ann"],
  ["{{{name}}}", "{{{name}}}"],
  ["a { b } c }}", "a { b } c }}"],
  ["no marks", "no marks"],
  ["{{absent}}.", "."],
])("%p", (text, expected) => {
  expect(filled(text, { name: "Ann" })).toBe(expected);
});

test("marks are found in order, strays among them", () => {
  expect(findMarks("{{a}} \\{{ {{ x y }} {{b}}").map(({ kind, name, index }) => [kind, name, index])).toEqual([
    ["variable", "a", 0],
    ["escape", "", 6],
    ["stray", "", 10],
    ["variable", "b", 20],
  ]);
});

test("whatever the values hold, they stand there unchanged", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (a, b) => {
      expect(filled("<{{a}}|{{b}}|{{a}}>", { a, b })).toBe(`<${a}|${b}|${a}>`);
    }),
  );
});
