import { expect, test } from "bun:test";
import fc from "fast-check";
import { LargeStrings } from "../../../src/lib/json/large-strings.ts";
import type { ByteRange } from "../../../src/lib/json/ranges.ts";
import { JsonScan } from "../../../src/lib/json/scan.ts";
import { runs } from "../../helpers/long-form.ts";

const none = { jsonDepth: 1e9, jsonValues: 1e9, jsonKeys: 1e9, jsonStringBytes: 1e9 };
const numRuns = runs(400);

function partsOf(bytes: Uint8Array, cuts: readonly number[]): Uint8Array<ArrayBuffer>[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return places.slice(1).map((end, at) => new Uint8Array(bytes.subarray(places[at], end)));
}

function spansOf({ largeStrings }: JsonScan): ByteRange[] {
  const bounds = largeStrings.bounds();
  return Array.from({ length: largeStrings.length }, (_, at) => ({ start: bounds[2 * at]!, end: bounds[2 * at + 1]! }));
}

function largeIn(
  text: string,
  cuts: readonly number[],
  minBytes: number,
): { large: LargeStrings; strings: readonly ByteRange[] } {
  const parts = partsOf(new TextEncoder().encode(text), cuts);
  const scan = new JsonScan(none, minBytes);
  for (const part of parts) scan.push(part);
  return { large: new LargeStrings(parts, scan.largeStrings), strings: spansOf(scan) };
}

const textOf = (pieces: readonly (string | Uint8Array)[] | undefined) =>
  pieces && Buffer.concat(pieces.map((piece) => Buffer.from(piece as string))).toString();
const parsedSkeleton = (large: LargeStrings) => JSON.parse(new TextDecoder().decode(large.skeleton()));

const piece = fc.constantFrom('"', "\\", "\n", "\0", "é", "日本", "😀", "\ufeff", "\u2028", "x".repeat(70), "data:,");
const anyText = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.array(piece, { maxLength: 12 }).map((some) => some.join("")),
);
const anyJson = fc.letrec((tie) => ({
  value: fc.oneof({ maxDepth: 4 }, fc.constantFrom(null, true, 1.5), anyText, tie("list"), tie("object")),
  list: fc.array(tie("value"), { maxLength: 4 }),
  object: fc.dictionary(anyText, tie("value"), { maxKeys: 4 }),
})).value;
/** As some clients write it. */
const asAscii = (text: string) =>
  text.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

test("what is left out of a text is put back: in the value, and in the bytes", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(anyJson),
      fc.array(fc.nat()),
      fc.constantFrom(0, 2),
      fc.nat({ max: 80 }),
      fc.boolean(),
      async (value, cuts, space, minBytes, isAscii) => {
        const written = JSON.stringify(value, undefined, space);
        const text = isAscii ? asAscii(written) : written;
        const { large, strings } = largeIn(text, cuts, minBytes);
        const bytes = new TextEncoder().encode(text);
        for (const { start, end } of strings) {
          expect(end - start).toBeGreaterThanOrEqual(minBytes);
          const read = JSON.parse(new TextDecoder().decode(bytes.subarray(start - 1, end + 1)));
          expect(read).toBeString();
        }
        expect(await large.check()).toBeUndefined();
        expect(textOf(large.fill(large.skeleton()))).toBe(text);
        const parsed = parsedSkeleton(large);
        expect(JSON.stringify(parsed).length > 0).toBe(true);
        const refilled = textOf(large.fill(JSON.stringify(parsed)));
        expect(JSON.parse(refilled!)).toEqual(value);
        await large.restore([parsed]);
        expect(parsed).toEqual(value);
        expect(textOf(large.fill([large.skeleton()]))).toBe(text);
      },
    ),
    { numRuns },
  );
});

