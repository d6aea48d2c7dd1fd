import { expect, test } from "bun:test";
import { providerNamed, providers } from "../../src/providers/registry.ts";

test("names are unique, and each provider is found by its name", () => {
  expect(new Set(providers.map(({ name }) => name)).size).toBe(providers.length);
  for (const provider of providers) expect(providerNamed(provider.name)).toBe(provider);
  expect(providerNamed("nobody")).toBeUndefined();
});
