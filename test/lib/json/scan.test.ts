import { expect, test } from "bun:test";
import fc from "fast-check";
import { type MemberRange, membersAt } from "../../../src/lib/json/ranges.ts";
import { type JsonLimits, JsonScan } from "../../../src/lib/json/scan.ts";
import { runs } from "../../helpers/long-form.ts";

const none: JsonLimits = { jsonDepth: 1e9, jsonValues: 1e9, jsonKeys: 1e9, jsonStringBytes: 1e9 };
const encode = (text: string) => new TextEncoder().encode(text);

/** What a text holds, counted on what it was parsed to. */
function countOf(value: unknown): JsonLimits {
  const count = { jsonDepth: 0, jsonValues: 0, jsonKeys: 0, jsonStringBytes: 0 };
  const walk = (one: unknown, depth: number): void => {
    count.jsonValues += 1;
    if (typeof one !== "object" || one === null) return;
    count.jsonDepth = Math.max(count.jsonDepth, depth + 1);
    for (const child of Object.values(one)) walk(child, depth + 1);
    if (!Array.isArray(one)) count.jsonKeys += Object.keys(one).length;
  };
  walk(value, 0);
  return count;
}

const stringBytesOf = (text: string) =>
  Math.max(0, ...[...text.matchAll(/"((?:[^"\\]|\\.)*)"/gs)].map(([, inside]) => encode(inside!).length));

/** @param cuts where the text is cut into pieces */
function exceeded(text: string, limits: JsonLimits, cuts: readonly number[] = []): keyof JsonLimits | undefined {
  const bytes = encode(text);
  const scan = new JsonScan(limits);
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  for (let at = 1; at < places.length; at += 1) {
    const found = scan.push(bytes.subarray(places[at - 1], places[at]));
    if (found !== undefined) return found;
  }
  return undefined;
}

const piece = fc.constantFrom('"', "\\", "[", "{", ",:]}", "\n", "é", "x".repeat(70), "\\".repeat(9));
const anyText = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.array(piece).map((some) => some.join("")),
);
const anyJson = fc.letrec((tie) => ({
  value: fc.oneof({ maxDepth: 5 }, fc.constantFrom(null, true, 1.5), anyText, tie("list"), tie("object")),
  list: fc.array(tie("value"), { maxLength: 5 }),
  object: fc.dictionary(anyText, tie("value"), { maxKeys: 5 }),
})).value;

test("the counts are those of the value, wherever the text is cut and however it is spaced", () => {
  fc.assert(
    fc.property(anyJson, fc.array(fc.nat()), fc.constantFrom(0, 2, "\t"), (value, cuts, space) => {
      const text = JSON.stringify(value, undefined, space);
      const count = { ...countOf(JSON.parse(text)), jsonStringBytes: stringBytesOf(text) };
      expect(exceeded(text, count, cuts)).toBeUndefined();
      for (const name of Object.keys(count) as (keyof JsonLimits)[]) {
        if (count[name] === 0 || (name === "jsonValues" && count.jsonValues === 1)) continue;
        expect(exceeded(text, { ...none, [name]: count[name] - 1 }, cuts)).toBe(name);
      }
    }),
    { numRuns: runs(500) },
  );
});

test("the colons of outer members stand between names and values, wherever the text is cut", () => {
  fc.assert(
    fc.property(anyJson, fc.nat(), fc.constantFrom(0, 2, "\t"), (value, cut, space) => {
      const bytes = Buffer.from(JSON.stringify(value, undefined, space));
      const scan = new JsonScan(none, undefined, true);
      for (const piece of [bytes.subarray(0, cut % bytes.length), bytes.subarray(cut % bytes.length)]) scan.push(piece);
      const members: MemberRange[] = [];
      membersAt(bytes, 0, (_, member) => members.push(member));
      expect(scan.outerColons!).toHaveLength(Math.min(64, members.length));
      expect(scan.outerKeys).toBe(members.length);
      for (const [at, colon] of scan.outerColons!.entries()) {
        const { start, value: behind } = members[at]!;
        expect(bytes.toString("utf8", colon, behind).trim()).toBe(":");
        expect(bytes.toString("utf8", start, colon).trim()).toEndWith('"');
      }
    }),
    { numRuns: runs(500) },
  );
});

const spelled = fc.oneof(
  fc.constantFrom(
    "0",
    "-0",
    "-7",
    "1.0",
    "0.7",
    "1.10",
    "1e5",
    "1E-7",
    "0.0000001",
    "1e-7",
    "123456789012345",
    "1234567890123456",
    "-1.5e+20",
  ),
  fc.double({ noDefaultInfinity: true, noNaN: true }).map((one) => JSON.stringify(one)),
  fc.maxSafeInteger().map(String),
);

test("numbers are told which JSON.stringify would write otherwise, and not what looks like them in strings", () => {
  const numbers = fc.array(
    fc.oneof(
      spelled,
      anyText.map((text) => JSON.stringify(text)),
      fc.constant('"1.10 1e5"'),
    ),
  );
  fc.assert(
    fc.property(numbers, fc.nat(), fc.boolean(), (values, cut, isCut) => {
      const text = `{"a":[${values.join(", ")}]}`;
      const bytes = encode(text);
      const scan = new JsonScan(none);
      const at = isCut ? cut % bytes.length : bytes.length;
      for (const piece of [bytes.subarray(0, at), bytes.subarray(at)]) scan.push(piece);
      const isOdd = values.some(
        (one) => !one.startsWith('"') && (one.length > 15 || JSON.stringify(JSON.parse(one)) !== one),
      );
      // A number that is cut is taken for one.
      if (isCut) expect(scan.hasOddNumbers || !isOdd).toBe(true);
      else expect(scan.hasOddNumbers).toBe(isOdd);
    }),
    { numRuns: runs(500) },
  );
});

test("what is no JSON is looked through as well", () => {
  fc.assert(fc.property(anyText, fc.array(fc.nat()), (text, cuts) => void exceeded(text, none, cuts)));
});

test.each([
  ["brackets", "[".repeat(1e6), "jsonDepth"],
  ["objects in objects", '{"a":'.repeat(1e5), "jsonDepth"],
  ["many keys", `{${'"a":1,'.repeat(1e5)}`, "jsonKeys"],
  ["many numbers", `[${"1,".repeat(1e6)}`, "jsonValues"],
  ["many empty lists", `[${"[],".repeat(1e6)}`, "jsonValues"],
  ["a long string", `"${"x".repeat(1e6)}`, "jsonStringBytes"],
  ["a long string of escapes", `"${'\\"'.repeat(1e6)}"`, "jsonStringBytes"],
] as const)("%s: the limit is told", (_, text, name) => {
  expect(exceeded(text, { jsonDepth: 64, jsonValues: 1000, jsonKeys: 500, jsonStringBytes: 1000 })).toBe(name);
});
