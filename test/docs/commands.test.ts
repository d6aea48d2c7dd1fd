/** Commands of the pages that somebody types in a clone. The README's want npm alone, those for who changes the program its Bun. */
import { expect, test } from "bun:test";
import { globSync, readFileSync, statSync } from "node:fs";
import { TempFolder } from "../helpers/temp-folder.ts";

const pages = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", ...globSync("docs/**/*.md")];

test.each(pages)("%s names nothing of the workshop", (page) => {
  const text = readFileSync(page, "utf8");
  expect(text.match(/[^\s`]*\.ci\/[^\n`]*/g) ?? []).toEqual([]);
  if (page === "README.md") expect(text.match(/(?<![./\w-])bunx? [^\n`]*/g) ?? []).toEqual([]);
});

test("CONTRIBUTING.md says where Bun comes from, and names the one of package.json", () => {
  const { engines } = JSON.parse(readFileSync("package.json", "utf8")) as { engines: { bun: string } };
  expect(readFileSync("CONTRIBUTING.md", "utf8")).toContain(`npm install -g bun@${engines.bun}`);
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
});
