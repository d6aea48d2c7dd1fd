/** Documents, examples and shipped personas name models that live on, by the table of announced endings and the day it was checked. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { announcedEnd, endState } from "../../src/facts/endings.ts";
import { announcedEndings, factsAsOf } from "../../src/facts/facts.ts";
import { providers } from "../../src/providers/registry.ts";

/** Not the time of the test: an unchanged tree stays green, and whoever renews the table renews what it names. */
const now = Date.parse(factsAsOf);
const ending = announcedEndings().flatMap(([, model, ends]) => (endState(ends, now) === "later" ? [] : [model]));

/** `docs/fields.md` says how fields of ended models are treated too, as other hosts serve them on. */
const files = [
  ...["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md"],
  ...["docs/**/*.{md,json}", "deploy/**/*", "personas/**/*.yaml"].flatMap((glob) => [...new Bun.Glob(glob).scanSync()]),
].filter((path) => path !== "docs/fields.md");

const escaped = (text: string) => text.replaceAll(".", "\\.");
const names = new RegExp(
  `(?<![\\w.-])(?:${ending.map(escaped).join("|")})(?:-20\\d\\d-?\\d\\d-?\\d\\d)?(?![\\w*]|[.-]\\w)`,
  "g",
);

test.each(files)("%s names no model that has ended, or ends within six months", (path) => {
  expect(readFileSync(path, "utf8").match(names) ?? []).toEqual([]);
});

describe("the table", () => {
  test("finds names, snapshots and nothing else", () => {
    expect("a gpt-4o, openai/gpt-4.1-mini-2025-04-14.".match(names)).toEqual(["gpt-4o", "gpt-4.1-mini-2025-04-14"]);
    expect("gpt-5.5 gpt-5* my-gpt-4o gpt-4o-f100-i10".match(names)).toBeNull();
  });

  test("has each model once, with a day that there is", () => {
    const all = announcedEndings().map(([provider, model]) => `${provider}/${model}`);
    expect(new Set(all).size).toBe(all.length);
    for (const [, , ends] of announcedEndings()) expect(new Date(ends).toISOString().slice(0, 10)).toBe(ends);
  });

  test("no provider's well-known models end soon", () => {
    const listed = providers.flatMap(({ name, models }) => models.map((model) => [name, model] as const));
    const found = listed.filter(([provider, model]) => {
      const ends = announcedEnd(provider, model);
      return ends !== undefined && endState(ends, now) !== "later";
    });
    expect(found).toEqual([]);
  });
});
