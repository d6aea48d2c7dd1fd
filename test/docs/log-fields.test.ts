/** docs/observability.md's tables of log fields: every field that a request's line may have, and those that several other lines have. */
import { expect, test } from "bun:test";
import { globSync, readFileSync } from "node:fs";

const page = readFileSync("docs/observability.md", "utf8");

/** The names in the first column of the table with that head. */
function namesBelow(head: string): string[] {
  const [, after] = page.split(`| ${head} | |\n| --- | --- |\n`);
  const [rows] = after!.split("\n\n");
  return rows!.split("\n").flatMap((row) =>
    row
      .split(" | ")[0]!
      .match(/`\w+`/g)!
      .map((name) => name.slice(1, -1)),
  );
}

test("the request's are those that the compiler lets code set", () => {
  const declared = readFileSync("src/call/log-fields.ts", "utf8")
    .match(/^ {2}\| "(\w+)"/gm)!
    .map((line) => line.slice(5, -1));
  expect(declared.length).toBeGreaterThan(30);
  expect(namesBelow("field of a request").toSorted()).toEqual(declared.toSorted());
});

test("of other lines' those are there that three of them have, and none that no line has", () => {
  const counts = new Map<string, number>();
  for (const path of globSync("src/**/*.ts"))
    for (const [, fields] of readFileSync(path, "utf8").matchAll(
      /\blog\??\.(?:info|warn|error|debug)\([^{;]*\{([^;]*?)\}\s*,?\s*\)/g,
    ))
      for (const [, name] of fields!.matchAll(/(?:^|[,{])\s*(\w+)(?=\s*(?:[:,]|$))/g))
        counts.set(name!, (counts.get(name!) ?? 0) + 1);
  const shown = namesBelow("field of other lines");
  const common = [...counts].filter(([, count]) => count >= 3).map(([name]) => name);
  expect(common.length).toBeGreaterThan(10);
  expect(common.filter((name) => !shown.includes(name))).toEqual([]);
  expect(shown.filter((name) => !counts.has(name))).toEqual([]);
});
