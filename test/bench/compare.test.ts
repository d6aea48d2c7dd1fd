import { expect, test } from "bun:test";
import { join } from "node:path";

const hasCompiler = ["cc", "gcc", "clang"].some((name) => Bun.which(name) !== null);

async function run(...words: readonly string[]) {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "compare.ts"), ...words], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, output, errors };
}

test.skipIf(process.platform !== "linux" || !hasCompiler)(
  "builds are compared beside the bare proxy, every answer of theirs checked",
  async () => {
    const source = `${process.execPath} ${join(import.meta.dir, "../../src/main.ts")}`;
    const short = ["--rounds", "1", "--seconds", "0.2", "--first", "200", "--warm", "0.1", "--callers", "4"];
    const { code, output, errors } = await run(...short, `this=${source}`);
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    const [bare, own, ...others] = output.split("\n").filter((line) => /^\| (?!server|---)/.test(line));
    expect(bare).toMatch(/^\| bare proxy \| \d+ \| \d+\.\d \(\d+–\d+\) \| 1\.00× \| \d+ \| \d+ \|$/);
    expect(own).toMatch(/^\| this \| \d+ \| \d+\.\d \(\d+–\d+\) \| \d+\.\d\d× \| \d+ \| \d+ \|$/);
    expect(others).toEqual([]);
  },
  60_000,
);

test.skipIf(process.platform !== "linux" || !hasCompiler)(
  "words that name no build, and numbers that are none, are told before anything starts",
  async () => {
    const { code, errors } = await run("nothing");
    expect({ code, errors }).toEqual({ code: 2, errors: "'nothing' is no <name>=<command>; see --help\n" });
    const number = await run("--rounds", "none", "a=b");
    expect(number).toMatchObject({ code: 2, errors: "--rounds must be a number above zero, not 'none'\n" });
  },
  60_000,
);
