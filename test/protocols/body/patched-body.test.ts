import { expect, test } from "bun:test";
import fc from "fast-check";
import { keepsSpelling } from "../../../src/lib/json/exact.ts";
import { derive, type JsonObject } from "../../../src/lib/json/json.ts";
import { patchBody } from "../../../src/protocols/body/patched-body.ts";
import { runs } from "../../helpers/long-form.ts";
import { type Lossless, parseLossless } from "../../helpers/lossless-json.ts";
import { textOfBody } from "../../helpers/upstream-body.ts";

type Dice = () => number;
const pick = <T>(dice: Dice, some: readonly T[]): T => some[dice() % some.length]!;

const names = ["a", "b", "seed", "model", "messages", "extra_body", "é", "", "__proto__", "toString", 'q"', "\\", "1"];
const texts = [
  "",
  "x",
  '"',
  "\\",
  '\\"',
  ",",
  '","model":"',
  "é😀",
  "\ud800",
  "\u0000",
  "}",
  "[",
  "/",
  "long ".repeat(400),
];
const numbers = [
  "1.0",
  "9007199254740993",
  "0.10",
  "1e2",
  "-0",
  "-0.0",
  "123456789012345678901234567890",
  "1E-7",
  "0",
  "7",
];

const spelled = (text: string, dice: Dice) =>
  `"${text
    .split("")
    .map((unit) => {
      const isEscaped = text.length < 100 && dice() % 5 === 0;
      return isEscaped || /[\ud800-\udfff]/.test(unit)
        ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`
        : JSON.stringify(unit).slice(1, -1);
    })
    .join("")}"`;

/** The text of some JSON, with odd numbers and spellings, spaces, and names that stand twice. */
function jsonText(dice: Dice, depth: number): string {
  const space = () => pick(dice, ["", "", "", " ", "\n\t"]);
  const list = (length: number, one: () => string) =>
    Array.from({ length }, () => space() + one() + space()).join(",") || space();
  const kind = dice() % (depth === 0 ? 3 : 6);
  if (kind === 0) return pick(dice, numbers);
  if (kind === 1) return spelled(pick(dice, texts), dice);
  if (kind === 2) return pick(dice, ["true", "false", "null"]);
  if (kind === 3) return `[${list(dice() % 4, () => jsonText(dice, depth - 1))}]`;
  return objectText(dice, depth - 1);
}

function objectText(dice: Dice, depth: number): string {
  const space = () => pick(dice, ["", "", "", " ", "\r\n"]);
  const member = () =>
    `${space()}${spelled(pick(dice, names), dice)}${space()}:${space()}${jsonText(dice, depth)}${space()}`;
  return `{${Array.from({ length: dice() % 6 }, member).join(",")}}`;
}

type Pair = { readonly value: unknown; readonly lossless: Lossless };
const isContainer = (value: unknown): value is object => typeof value === "object" && value !== null;
let made = 0;

function fresh(dice: Dice): Pair {
  made += 1;
  const value = pick<unknown>(dice, [`new ${made}`, { new: made + 0.5 }, [`new ${made}`, []], made + 0.25]);
  return { value, lossless: parseLossless(JSON.stringify(value)) };
}

/** Something else made of a value, and what it must be when it is written. */
function changed({ value, lossless }: Pair, dice: Dice): Pair {
  if (Array.isArray(value)) {
    const parts = value.flatMap((one, at): Pair[] => {
      const old = { value: one, lossless: (lossless as Lossless[])[at]! };
      return pick(dice, [[old], [old], [old], [], [fresh(dice), old], isContainer(one) ? [changed(old, dice)] : [old]]);
    });
    if (dice() % 4 === 0) parts.reverse();
    // A number in a list that was changed has no name by which it could be found again.
    const known = parts.filter((part) => isContainer(part.value) || typeof part.value === "string");
    return {
      value: derive(
        value,
        known.map((part) => part.value),
      ),
      lossless: known.map((part) => part.lossless),
    };
  }
  if (isContainer(value)) {
    const members = changedMembers({ value, lossless }, dice);
    return {
      value: derive(value, Object.fromEntries(members.map(([name, one]) => [name, one.value]))),
      lossless: asLossless(members),
    };
  }
  return fresh(dice);
}

const asLossless = (members: readonly (readonly [string, Pair])[]): Lossless =>
  Object.fromEntries(members.map(([name, one]) => [name, one.lossless]));

function changedMembers({ value, lossless }: Pair, dice: Dice): [string, Pair][] {
  const members = Object.entries(value as JsonObject).flatMap(([name, one]): [string, Pair][] => {
    const old = { value: one, lossless: (lossless as Record<string, Lossless>)[name]! };
    return pick(dice, [
      [[name, old]],
      [[name, old]],
      [[name, old]],
      [],
      [[name, fresh(dice)]],
      [[name, changed(old, dice)]],
    ]);
  });
  if (dice() % 3 === 0) members.reverse();
  return dice() % 3 === 0 ? [...members, [`new ${made}`, fresh(dice)]] : members;
}

test("what is kept is what was written, what is new is what is new", () => {
  let copied = 0;
  fc.assert(
    fc.property(fc.array(fc.nat(), { size: "max", minLength: 1, maxLength: 300 }), fc.boolean(), (rolls, inBytes) => {
      let at = 0;
      const dice = () => rolls[at++ % rolls.length] ?? 0;
      const text = `${pick(dice, ["", " \n"])}${objectText(dice, 5)}${pick(dice, ["", "\t"])}`;
      const parsed = JSON.parse(text) as JsonObject;
      const members = changedMembers({ value: parsed, lossless: parseLossless(text) }, dice);
      const next = Object.fromEntries(members.map(([name, one]) => [name, one.value]));
      const body = inBytes ? new TextEncoder().encode(text) : text;
      const written = textOfBody(patchBody({ body, parsed }, next, (name) => [name]));
      expect(parseLossless(written)).toEqual(asLossless(members));
      expect(JSON.stringify(JSON.parse(written))).toBe(JSON.stringify(next));
      if (written.includes("9007199254740993")) copied += 1;
    }),
    { numRuns: runs(1500), includeErrorInReport: true },
  );
  expect(copied).toBeGreaterThan(runs(100));
});

