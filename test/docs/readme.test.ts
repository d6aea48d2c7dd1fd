import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parsePersona } from "../../src/personas/persona.ts";
import { pageBlock } from "../helpers/page-blocks.ts";
import { follow, steady, stepsOf } from "../helpers/page-session.ts";
import { Troupe } from "../helpers/troupe.ts";

const readme = readFileSync("README.md", "utf8");
const steps = stepsOf("README.md");

test("README.md prints what it says, from its first command to its last", async () => {
  await using troupe = await Troupe.start();
  const printed = await follow(steps, {
    cwd: join(troupe.data, ".."),
    here: { "http://127.0.0.1:8080": troupe.url, "data/first-key": `${troupe.data}/first-key` },
  });
  for (const [at, { name, output }] of steps.entries()) {
    expect(printed[at], `${name} ran`).toBeDefined();
    if (output !== undefined) expect(steady(printed[at]!)).toBe(steady(output));
  }
  expect(steps.map(({ language }) => language)).toEqual(["sh", "sh", "sh", "ts"]);
});

describe("README.md", () => {
  test("its persona is one", () => {
    expect(parsePersona(pageBlock("README.md", "Use", "yaml"), "README.md", "team/greeter")).toHaveProperty("persona");
  });

  test("every page it names exists, and so does every script", () => {
    for (const [, path] of readme.matchAll(/\]\((docs\/[^)]+)\)/g)) expect(() => readFileSync(path!)).not.toThrow();
    const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };
    for (const name of ["start", "test", "build"]) expect(scripts[name]).toBeString();
  });
});
