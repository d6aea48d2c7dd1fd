/** Mistakes that people make in YAML: each is told once, where it is, in words that are not a parser's. */
import { expect, test } from "bun:test";
import { YamlSource } from "../../../src/lib/yaml/yaml.ts";

const indented = "This line is not indented like the lines that it belongs to";
const noName =
  "This is neither 'name: value' nor indented as a part of what stands above; a colon needs a space behind it";
const colon = "This value holds a colon and a space; put it in quotes";

test.each([
  ["model:\n\t- a/b\n", "2:1", "This line begins with a tab; YAML is indented by spaces alone"],
  ["a: 1\r\n\tb: 2\r\n", "2:1", "This line begins with a tab; YAML is indented by spaces alone"],
  ["a:\n  b: 1\n c: 2\n", "3:1", indented],
  ["a:\n  b: 1\n    c: 2\n", "3:5", indented],
  ["a:\n  - b\n  c: d\n", "3:1", indented],
  ["- a: 1\nb: 2\n", "2:1", indented],
  ["a: |\n    hello\n  less\nb: c\n", "3:1", indented],
  ['b: 1\na: "unclosed\nc: 1\n', "2:4", 'This " is not closed'],
  ["a: 'unclosed\nb: 1\n", "1:4", "This ' is not closed"],
  ["a: [1, 2\nb: 3\n", "1:4", "This [ is not closed"],
  ["a: {b: 1\nc: 3\n", "1:4", "This { is not closed"],
  ["a: [1]]\n", "1:7", "This ] closes nothing"],
  ["a: [1,,2]\n", "1:7", "Nothing stands before this comma"],
  ["a: 1\na: 2\n", "2:1", "This key stands here for the second time"],
  ["a: b: c\n", "1:4", colon],
  ["description: Helps: a lot\nmodel: x/y\n", "1:14", colon],
  ["a: 1\nbroken line\nc: 2\n", "2:1", noName],
  ["a: 1\nb:2\n", "2:1", noName],
  ["system: |\nhello\nmodel: x/y\n", "2:1", noName],
  ["a: @foo\n", "1:4", "A value can't begin with @; put it in quotes"],
  ["a: `foo`\n", "1:4", "A value can't begin with `; put it in quotes"],
  ["a: *foo\n", "1:4", "Nothing before this is named &foo"],
  ["a: !foo bar\n", "1:4", "!foo is a tag of YAML, and none is known here; put the value in quotes if ! belongs to it"],
  ["a: {{name}}\n", "1:5", "Braces are a mapping in YAML; put a text that begins with {{ in quotes"],
  ['a: "x" y\n', "1:8", "Nothing may follow a closing quote or bracket; put all of the value in quotes"],
  ['a: "x"#c\n', "1:7", "A comment needs a space before its #; put the value in quotes if # belongs to it"],
  ['a: "C:\\path"\n', "1:7", "\\p means nothing in double quotes; write \\\\ for a backslash, or take single quotes"],
  ["a: | hello\n  x\n", "1:6", "Text stands behind | or > in the same line; it begins in the next one, indented"],
  ["a: 1\n---\nb: 2\n", "2:1", "A second document begins here; there may be only one"],
])("%j", (text, place, message) => {
  const { errors } = new YamlSource(text, "f.yaml");
  expect(errors.map((one) => [`${one.line}:${one.column}`, one.message])).toEqual([[place, message]]);
});

test("no mistake at any place of a file is told in the library's words", () => {
  const file =
    'description: Says "hi".\nmodel: [a/b, "c/d"]\nsystem: |\n  One.\n  Two.\ndefaults: {stop: [x], n: 1}\nvariables:\n  name: {default: x}\n';
  const slips = [
    "\t",
    '"',
    "'",
    "[",
    "]",
    "{",
    "}",
    ":",
    ": ",
    "#",
    " ",
    "\n",
    "-",
    "- ",
    "@",
    "%",
    "|",
    "&",
    "*",
    "!",
    "?",
    ",",
    "\\",
  ];
  const jargon = /scalar|token|implicit|flow |block |compact|collection|This can't be read/i;
  const found = slips.flatMap((slip) =>
    Array.from({ length: file.length }, (_, at) => file.slice(0, at) + slip + file.slice(at)).flatMap((text) =>
      new YamlSource(text, "f").errors
        .filter(({ message }) => jargon.test(message))
        .map(({ message }) => [slip, message]),
    ),
  );
  expect([...new Set(found.map(([slip, message]) => `${JSON.stringify(slip)}: ${message}`))]).toEqual([]);
});
