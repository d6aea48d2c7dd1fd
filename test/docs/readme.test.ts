import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parsePersona } from "../../src/personas/persona.ts";
import { Troupe } from "../helpers/troupe.ts";

const readme = readFileSync("README.md", "utf8");
const blocks = [...readme.matchAll(/^```(\S*)( norun)?\n([\s\S]*?)^```$/gm)].map(([, language, norun, text]) => ({
  language: language!,
  runs: norun === undefined,
  text: text!,
}));
/** Examples that are followed by what they print. */
const examples = blocks.flatMap((block, at) => {
  const next = blocks[at + 1];
  return next?.language === "output" ? [{ ...block, output: next.text }] : [];
});

/** What differs from run to run. */
const steady = (text: string) =>
  text
    .replace(/chatcmpl-[0-9a-f]{32}/g, "chatcmpl-…")
    .replace(/"created":\d+/g, '"created":…')
    .trim();

let troupe: Troupe;
beforeAll(async () => {
  troupe = await Troupe.start();
});
afterAll(() => troupe[Symbol.asyncDispose]());

async function run(command: string[]): Promise<string> {
  const key = readFileSync(join(troupe.data, "first-key"), "utf8").trim();
  const child = Bun.spawn(command, {
    cwd: join(troupe.data, ".."),
    env: { ...process.env, KEY: key },
    stderr: "inherit",
  });
  const output = await new Response(child.stdout).text();
  expect(await child.exited).toBe(0);
  return output;
}

describe("README.md", () => {
  test.each(examples.map((example) => [example.text.split("\n")[0]!.slice(0, 60), example] as const))(
    "%s … prints what it says",
    async (_name, { language, text, output }) => {
      const here = text
        .replaceAll("http://127.0.0.1:8080", troupe.url)
        .replaceAll("data/first-key", `${troupe.data}/first-key`);
      if (language === "sh") {
        expect(
          steady(
            await run([
              "bash",
              "-c",
              `set -o pipefail; ${here.replaceAll("| head -n 3", "| (head -n 3; cat >/dev/null)")}`,
            ]),
          ),
        ).toBe(steady(output));
        return;
      }
      const file = join(import.meta.dir, "..", "..", "node_modules", ".troupe-readme-example.ts");
      writeFileSync(file, here);
      expect(steady(await run([process.execPath, file]))).toBe(steady(output));
    },
  );

  test("its examples are there", () =>
    expect(examples.map(({ language }) => language)).toEqual(["sh", "sh", "sh", "ts"]));

  test("its persona is one", () => {
    const yaml = blocks.find(({ language }) => language === "yaml")!.text;
    expect(parsePersona(yaml, "README.md", "team/greeter")).toHaveProperty("persona");
  });

  test("every page it names exists, and so does every script", () => {
    for (const [, path] of readme.matchAll(/\]\((docs\/[^)]+)\)/g)) expect(() => readFileSync(path!)).not.toThrow();
    const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };
    for (const name of ["start", "test", "build"]) expect(scripts[name]).toBeString();
  });
});
