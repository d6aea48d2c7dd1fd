import { expect, test } from "bun:test";
import { join } from "node:path";
import { notices } from "../../../deploy/release/notices.ts";

test("the notices name every package inside, with its licence's text", () => {
  const text = notices(join(import.meta.dir, "../../.."));
  const parts = text.split(`\n${"-".repeat(80)}\n\n`);
  const partOf = (name: string) => parts.find((part) => part.split("\n").includes(name));
  expect(partOf("preact 11.2.0, MIT")).toContain("Copyright (c) 2015-present Jason Miller");
  expect(partOf("elysia 1.4.30, MIT")).toContain("Permission is hereby granted");
  // Both of two licences.
  expect(partOf("type-fest 4.41.0, (MIT OR CC0-1.0)")).toMatch(/CC0 1\.0 Universal[\s\S]*Permission is hereby granted/);
  expect(text).not.toContain("axe-core");
});
