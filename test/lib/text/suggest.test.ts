import { expect, test } from "bun:test";
import { suggest } from "../../../src/lib/text/suggest.ts";

const keys = ["base_url", "api_key", "headers", "models", "options", "model_rules", "timeouts"];

test.each([
  ["base_ulr", "base_url"],
  ["baseUrl", "base_url"],
  ["api-key", "api_key"],
  ["apikey", "api_key"],
  ["model", "models"],
  ["modle_rules", "model_rules"],
  ["header", "headers"],
  ["TIMEOUTS", "timeouts"],
])("%p is taken for %p", (word, meant) => {
  expect(suggest(word, keys)).toBe(meant);
});

test.each(["colour", "", "x", "models", "headers"])("%p is near nothing, or known", (word) => {
  expect(suggest(word, keys)).toBeUndefined();
});

test("a word of any length is answered at once", () => {
  expect(suggest("base_url".repeat(100_000), keys)).toBeUndefined();
});

test("the nearest of several wins, the first among equals", () => {
  expect(suggest("hosts", ["host", "ports", "hosts2"])).toBe("host");
  expect(suggest("port", ["sort", "port_", "fort"])).toBe("port_");
});
