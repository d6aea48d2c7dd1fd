/** ARCHITECTURE.md, CONTRIBUTING.md and docs/decisions name files and functions that exist. */
import { expect, test } from "bun:test";
import { existsSync, globSync, readFileSync } from "node:fs";
import { basename } from "node:path";

const pages = ["ARCHITECTURE.md", "CONTRIBUTING.md", ...globSync("docs/decisions/*.md")];
const sources = globSync("src/**/*.ts");
const code = sources.map((file) => readFileSync(file, "utf8")).join("\n");
const names = new Set(sources.map((file) => basename(file)));

test.each(pages)("%s", (page) => {
  const quoted = [...readFileSync(page, "utf8").matchAll(/`([^`\n]+)`/g)].map((match) => match[1]!);
  const paths = quoted.filter((text) => /^(?:src|test|docs|\.ci)\/[\w./*-]+$/.test(text));
  expect(paths.filter((path) => globSync(path).length === 0 && !existsSync(path))).toEqual([]);
  const files = quoted.filter((text) => /^[\w-]+\.ts$/.test(text));
  expect(files.filter((file) => !names.has(file))).toEqual([]);
  const functions = quoted.flatMap((text) => /^(\w+)\(\)$/.exec(text)?.[1] ?? []);
  expect(functions.filter((name) => !new RegExp(`\\b${name}\\(`).test(code))).toEqual([]);
  const links = [...readFileSync(page, "utf8").matchAll(/\]\(([^)#:]+)\)/g)].map((match) => match[1]!);
  const folder = page.slice(0, page.lastIndexOf("/") + 1);
  expect(links.filter((link) => !existsSync(folder + link))).toEqual([]);
});

test("ARCHITECTURE.md names every room", () => {
  const text = readFileSync("ARCHITECTURE.md", "utf8");
  const rooms = new Set(sources.flatMap((file) => /^src\/([\w-]+)\//.exec(file)?.[1] ?? []));
  expect([...rooms].filter((room) => !text.includes(`\`src/${room}\``))).toEqual([]);
});
