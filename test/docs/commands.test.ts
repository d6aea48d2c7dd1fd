/** Commands of the pages that somebody types in a clone, where nothing but npm need be installed. */
import { expect, test } from "bun:test";
import { globSync, readFileSync, statSync } from "node:fs";
import { TempFolder } from "../helpers/temp-folder.ts";

const pages = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", ...globSync("docs/**/*.md")];

test.each(pages)("%s takes Bun from the clone", (page) => {
  const bare = readFileSync(page, "utf8").match(
    /(?<![./\w-])bunx? (?:run|test|install|src\/|test\/|build\.ts)[^\n`]*/g,
  );
  expect(bare ?? []).toEqual([]);
});

test("the command of a clone runs from wherever it is called, in that folder", async () => {
  const { bin } = JSON.parse(readFileSync("package.json", "utf8")) as { bin: Record<string, string> };
  expect(Object.keys(bin)).toEqual(["troupe"]);
  expect(statSync(bin["troupe"]!).mode & 0o111).toBe(0o111);
  using folder = new TempFolder();
  // As npm links it.
  const linked = folder.file("troupe");
  Bun.spawnSync(["ln", "-s", `${process.cwd()}/${bin["troupe"]}`, linked]);
  const ran = Bun.spawnSync([linked, "config", "print", "--json"], { cwd: folder.path });
  expect(ran.stdout.toString()).toContain(`${folder.path}/data`);
  expect(ran.exitCode).toBe(0);
}, 60_000);