test("a number that would be written in another way is seen", () => {
  const digits = fc.stringMatching(/^\d{0,24}$/);
  const number = fc
    .tuple(
      fc.constantFrom("", "-"),
      fc.oneof(
        fc.constant("0"),
        fc.tuple(fc.integer({ min: 1, max: 9 }), digits).map((some) => some.join("")),
      ),
      fc.option(fc.stringMatching(/^\.0{0,9}\d{1,20}0{0,3}$/), { nil: "" }),
      fc.option(fc.stringMatching(/^[eE][+-]?\d{1,3}$/), { nil: "" }),
    )
    .map((parts) => parts.join(""));
  const short = fc.stringMatching(/^-?[1-9]\d{0,8}(\.\d{1,6})?$/);
  let plain = 0;
  fc.assert(
    fc.property(fc.oneof(number, fc.double({ noNaN: true, noDefaultInfinity: true }).map(String), short), (text) => {
      if (!keepsSpelling(`[${text},1]`)) return;
      plain += 1;
      expect(JSON.stringify(JSON.parse(text))).toBe(text);
    }),
    { numRuns: runs(5000) },
  );
  expect(plain).toBeGreaterThan(runs(250));
  for (const text of ["0.7", "1024", "123456789012345", "-0.5"])
    expect([text, keepsSpelling(text)]).toEqual([text, true]);
});

const source = (body: string) => ({ body, parsed: JSON.parse(body) as JsonObject });
const itself = (name: string) => [name];

test("a message put in front leaves those behind it as one piece of the source", () => {
  const long = "日".repeat(3000);
  const said = `{ "role":"user","content":"${long}", "weight":1.0 } , {"role":"user","content":"\\u0041"}`;
  const text = `{"model":"p","messages":[${said}],"seed":9007199254740993}`;
  const parsed = JSON.parse(text) as JsonObject;
  const body = new TextEncoder().encode(text);
  const system = { role: "system", content: "Be brief." };
  const next = { ...parsed, model: "m", messages: [system, ...(parsed["messages"] as object[])] };
  const pieces = patchBody({ body, parsed }, next, itself) as (string | Uint8Array)[];
  expect(pieces.map((one) => (typeof one === "string" ? one : new TextDecoder().decode(one)))).toEqual([
    '{"model":"m","messages":[{"role":"system","content":"Be brief."},',
    said,
    '],"seed":9007199254740993}',
  ]);
  expect((pieces[1] as Uint8Array).buffer).toBe(body.buffer);
});

test("what moves is found where it stood", () => {
  const given = source(
    `{"max_completion_tokens":1.0,"functions":[{"name":"f","parameters":{"minimum":1.0}}],"extra_body":{"top_k":9007199254740993,"own":{"budget":2.0}},"x":{"effort":3.0}}`,
  );
  const { functions, extra_body, x } = given.parsed as {
    functions: object[];
    extra_body: { top_k: number; own: object };
    x: JsonObject;
  };
  const next = {
    max_tokens: 1,
    tools: functions.map((one) => ({ type: "function", function: one })),
    top_k: extra_body.top_k,
    own: { ...extra_body.own, type: "on" },
    effort: x["effort"],
  };
  const names = (name: string) => (name === "max_tokens" ? [name, "max_completion_tokens"] : [name]);
  expect(patchBody(given, next, names)).toBe(
    '{"max_tokens":1.0,"tools":[{"type":"function","function":{"name":"f","parameters":{"minimum":1.0}}}],"top_k":9007199254740993,"own":{"budget":2.0,"type":"on"},"effort":3.0}',
  );
});

test("of names that stand twice the last one counts", () => {
  const given = source('{"model":1.0,"a":1.0,"a":2.00,"model":"x","b":{"c":1.0,"c":{"d":1.0}}}');
  const next = {
    ...given.parsed,
    model: "y",
    b: derive(given.parsed["b"] as object, { c: (given.parsed["b"] as JsonObject)["c"] }),
  };
  expect(patchBody(given, next, itself)).toBe('{"model":"y","a":2.00,"b":{"c":{"d":1.0}}}');
});

test("what holds too many parts to look up is written anew", () => {
  const many = Array.from({ length: 40_000 }, (_, at) => `"${at}x":1`).join();
  const given = source(`{"seed":1.0,"a":{${many},"last":1.0},"messages":[{"n":1.0}]}`);
  const { a, ...rest } = given.parsed;
  const messages = [{}, ...(rest["messages"] as object[])];
  expect(patchBody(given, { ...rest, messages, ...(a as object) }, itself)).toBe(
    `{"seed":1.0,"messages":[{},{"n":1.0}],${many},"last":1}`,
  );
  const flat = source(`{${many},"last":1.0}`);
  expect(patchBody(flat, { ...flat.parsed, model: "x" }, itself)).toBe(`{${many},"last":1,"model":"x"}`);
});

test("what has no value is not sent, and has no comma", () => {
  const given = source('{"a":1,"b":2}');
  expect(patchBody(given, { a: undefined, b: undefined }, itself)).toBe("{}");
  expect(patchBody(given, { c: { d: undefined, e: [undefined, 1] }, b: 2, a: undefined }, itself)).toBe(
    '{"c":{"e":[null,1]},"b":2}',
  );
});
