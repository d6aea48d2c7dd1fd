/** Links of the pages that a release carries: each leads to a file that is in it too, and to a heading that is there. */
import { expect, test } from "bun:test";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { companions } from "../../deploy/release/release.ts";

const pages = [...companions.filter((path) => path.endsWith(".md")), ...globSync("docs/**/*.md")];

/** As GitHub names headings. */
const anchorsOf = (page: string) =>
  [...readFileSync(page, "utf8").matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );

const isCarried = (path: string) =>
  existsSync(path) && companions.some((one) => path === one || path.startsWith(`${one}/`));

test.each(pages)("links of %s lead somewhere", (page) => {
  const links = [...readFileSync(page, "utf8").matchAll(/\]\(([^)#:]*)(?:#([^)]+))?\)/g)];
  const lost = links.filter(([, path, anchor]) => {
    const target = path === "" ? page : normalize(join(dirname(page), path!)).replace(/\/$/, "");
    return !isCarried(target) || (anchor !== undefined && !anchorsOf(target).includes(anchor));
  });
  expect(lost.map(([link]) => link)).toEqual([]);
});
