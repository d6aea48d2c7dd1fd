import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { beginningOf, maxSectionBytes, splitSections } from "../../../src/lib/text/sections.ts";
import { runs } from "../../helpers/long-form.ts";

const titles = (text: string) => splitSections(text, true).map(({ headings }) => headings.join(" > "));

const line = fc.oneof(
  fc.constantFrom(
    "# One",
    "## Two ##",
    "### Three",
    "Setext",
    "===",
    "---",
    "```",
    "~~~~",
    "    code",
    "- item",
    "> quote",
  ),
  fc.constantFrom("", " ", "1. one", "####### seven", "#none", "```js", "```a`b", "\ufeff# Mark"),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.string({ unit: "grapheme", minLength: 900, maxLength: 1500 }),
);
const text = fc
  .array(fc.tuple(line, fc.constantFrom("\n", "\r\n", "\r", "\n\n")), { maxLength: 40 })
  .map((lines) => lines.flat().join(""));

describe("sections", () => {
  test("joined they are the text, in bounds, with their lines", () => {
    fc.assert(
      fc.property(text, fc.boolean(), (given, isMarkdown) => {
        const sections = splitSections(given, isMarkdown);
        expect(sections.map((section) => section.text).join("")).toBe(given);
        const lines = given.match(/[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$/g) ?? [];
        let next = 1;
        for (const section of sections) {
          expect(Buffer.byteLength(section.text)).toBeLessThanOrEqual(maxSectionBytes);
          expect(section.text).not.toBe("");
          expect(section.firstLine).toBeGreaterThanOrEqual(next - 1);
          expect(section.lastLine).toBeGreaterThanOrEqual(section.firstLine);
          expect(lines.slice(section.firstLine - 1, section.lastLine).join("")).toContain(section.text);
          next = section.lastLine + 1;
        }
      }),
      { numRuns: runs(400) },
    );
  });

  test("headings are those of CommonMark, with those above them", () => {
    expect(titles("intro\n# A\nx\n## B ##\ny\n# C#\nz\n")).toEqual(["", "A", "A > B", "C#"]);
    expect(titles("Two\nlines\n===\nx\n\nLow\n---\ny\n")).toEqual(["Two lines", "Two lines > Low"]);
    expect(titles("#no\n####### no\n    # no\n- item\n---\n> quote\nlazy\n===\n")).toEqual([""]);
  });

  test("what stands in a fence or before the text is no heading", () => {
    expect(titles("```\n# no\n~~~\n# no\n```\n# A\n")).toEqual(["", "A"]);
    expect(titles("~~~~\n# no\n~~~\n# no\n~~~~\n# A\n")).toEqual(["", "A"]);
    expect(titles("```never closed\n# no\n")).toEqual([""]);
    expect(titles("---\ntitle: x\n# no\n---\nText\n")).toEqual([""]);
    expect(titles("``` a`b\n# A\n")).toEqual(["", "A"]);
    expect(splitSections("# A\ntext\n", false)[0]!.headings).toEqual([]);
  });

  test("a long section is cut behind blank lines, and a long line behind a space", () => {
    const paragraph = `${"word ".repeat(200).trim()}\n\n`;
    const cut = splitSections(`# A\n${paragraph.repeat(6)}`, true);
    expect(cut.map(({ firstLine, lastLine }) => [firstLine, lastLine])).toEqual([
      [1, 5],
      [6, 9],
      [10, 13],
    ]);
    expect(cut.every(({ headings }) => headings[0] === "A")).toBe(true);
    const [first] = splitSections("seven77 ".repeat(1000), true);
    expect(first!.text.endsWith("seven77 ")).toBe(true);
  });

  test("a heading in a megabyte of spaces or marks takes no longer than its length", () => {
    for (const odd of [`# ${" ".repeat(1_000_000)}x`, `# x${" #".repeat(500_000)}`, `${"-".repeat(1_000_000)}x`]) {
      expect(
        splitSections(`a\n${odd}\n`, true)
          .map((one) => one.text)
          .join(""),
      ).toBe(`a\n${odd}\n`);
    }
  });
});

test("a beginning divides no character", () => {
  expect(beginningOf("aé😀b", 7)).toBe("aé😀");
  expect(beginningOf("aé😀b", 6)).toBe("aé");
  expect(beginningOf("aé😀b", 0)).toBe("");
});
