/** docs/llms.txt, the index that programs read (https://llmstxt.org): every page once, by its own title. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";

const index = readFileSync("docs/llms.txt", "utf8");
const links = [...index.matchAll(/^- \[(.+)\]\(([^)]+)\): (\S.*)$/gm)].map(([, title, target]) => ({
  title,
  target: target!,
}));

test("names every page and schema once, and nothing else", () => {
  const pages = readdirSync("docs").filter((name) => /\.(?:md|json)$/.test(name));
  expect(links.map(({ target }) => target).toSorted()).toEqual(pages.toSorted());
  expect(links).toHaveLength(index.match(/^- /gm)!.length);
});

test.each(links.filter(({ target }) => target.endsWith(".md")))("$target has its title", ({ title, target }) => {
  expect(readFileSync(`docs/${target}`, "utf8").split("\n")[0]).toBe(`# ${title}`);
});

test("has the form: a title, a summary, then lists under headings", () => {
  expect(index).toMatch(/^# \S.*\n\n> \S/);
  expect(index).toMatch(/\n## /);
});

test("the notes of the release are at most 20 lines, and are what the workflow attaches", () => {
  expect(readFileSync("deploy/release/notes.md", "utf8").trimEnd().split("\n").length).toBeLessThanOrEqual(20);
  expect(readFileSync(".github/workflows/release.yml", "utf8")).toContain("--notes-file deploy/release/notes.md");
});
