import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Glob } from "bun";
import fc from "fast-check";
import { parseDocument } from "yaml";
import { readUnambiguousYaml } from "../../../src/lib/yaml/unambiguous.ts";
import { runs } from "../../helpers/long-form.ts";

const root = join(import.meta.dir, "../../..");
/** Their tests are read by commands alone, which have time. */
const shipped = [...new Glob("personas/*/*.yaml").scanSync(root)].filter((file) => !file.includes(".test.")).sort();
const texts = shipped.map((file) => readFileSync(join(root, file), "utf8"));
const usualRuns = 3_000;

/** As the YAML library reads it, with the same rules as `YamlSource`. */
function readByLibrary(text: string) {
  const document = parseDocument(text, { schema: "core", stringKeys: true, merge: true, resolveKnownTags: false });
  const problems = [...document.errors, ...document.warnings].map(({ code }) => code);
  return { problems, value: problems.length === 0 ? document.toJS() : undefined };
}

/** @returns whether Bun read it */
function expectSameReading(text: string): boolean {
  const read = readUnambiguousYaml(text);
  if (read !== undefined) expect(readByLibrary(text)).toStrictEqual({ problems: [], value: read.value });
  return read !== undefined;
}

describe("what authors write is read by Bun", () => {
  test.each(shipped)("%s", (file) => {
    expect(expectSameReading(readFileSync(join(root, file), "utf8"))).toBe(true);
  });

  test.each([
    [
      "a: 1\nb: -2.5\nc: 2026-11-21\nd: yes\ne: true\nf:\n",
      { a: 1, b: -2.5, c: "2026-11-21", d: "yes", e: true, f: null },
    ],
    ["a:\n- b\n- c # two\nd: e#f # g\n", { a: ["b", "c"], d: "e#f" }],
    ["a: |\n\n  b: c\n   d\n\n  # e\n\n\nf: |-\n  g\n", { a: "\nb: c\n d\n\n# e\n", f: "g" }],
    ["a: [{b: d}, c]\n", { a: [{ b: "d" }, "c"] }],
    ["", null],
    ["\n# a: b\n  # nothing yet\n", null],
    ["a:\n  - b: >-\n      c: d\n      e\n    f: 1\n", { a: [{ b: "c: d e", f: 1 }] }],
    ["a: grüße 👋 (b) – c's “d”\n", { a: "grüße 👋 (b) – c's “d”" }],
  ])("%p", (text, value) => {
    expect(readUnambiguousYaml(text)).toEqual({ value });
    expect(expectSameReading(text)).toBe(true);
  });
});

describe("what Bun lets pass is read strictly", () => {
  test.each([
    "a: 1\na: 2\n",
    "{a: 1, a: 2}\n",
    "a: [{b: 1, b: 2}]\n",
    'a: {"b":1,"b":2}\n',
    "a: |\n  b: 1\na: c\n",
    "a:\n  - b: |\n      c\n    d: 1\n    d: 'e: f'\n",
    "a: |\n  b\nc: 1\nc: 'd: e'\n",
    "a: &b 1\n",
    "a: *b\n",
    "<<: {a: 1}\n",
    "a: !b c\n",
    "a: !!str 1\n",
    "a: 1\n---\nb: 2\n",
    "a: 12345678901234567890\n",
    "a: .inf\n",
    "a: 1e400\n",
    "true: a\n",
    "1: a\n",
    "? a\n: 1\n",
    "__proto__: {a: 1}\n",
    "a:\n\t- b\n",
    "\ufeffa: b\n",
    "a: b: c\n",
    " a: [a\n]\n",
    "a: 1\na: {b}\n",
    "a:\n  -0x1\n",
    "- a\n",
    "just text\n",
    `a: ${"[".repeat(10_000)}`,
  ])("%p", (text) => {
    expect(readUnambiguousYaml(text)).toBeUndefined();
  });
});

describe("whatever is read is what the library reads", () => {
  const indent = fc.nat({ max: 4 }).map((count) => " ".repeat(count));
  const word = fc.constantFrom(
    ...[
      "a",
      "b",
      "c d",
      "true",
      "no",
      "null",
      "~",
      "1",
      "-1",
      "0.5",
      "1.",
      "08",
      "1e3",
      "0x1",
      "-",
      "--",
      "---",
      "...",
    ],
    ...[
      "a:b",
      "a: b",
      "a:",
      "a #b",
      "a#b",
      "#a",
      ":",
      "?",
      "? a",
      "&a",
      "*a",
      "!a",
      "|",
      ">-",
      "|-",
      "|+",
      "<<",
      "@a",
      "`a",
    ],
    ...[
      "'a'",
      "'a''b'",
      "'a",
      '"a"',
      '"a\\n"',
      '"a" b',
      "[a, b]",
      "[a,b]",
      "{a: b}",
      "{a:b}",
      "{a}",
      "[a",
      "]",
      "{ a: 1, a: 2 }",
    ],
    ...[
      "[]",
      "{}",
      "[a: b]",
      "[a, [b], {c: d}]",
      "[a b, c  d]",
      "{a: b c, d: }",
      "2026-11-21",
      "é",
      "a\u00a0b",
      "a\\b",
      "$a",
      "%a",
      "",
    ],
  );
  const line = fc
    .oneof(
      fc.tuple(
        indent,
        fc.constantFrom("a", "b", "c", "d-e", "true", "1", "a b", "'a'"),
        fc.constantFrom(": ", ":", ":  "),
        word,
      ),
      fc.tuple(indent, fc.constantFrom("- ", "-  ", "-", "- - ", "- a: ", "- b: "), word),
      fc.tuple(indent, word),
      fc.tuple(indent, fc.constantFrom("# a", " #a", "")),
    )
    .map((parts) => parts.join(""));

  test("in texts made of lines that belong together by chance", () => {
    const text = fc.array(fc.tuple(line, fc.constantFrom("", "", "", " ", " # a")), { minLength: 1, maxLength: 9 });
    fc.assert(
      fc.property(text, fc.constantFrom("\n", "\n", ""), (lines, end) => {
        expectSameReading(lines.map((parts) => parts.join("")).join("\n") + end);
      }),
      { numRuns: runs(usualRuns * 10) },
    );
  });

  test("in what is shipped, with slips", () => {
    const slip = fc.record({
      at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      removed: fc.nat({ max: 12 }),
      added: fc.oneof(
        line,
        word,
        fc.constantFrom(
          "\n",
          " ",
          "  ",
          ":",
          ": ",
          "- ",
          "#",
          " #",
          '"',
          "'",
          "{",
          "}",
          "[",
          "]",
          ",",
          "|",
          "\t",
          "\n\n",
          "\n  ",
        ),
      ),
    });
    let plain = 0;
    fc.assert(
      fc.property(fc.constantFrom(...texts), fc.array(slip, { minLength: 1, maxLength: 3 }), (text, slips) => {
        const slipped = slips.reduce((one, { at, removed, added }) => {
          const from = Math.floor(at * one.length);
          return one.slice(0, from) + added + one.slice(from + removed);
        }, text);
        if (expectSameReading(slipped)) plain += 1;
      }),
      { numRuns: runs(usualRuns) },
    );
    expect(plain).toBeGreaterThan(runs(usualRuns) / 100);
  });
});
