import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Check } from "@sinclair/typebox/value";
import { withDefaults } from "../../src/config/filled.ts";
import { ConfigFile, configJsonSchema } from "../../src/config/schema.ts";
import { settings } from "../../src/config/settings.ts";

describe("the schema", () => {
  test("fits its own defaults", () => {
    expect(Check(ConfigFile, withDefaults(ConfigFile, {}))).toBe(true);
  });

  test("describes every setting, and gives it a default or says what stands in", () => {
    expect(settings.length).toBeGreaterThan(20);
    for (const { schema } of settings) {
      expect(schema["description"]).toMatch(/\.$/);
      expect(schema["default"] !== undefined || schema["description"]?.includes("Default: ")).toBe(true);
    }
  });

  test("is what editors are given", async () => {
    const file = join(import.meta.dir, "../../docs/troupe.schema.json");
    expect(await Bun.file(file).json()).toEqual(configJsonSchema());
  });
});

test("no two settings go by one variable", () => {
  const variables = settings.map(({ variable }) => variable);
  expect(new Set(variables).size).toBe(variables.length);
  expect(variables).toContain("TROUPE_LOG_LEVEL");
  expect(variables).toContain("TROUPE_DATA");
});
