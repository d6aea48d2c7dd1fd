/**
 * `spec-map.json` says for every rule of the specification, and for every decision where it is silent, which tests prove
 * it: `<file below test/>: <name of the test as its source has it>`.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import map from "./spec-map.json" with { type: "json" };

type Section = Readonly<Record<string, readonly string[]>>;
const documents: Readonly<Record<string, Readonly<Record<string, Section>>>> = map;

const sources = new Map<string, string | undefined>();
function sourceOf(file: string): string | undefined {
  const path = join(import.meta.dir, file);
  if (!sources.has(file)) sources.set(file, existsSync(path) ? readFileSync(path, "utf8") : undefined);
  return sources.get(file);
}

/** Whether a call in the file has this name as its first argument, as `test`, `test.each` and `describe` do. */
function isNamed(source: string, name: string): boolean {
  return ['"', "'", "`"].some((quote) => {
    const literal = quote + name.replaceAll(quote, `\\${quote}`) + quote;
    for (let at = source.indexOf(literal); at >= 0; at = source.indexOf(literal, at + 1)) {
      if (/\(\s*$/.test(source.slice(0, at)) && /^\s*,/.test(source.slice(at + literal.length))) return true;
    }
    return false;
  });
}

for (const [document, sections] of Object.entries(documents)) {
  describe(document, () => {
    for (const [section, rules] of Object.entries(sections)) {
      test.each(Object.entries(rules))(`${section}: %s`, (_rule, proofs) => {
        expect(proofs.length).toBeGreaterThan(0);
        const missing = proofs.filter((proof) => {
          const [file = "", name = ""] = proof.split(/: (.*)/s);
          return !isNamed(sourceOf(file) ?? "", name);
        });
        expect(missing).toEqual([]);
      });
    }
  });
}

test("no section is left out", () => {
  const numbers = Object.values(documents).map((sections) =>
    Object.keys(sections).map((title) => Number.parseInt(title, 10)),
  );
  expect(numbers).toEqual([
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
  ]);
});

test("a test that does not exist is noticed", () => {
  const source = 'test.each([1])(\n  "a \\"name\\"",\n  () => {});\nconst other = "b";';
  expect([isNamed(source, 'a "name"'), isNamed(source, "a"), isNamed(source, "b")]).toEqual([true, false, false]);
});
