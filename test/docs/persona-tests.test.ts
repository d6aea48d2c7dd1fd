/** What docs/persona-tests.md shows is what the parser takes, and it shows all of it. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { formatDiagnostic } from "../../src/lib/yaml/yaml.ts";
import { assertionNames } from "../../src/personas/tests/assertion-schema.ts";
import { TestFile } from "../../src/personas/tests/schema.ts";
import { parseTestFile } from "../../src/personas/tests/test-file.ts";

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

test("the workflow of the page calls commands that there are", () => {
  const workflow = /^```yaml\n(# \.github\/workflows\/.*?)^```$/ms.exec(page)![1]!;
  const { steps } = parse(workflow).jobs.test as { steps: { run?: string }[] };
  expect(steps.flatMap(({ run }) => run ?? [])).toEqual([
    "troupe personas check",
    "troupe personas test --replay --junit results.xml",
  ]);
});
