/** The set-ups of docs/clients.md for SDKs: each prints what a server of this version answers. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describePython } from "../clients/describe-client.ts";
import { type PythonPackage, python } from "../clients/installed.ts";
import { pageBlock, pageBlocks } from "../helpers/page-blocks.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";

const page = "docs/clients.md";
const troupe = untilEnd(await Troupe.start());

/** @returns the lines that it prints */
async function run(command: readonly string[], text: string, file: string): Promise<string[]> {
  writeFileSync(file, text.replaceAll("http://127.0.0.1:8080", troupe.url));
  const child = Bun.spawn([...command, file], {
    env: { ...process.env, TROUPE_KEY: troupe.key },
    stderr: "inherit",
  });
  const lines = (await child.stdout.text()).trim().split("\n");
  expect(await child.exited).toBe(0);
  return lines;
}

const scripts = pageBlocks(page).filter(({ language }) => language === "ts");

test("the SDKs are there", () =>
  expect(scripts.map(({ section }) => section)).toEqual([
    "OpenAI's SDKs",
    "Anthropic's SDKs",
    "AI SDK",
    "LangChain",
    "Agents SDK",
  ]));

test.each(scripts.map((block) => [block.section, block] as const))("%s in TypeScript", async (_, { text }) => {
  const file = join(import.meta.dir, "..", "..", "node_modules", ".troupe-client-example.ts");
  expect(new Set(await run([process.execPath], text, file))).toEqual(new Set(["Hello!"]));
});

const inPython: readonly [PythonPackage, string][] = [
  ["openai", "OpenAI's SDKs"],
  ["anthropic", "Anthropic's SDKs"],
  ["google.genai", "Google's SDKs"],
  ["langchain_openai", "LangChain"],
  ["agents", "Agents SDK"],
];
for (const [name, section] of inPython) {
  describePython(name, () =>
    test(section, async () => {
      const file = join(troupe.data, "example.py");
      expect(await run([python!], pageBlock(page, section, "python"), file)).toEqual(["Hello!"]);
    }),
  );
}