const badBytes = fc.constantFrom(
  0x00,
  0x1f,
  0x22,
  0x5c,
  0x75,
  0x30,
  0x7f,
  0x80,
  0xbf,
  0xc3,
  0xe2,
  0xed,
  0xa0,
  0xf0,
  0xff,
);
/** With the reader of all JSON. */
function accepts(bytes: Uint8Array): boolean {
  try {
    JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return true;
  } catch {
    return false;
  }
}

test("what a parser refuses in a string is refused, wherever the bytes are cut", async () => {
  const content = fc.oneof(
    fc.array(badBytes, { maxLength: 12 }),
    fc
      .tuple(fc.nat({ max: 40 }), badBytes, fc.nat({ max: 40 }))
      .map(([before, byte, after]) => [...Array(before).fill(0x61), byte, ...Array(after).fill(0x61)]),
  );
  await fc.assert(
    fc.asyncProperty(content, fc.array(fc.nat()), async (bytes, cuts) => {
      const whole = Uint8Array.from([0x22, ...bytes, 0x22]);
      const scan = new JsonScan(none, 0);
      scan.push(whole);
      const isOneString = scan.largeStrings.length === 1 && scan.largeStrings.bounds()[1] === whole.length - 1;
      fc.pre(isOneString);
      const large = new LargeStrings(partsOf(whole, cuts), scan.largeStrings);
      expect((await large.check()) === undefined && accepts(large.skeleton())).toBe(accepts(whole));
    }),
    { numRuns: runs(3000) },
  );
});

const long = "data:image/png;base64,".padEnd(5000, "iVBOR");

test("a string's first bytes are there, for those who tell its kind by them", async () => {
  const longer = long.repeat(4);
  const { large } = largeIn(JSON.stringify([longer]), [], 1000);
  const [shown] = parsedSkeleton(large) as [string];
  expect(shown.slice(0, 256)).toBe(longer.slice(0, 256));
  expect(shown.length).toBeLessThan(400);
});

test("of a short one a thirty-second is there", () => {
  const { large } = largeIn(JSON.stringify([long.slice(0, 3200)]), [], 1000);
  const [shown] = parsedSkeleton(large) as [string];
  expect(shown.startsWith(`${long.slice(0, 100)}large-string-`)).toBe(true);
});

test("a part of a string stands where its placeholder is moved to", () => {
  const { large } = largeIn(JSON.stringify([long]), [700], 1000);
  const [shown] = parsedSkeleton(large) as [string];
  const data = shown.slice(shown.indexOf(",") + 1);
  expect(textOf(large.fill([`{"data":${JSON.stringify(`${data}=`)}}`]))).toBe(
    JSON.stringify({ data: `${long.slice(long.indexOf(",") + 1)}=` }),
  );
});

test("a body in which a string does not stand once is not filled, until the string is restored", async () => {
  const { large } = largeIn(JSON.stringify([long, long]), [], 1000);
  const parsed = parsedSkeleton(large) as [string, string];
  const [first, second] = parsed;
  expect(large.fill(JSON.stringify([first]))).toBeUndefined();
  expect(large.fill(JSON.stringify([first, second, second]))).toBeUndefined();
  expect(large.fill(JSON.stringify([first, second.slice(0, -5)]))).toBeUndefined();
  expect(large.fill(undefined)).toBeUndefined();
  await large.restore([parsed], [first]);
  expect(parsed).toEqual([first, long]);
  expect(textOf(large.fill(JSON.stringify([first, "other"])))).toBe(JSON.stringify([long, "other"]));
  await large.restore([parsed]);
  expect(parsed).toEqual([long, long]);
  expect(large.restoredBytes).toBe(2 * (long.length - Math.ceil(long.length / 32)));
});

test("keys are never left out", () => {
  const { large, strings } = largeIn(JSON.stringify({ [long]: { [long]: "short", other: long } }), [], 1000);
  expect(strings).toHaveLength(1);
  expect(Object.keys(parsedSkeleton(large))).toEqual([long]);
});
