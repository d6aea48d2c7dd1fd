/** What is kept of a text's numbers in pieces is what is kept of them at once. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { keepNumbers } from "../../../src/lib/json/exact.ts";
import { keepNumbersInTurns } from "../../../src/lib/json/exact-in-turns.ts";
import { runs } from "../../helpers/long-form.ts";

const raw = (text: string) => (JSON as unknown as { rawJSON(text: string): number }).rawJSON(text);

const number = fc.oneof(
  fc.constantFrom("1234567890123456789", "1.0", "1E3", "-0", "0.10", "7", "12345678901234567890123").map(raw),
  fc.integer(),
);
const names = [
  "name",
  "input",
  "args",
  "parameters",
  "schema",
  "x",
  "ü",
  'a"b',
  "max_tokens",
  "partialArgs",
  "__proto__",
];
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    number,
    fc.string({ unit: "binary", maxLength: 30 }),
    fc.constantFrom(null, true),
    fc.array(tie("value"), { maxLength: 6 }),
    fc.dictionary(fc.constantFrom(...names), tie("value"), { maxKeys: 6, noNullPrototype: true }),
  ),
}));

async function inPieces(text: string, piece: number): Promise<string> {
  const parsed = JSON.parse(text);
  await keepNumbersInTurns(parsed, Buffer.from(text), piece);
  return JSON.stringify(parsed);
}

function atOnce(text: string): string {
  const parsed = JSON.parse(text);
  keepNumbers(parsed, text);
  return JSON.stringify(parsed);
}

test("as at once, whatever the size of the pieces", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({ tools: value, name: value }),
      fc.integer({ min: 24, max: 90 }),
      async (body, piece) => {
        const text = JSON.stringify(body);
        expect(await inPieces(text, piece)).toBe(atOnce(text));
      },
    ),
    { numRuns: runs(400) },
  );
});

test("of members of one name the last one counts", async () => {
  const text = '{"x":1234567890123456789,"pad":"0123456789012345","x":[1234567890123456780,"1"],"y":1.0}';
  for (const piece of [24, 60, 200]) expect(await inPieces(text, piece)).toBe(atOnce(text));
});
