import { expect, test } from "bun:test";
import fc from "fast-check";
import { parseInSlices } from "../../../src/lib/json/sliced-parse.ts";
import { slicesBegun } from "../../../src/lib/time/cooperative-scheduling.ts";
import { runs } from "../../helpers/long-form.ts";

const large = "x".repeat(600_000);
const parsed = (text: string) => parseInSlices(Buffer.from(text), JSON.parse);
const element = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constantFrom(large, [large], { a: large }));
const object = fc.record({
  before: fc.jsonValue(),
  list: fc.array(element, { minLength: 3, maxLength: 8 }),
  other: fc.array(fc.jsonValue({ maxDepth: 2 }), { maxLength: 3 }),
});

test("an object is what JSON.parse makes of it, however it is spaced", async () => {
  let sliced = 0;
  await fc.assert(
    fc.asyncProperty(object, fc.constantFrom(0, 1, "\t"), async (value, space) => {
      const text = JSON.stringify(value, undefined, space);
      const found = await parsed(text);
      if (found === undefined) return;
      sliced += 1;
      expect(JSON.stringify(found)).toBe(JSON.stringify(JSON.parse(text)));
    }),
    { numRuns: runs(60) },
  );
  expect(sliced).toBeGreaterThan(runs(5));
});

test.each([
  ["a comma too many", (text: string) => text.replace(/\]\}$/, ",]}")],
  ["no comma", (text: string) => text.replace(`"${large}",`, `"${large}" `)],
  ["no comma between groups", (text: string) => text.replaceAll(`"${large}",`, `"${large}" `)],
  ["two commas", (text: string) => text.replaceAll(`"${large}",`, `"${large}",,`)],
  ["another bracket", (text: string) => text.replace("[", "{")],
  ["another bracket at the end", (text: string) => text.replace(/\]\}$/, "}}")],
  ["no end", (text: string) => text.slice(0, -2)],
  ["something behind", (text: string) => `${text},1`],
  ["a colon in the list", (text: string) => text.replace(`"${large}",`, `"${large}":`)],
  ["a mark", (text: string) => text.replaceAll(",", ",\ufeff")],
])("%s is refused, or left to be parsed at once", async (_, damage) => {
  const text = damage(JSON.stringify({ list: [large, large, large, large] }));
  expect(() => JSON.parse(text)).toThrow();
  let found: unknown;
  try {
    found = await parsed(text);
  } catch {}
  expect(found).toBeUndefined();
});

test("of members of one name the last one counts, and no slice parses more than some elements", async () => {
  const list = JSON.stringify(Array(8).fill(large));
  const before = slicesBegun();
  const found = await parsed(`{"a":${list},"a":[1],"b":${list},"c":2}`);
  expect(found).toEqual({ a: [1], b: Array(8).fill(large), c: 2 });
  expect(Object.keys(found!)).toEqual(["a", "b", "c"]);
  expect(slicesBegun() - before).toBe(5);
});

test.each(["[1]", "{}", '"a"', "", "{", '{"a":1}', `{"__proto__":${JSON.stringify([large, large, large])}}`])(
  "%.20s has no list to be parsed apart",
  async (text) => {
    expect(await parsed(text)).toBeUndefined();
  },
);
