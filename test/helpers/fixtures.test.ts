/** What holds for the example cases as files: each belongs to a provider, and an answer's bytes are as the upstream sends them. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { resolve } from "node:path";
import { answeredCases, fixtureCase, fixtureCases, fixtureFamilies } from "./fixtures.ts";

const root = resolve(import.meta.dir, "../fixtures");

test("every folder of cases is that of a remote provider or of one of its modes", () => {
  const folders = readdirSync(root).filter((folder) => existsSync(resolve(root, folder, "fields.json")));
  expect(
    fixtureFamilies()
      .map(({ folder }) => folder)
      .sort(),
  ).toEqual(folders.sort());
  for (const { folder } of fixtureFamilies()) expect([folder, fixtureCases(folder).length]).not.toEqual([folder, 0]);
});

test("no editor has taken the padding from Anthropic's events, or the CRLF from Google's", () => {
  const lines = (family: string) => answeredCases(family, "sse").flatMap(({ upstream }) => upstream.split("\n"));
  expect(lines("anthropic").filter((line) => line.endsWith(" ")).length).toBeGreaterThan(50);
  expect(lines("google").filter((line) => line.endsWith("\r")).length).toBeGreaterThan(50);
});

test("a case that is not there is named", () => {
  expect(() => fixtureCase("openai/none")).toThrow("no fixture case openai/none");
  expect(() => fixtureCase("none/plain")).toThrow("no fixtures of none");
});
