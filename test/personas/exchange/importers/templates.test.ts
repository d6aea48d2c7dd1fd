/** Each template language by its own rules: what a text says, and that a persona's template says the same. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { fillTemplate, parseTemplate } from "../../../../src/personas/compose/template.ts";
import { joinTemplate } from "../../../../src/personas/exchange/importers/draft.ts";
import type { Piece } from "../../../../src/personas/exchange/importers/pieces.ts";
import { ImportError } from "../../../../src/personas/exchange/importers/source.ts";
import { handlebarsPieces } from "../../../../src/personas/exchange/importers/templates/handlebars.ts";
import { jinjaPieces } from "../../../../src/personas/exchange/importers/templates/jinja.ts";
import { mustachePieces } from "../../../../src/personas/exchange/importers/templates/mustache.ts";
import { plainPieces, unnamedMarks } from "../../../../src/personas/exchange/importers/templates/plain.ts";
import { runs } from "../../../helpers/long-form.ts";
import { templateVectors, vectorValues } from "./template-vectors.ts";

/** By way of the persona's own template. @returns null where it is refused */
function said(read: () => readonly Piece[]): string | null {
  try {
    return fillTemplate(parseTemplate(joinTemplate(read())), new Map(Object.entries(vectorValues)));
  } catch (error) {
    if (error instanceof ImportError) return null;
    throw error;
  }
}

test.each(templateVectors)("%j", ({ text, handlebars, mustache, jinja, plain }) => {
  expect({
    handlebars: said(() => handlebarsPieces({ text })),
    mustache: said(() => mustachePieces({ text }).pieces),
    jinja: said(() => jinjaPieces({ text })),
    plain: said(() => plainPieces(text)),
  }).toEqual({ handlebars, mustache, jinja, plain });
});

describe("what a template can't say is refused with its line", () => {
  const refusal = (read: () => unknown) => {
    try {
      read();
    } catch (error) {
      if (error instanceof ImportError) return `${error.place}: ${error.message}`;
      throw error;
    }
    return "none";
  };
  test.each([
    [() => jinjaPieces({ text: "a\n{% for x in xs %}", firstLine: 4 }), "line 5: {% for x in xs %} can't be said"],
    [() => jinjaPieces({ text: "a {# b", place: "prompts[0]" }), "prompts[0]: {# b can't be said"],
    [() => mustachePieces({ text: "a\n{{#xs}}b{{/xs}}" }), "line 2: {{#xs}} can't be said"],
    [() => handlebarsPieces({ text: "{{#each xs}}b{{/each}}" }), "line 1: {{#each xs}} can't be said"],
    [() => handlebarsPieces({ text: "a\n{{name", firstLine: 3 }), "line 4: {{name can't be said"],
  ])("%p", (read, message) => {
    expect(refusal(read)).toStartWith(message);
  });
});

describe("Handlebars", () => {
  test("reads three closing braces as a variable and a brace, and says that its own program does not", () => {
    const notes: string[] = [];
    const pieces = handlebarsPieces({
      text: 'a\n{"x": {{x}}}',
      note: (place, message) => notes.push(`${place}: ${message}`),
    });
    expect(pieces).toEqual(['a\n{"x": ', { variable: "x" }, "}"]);
    expect(notes).toEqual(["line 2: {{x}}} is an error in Handlebars: it is read as {{x}} and a brace"]);
  });

  test("puts partials in their place, with the indent of a line of their own", () => {
    const partial = (name: string) => `<${name} {{name}}\n\nb>\n`;
    expect(said(() => handlebarsPieces({ text: "a\n  {{> p}}\nc {{>p}} d", partial }))).toBe(
      "a\n  <p Ann\n\n  b>\nc <p Ann\n\nb>\n d",
    );
    expect(said(() => handlebarsPieces({ text: "{{> p}}", partial: () => "{{> p}}" }))).toBeNull();
  });
});

test("what looks like a variable to people, and is none by the plain rules, is named", () => {
  expect(unnamedMarks(plainPieces("{{a}} {{a-b}} {{#if x}} {{{c}}} {{}} {{1}}"))).toEqual([
    "{{a-b}}",
    "{{#if x}}",
    "{{1}}",
  ]);
});

test("any text and any variables come back from a persona's template", () => {
  const text = fc.array(fc.constantFrom("{", "}", "\\", "{{", "}}", '"', "\n", "{{x}}", '{{"a"}}', "é"), {
    maxLength: 8,
  });
  const piece = fc.oneof(
    text.map((all) => all.join("")),
    fc.constant({ variable: "name" }),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const expected = pieces.map((one) => (typeof one === "string" ? one : "Ann")).join("");
      expect(said(() => pieces)).toBe(expected);
    }),
    { numRuns: runs(3000) },
  );
});
