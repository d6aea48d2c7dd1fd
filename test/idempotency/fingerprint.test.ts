import { expect, test } from "bun:test";
import fc from "fast-check";
import { fingerprint, fingerprintInSlices } from "../../src/idempotency/fingerprint.ts";
import { slicesBegun } from "../../src/lib/time/cooperative-scheduling.ts";

const of = (body: string) => fingerprint(JSON.parse(body), body);
const ofValue = (value: unknown) => fingerprint(value, JSON.stringify(value));

test.each([
  ['{"seed":9007199254740992}', '{"seed":9007199254740993}'],
  ['{"a":[1,-12345678901234567890 ]}', '{"a":[1,-12345678901234567891 ]}'],
  ['{"a":[9007199254740992,9007199254740993]}', '{"a":[9007199254740993,9007199254740993]}'],
  ['{"t":0.123456789012345678}', '{"t":0.123456789012345679}'],
])("%s and %s are two requests, though a parser makes the same of them", (one, other) => {
  expect(JSON.parse(one)).toEqual(JSON.parse(other));
  expect(of(one)).not.toBe(of(other));
  const bytes = new TextEncoder().encode(one);
  expect(fingerprint(JSON.parse(one), bytes)).toBe(of(one));
});

test("the order of keys, white space and what stands in texts make no difference", () => {
  expect(of('{"b":9007199254740993,"a":[ 12345678901234567890\n]}')).toBe(
    of('{"a":[12345678901234567890],"b":9007199254740993}'),
  );
  const escaped = '{"a":"\\u0031234567890123456","b":1.0}';
  expect(of(escaped)).toBe(of('{"b":1,"a":"1234567890123456"}'));
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const reversed = Object.fromEntries(Object.entries(value).reverse());
      expect(of(JSON.stringify(reversed, null, 1))).toBe(of(JSON.stringify(value)));
    }),
  );
});

test("it does not depend on the order of keys, and on nothing but the value", () => {
  const one = {
    model: "a/b",
    messages: [{ role: "user", content: "x" }],
    n: 1,
    tools: [{ a: null, b: [true, 1.5] }],
  };
  const same = {
    tools: [{ b: [true, 1.5], a: null }],
    n: 1.0,
    messages: [{ content: "x", role: "user" }],
    model: "a/b",
  };
  expect(ofValue(same)).toBe(ofValue(one));
  expect(of(` ${JSON.stringify(same, null, 2)}`)).toBe(ofValue(one));
  expect(ofValue({ ...one, seed: undefined })).toBe(ofValue(one));
  const others = [
    { ...one, n: 2 },
    { ...one, n: "1" },
    { ...one, seed: null },
    { ...one, messages: [{ role: "user", content: "x " }] },
    { ...one, messages: [...one.messages, ...one.messages] },
    { ...one, tools: [{ a: null, b: [1.5, true] }] },
    [one],
    { 'model":"a/b': 1 },
  ];
  expect(new Set(others.map(ofValue)).size).toBe(others.length);
  for (const other of others) expect(ofValue(other)).not.toBe(ofValue(one));
});

test("in slices it is the same, and no slice hashes more than a megabyte", async () => {
  await fc.assert(
    fc.asyncProperty(fc.jsonValue(), async (value) => {
      const body = JSON.stringify(value);
      expect(await fingerprintInSlices(value, body)).toBe(fingerprint(value, body));
    }),
  );
  const large = { a: ["x".repeat(2 ** 20 - 1) + '😀"\n'.repeat(2 ** 20), "\ud83d".repeat(2 ** 20 + 1)], b: undefined };
  const before = slicesBegun();
  expect(await fingerprintInSlices(large, "")).toBe(fingerprint(large, ""));
  expect(slicesBegun() - before).toBeGreaterThanOrEqual(6);
});
