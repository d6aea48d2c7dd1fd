import { expect, test } from "bun:test";
import fc from "fast-check";
import type { JsonObject } from "../../../src/lib/json/json.ts";
import { JsonScan, noLimits } from "../../../src/lib/json/scan.ts";
import { scanned } from "../../../src/protocols/body/body.ts";
import { respell } from "../../../src/protocols/body/source.ts";
import { runs } from "../../helpers/long-form.ts";
import { textOfBody } from "../../helpers/upstream-body.ts";

/** Texts and keys that are easily taken for something else. */
const nasty = fc.oneof(
  fc.constantFrom(
    "model",
    '"model"',
    '"model":"x"',
    "\\",
    '\\"',
    '","model":"',
    "\\u006dodel",
    "}",
    "{",
    "toString",
    "é😀\ud800",
  ),
  fc.string({ unit: "binary", maxLength: 8 }),
);
const key = fc.oneof({ weight: 1, arbitrary: nasty }, { weight: 6, arbitrary: fc.stringMatching(/^[a-z]{1,5}$/) });
const value = fc.letrec((tie) => ({
  json: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    nasty,
    fc.oneof(fc.double(), fc.integer(), fc.boolean(), fc.constant(null)).map((one) => JSON.parse(JSON.stringify(one))),
    fc.array(tie("json"), { maxLength: 3 }),
    fc.dictionary(key, tie("json"), { maxKeys: 3, noNullPrototype: true }),
  ),
})).json;

/** One of the many texts of a string: any character may be escaped. */
function spelled(text: string, isEscaped: () => boolean): string {
  const units = text.split("").map((unit) => {
    const escaped = `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
    return isEscaped() || /[\ud800-\udfff]/.test(unit) ? escaped : JSON.stringify(unit).slice(1, -1);
  });
  return `"${units.join("")}"`;
}

function written(value: unknown, isEscaped: () => boolean, space: () => string): string {
  const within = (one: unknown) => space() + written(one, isEscaped, space) + space();
  if (typeof value === "string") return spelled(value, isEscaped);
  if (Array.isArray(value)) return `[${value.map(within).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).map(
    ([name, one]) => `${space()}${spelled(name, isEscaped)}${space()}:${within(one)}`,
  );
  return `{${fields.join(",")}}`;
}

test("what is copied says the same as what would be written anew", () => {
  let copied = 0;
  fc.assert(
    fc.property(
      fc.array(fc.tuple(key, value), { maxLength: 5 }),
      fc.nat(5),
      key,
      fc.dictionary(key, value, { maxKeys: 2, noNullPrototype: true }),
      fc.constantFrom("nothing", "nothing", "one less", "one changed"),
      fc.infiniteStream(fc.nat(150)),
      (fields, at, name, added, change, dice) => {
        const roll = () => dice.next().value as number;
        const entries = fields.toSpliced(at, 0, ["model", `openai/${name}`]);
        const body = Object.fromEntries(entries);
        const text = written(
          body,
          () => roll() === 0,
          () => ["", "", " ", "\n\t"][roll() % 4]!,
        );
        const parsed = JSON.parse(text) as JsonObject;
        const next: JsonObject = { ...added, ...parsed, model: name };
        const other = Object.keys(parsed).find((one) => one !== "model");
        if (other !== undefined && change === "one less") delete next[other];
        if (other !== undefined && change === "one changed") next[other] = ["new"];
        const result = respell({ body: text, parsed }, next);
        const read = scannedSource(text);
        const bytes = respell({ ...read, parsed }, next);
        // By its colon the name is found where a search for its key has doubts.
        if (result !== undefined) expect(bytes && textOfBody(bytes)).toBe(result as string);
        else if (bytes !== undefined) expect(JSON.parse(textOfBody(bytes))).toEqual(JSON.parse(JSON.stringify(next)));
        if (result === undefined) return;
        copied += 1;
        expect(JSON.parse(textOfBody(result))).toEqual(JSON.parse(JSON.stringify(next)));
      },
    ),
    { numRuns: runs(2000) },
  );
  expect(copied).toBeGreaterThan(runs(300));
});

/** The same as bytes, as they are read. */
function scannedSource(text: string) {
  const body = new TextEncoder().encode(text);
  const scan = new JsonScan(noLimits, undefined, true);
  scan.push(body);
  return { body, parsed: JSON.parse(text) as JsonObject, ...scanned(scan, body) };
}

const source = (body: string) => ({ body, parsed: JSON.parse(body) as JsonObject });

test("all but the model's name stays as it was written", () => {
  const text = (model: string) => String.raw` {"a":9007199254740993,"model" :${model},"a":1.0,"b\u00e9":"\/"} `;
  const given = source(text('"x/y"'));
  expect(respell(given, { ...given.parsed, model: 'y"' })).toBe(text(String.raw`"y\""`));
  expect(respell(given, { ...given.parsed, model: "y", b: [], c: undefined })).toBe(text('"y","b":[]'));
});

test("bytes are copied by views of them, around the name", () => {
  const text = (model: string) => `{"é😀":"${"日".repeat(2000)}","model":"${model}","x":1.0}`;
  const read = scannedSource(text("x/é"));
  const { body, parsed } = read;
  const copy = respell(read, { ...parsed, model: "y" });
  expect(textOfBody(copy)).toBe(text("y"));
  expect((copy as Uint8Array[]).map(({ buffer }) => buffer === body.buffer)).toEqual([true, false, true]);
});

test("where the place is in doubt, or more has changed, nothing is copied", () => {
  const refused = (text: string, changes: JsonObject = {}) => {
    const given = source(text);
    return respell(given, { ...given.parsed, model: "y", ...changes });
  };
  expect(refused(`{"model":"x/y","b":{"model":1}}`)).toBeUndefined();
  expect(refused(`{"model":"x","model":"x/y"}`)).toBeUndefined();
  expect(refused(`{"b":"model","model":"x/y"}`)).toBeUndefined();
  expect(refused(String.raw`{"\u006dodel":"x/y","b":{"model":"x/y"}}`)).toBeUndefined();
  expect(refused(String.raw`{"model":"x\/y"}`)).toBeUndefined();
  expect(refused(`{"model":"x/y","b":1}`, { b: undefined })).toBeUndefined();
  expect(refused(`{"model":"x/y","b":1}`, { b: 2 })).toBeUndefined();
  expect(refused(`{"model":"x/y","b":[]}`, { b: [] })).toBeUndefined();
  expect(refused(`{"model":"x/y","b":1}`)).toBe(`{"model":"y","b":1}`);
});

test("in bytes the name is found by its colon, whatever else says the same", () => {
  const placed = (text: string) => {
    const read = scannedSource(text);
    const copy = respell(read, { ...read.parsed, model: "y" });
    return copy && textOfBody(copy);
  };
  expect(placed(`{"b":{"model":1},"c":"\\u006d","model" : "x/y"}`)).toBe(
    `{"b":{"model":1},"c":"\\u006d","model" : "y"}`,
  );
  expect(placed(`{"b":"model","model":"x/y"}`)).toBe(`{"b":"model","model":"y"}`);
  expect(placed(String.raw`{"a,\"model":1,"model":"x/y"}`)).toBe(String.raw`{"a,\"model":1,"model":"y"}`);
  expect(placed(String.raw`{"\u006dodel":"x/y","b":{"model":"x/y"}}`)).toBeUndefined();
  expect(placed(String.raw`{"model":"x\/y"}`)).toBeUndefined();
  expect(placed(`{"model":"${"x".repeat(2000)}"}`)).toBeUndefined();
});
