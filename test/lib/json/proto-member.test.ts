import { expect, test } from "bun:test";
import { EventEmitter } from "node:events";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import "../../../src/lib/json/proto-member.ts";

const name = "__proto__" as string;
const text = '{"__proto__":{"model":"x"},"a":1}';
const parsed = () => JSON.parse(text) as Record<string, unknown>;

test("a copy by assignment keeps a member named __proto__, and takes no defaults from it", () => {
  const copy: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(parsed())) copy[key] = value;
  const absent: Record<string, unknown> = {};
  absent[name] ??= { model: "x" };
  for (const one of [copy, Object.assign({}, parsed()), { ...parsed() }, structuredClone(parsed())]) {
    expect(JSON.stringify(one)).toBe(text);
    expect(one["model"]).toBeUndefined();
    expect(Object.getPrototypeOf(one)).toBe(Object.prototype);
  }
  expect(JSON.stringify(absent)).toBe('{"__proto__":{"model":"x"}}');
  copy[name] = 2;
  expect(JSON.stringify(copy)).toBe('{"__proto__":2,"a":1}');
  delete copy[name];
  expect(JSON.stringify(copy)).toBe('{"a":1}');
});

test("nothing reaches Object.prototype by that name", () => {
  const plain: Record<string, unknown> = {};
  expect(plain[name]).toBeUndefined();
  const shared = Object.prototype as unknown as Record<string, unknown>;
  const before = Object.getOwnPropertyDescriptor(shared, name);
  expect(() => Object.defineProperty(shared, name, { value: 1 })).toThrow(TypeError);
  expect(Object.getOwnPropertyDescriptor(shared, name)).toEqual(before!);
  expect(before?.enumerable).toBe(false);
});

test("all but plain objects have the accessor of the language", () => {
  class Emitter extends EventEmitter {}
  const emitter = new Emitter() as unknown as Record<string, unknown>;
  expect(emitter[name]).toBe(Emitter.prototype);
  expect(([] as unknown as Record<string, unknown>)[name]).toBe(Array.prototype);
  emitter[name] = null;
  expect(Object.getPrototypeOf(emitter)).toBeNull();
  expect(Object.keys(emitter)).not.toContain(name);
  // Twice initialised, it looks at its prototype by that name.
  expect(() => EventEmitter.call(new Emitter())).not.toThrow();
  expect({ __proto__: null }).not.toBeInstanceOf(Object);
});

test("the program has it before anything else", () => {
  const main = readFileSync(resolve(import.meta.dir, "../../../src/main.ts"), "utf8");
  expect(/^import .*$/m.exec(main)?.[0]).toBe('import "./lib/json/proto-member.ts";');
});
