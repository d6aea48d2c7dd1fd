/** What docs/persona-tests.md shows is what the parser takes, and it shows all of it. */
import { expect, test } from "bun:test";
import { cpSync, readFileSync, symlinkSync } from "node:fs";
import { parse } from "yaml";
import { formatDiagnostic } from "../../src/lib/yaml/yaml.ts";
import { assertionNames } from "../../src/personas/suites/assertion-schema.ts";
import { TestFile } from "../../src/personas/suites/schema.ts";
import { parseTestFile } from "../../src/personas/suites/test-file.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const page = readFileSync("docs/persona-tests.md", "utf8");
const files = [...page.matchAll(/^```yaml\n(# personas\/\S+\.test\.yaml\n.*?)^```$/gms)].map((match) => match[1]!);

test("the page shows test files", () => {
  expect(files.length).toBeGreaterThan(1);
});

test.each(files)("a file of the page is right: %s", (text) => {
  const parsed = parseTestFile(text, "page", { persona: "acme/support", declared: new Set(["language"]) });
  expect("errors" in parsed ? parsed.errors.map(formatDiagnostic) : []).toEqual([]);
});

test("the page names every assertion and every key", () => {
  const names = [...assertionNames, ...Object.keys(TestFile.properties).filter((key) => key !== "description")];
  expect(names.filter((name) => !page.includes(`\`${name}`) && !page.includes(`.${name}`))).toEqual([]);
});

test("the workflow of the page does what it says, in a folder with personas", async () => {
  const workflow = /^```yaml\n(# \.github\/workflows\/.*?)^```$/ms.exec(page)![1]!;
  const { steps } = parse(workflow).jobs.test as { steps: { run?: string }[] };
  const commands = steps.flatMap(({ run }) => run ?? []);
  expect(commands).toHaveLength(2);
  using folder = new TempFolder();
  cpSync("personas", folder.file("personas"), { recursive: true });
  symlinkSync(process.cwd(), folder.file(".troupe"));
  for (const command of commands) {
    const running = Bun.spawn(["sh", "-c", command], { cwd: folder.path, stdout: "ignore", stderr: "inherit" });
    expect([command, await running.exited]).toEqual([command, 0]);
  }
  expect(readFileSync(folder.file("results.xml"), "utf8")).toContain('failures="0"');
});
