/** The commands of a page, run in one shell from the first to the last, as somebody who follows it runs them. */
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { testExecutable } from "./executable.ts";

export type Step = {
  /** The first line of its text. */
  readonly name: string;
  readonly language: string;
  readonly text: string;
  /** What the page says that it prints; absent: it need only go well. */
  readonly output?: string;
};

/** @returns the blocks of a page that run (`sh` and `ts`), each with the `output` block that follows it; those marked `norun` are left out */
export function stepsOf(path: string): Step[] {
  const text = readFileSync(path, "utf8");
  const blocks = [...text.matchAll(/^```(\S*)( norun)?\n([\s\S]*?)^```$/gm)];
  return blocks.flatMap(([, language, norun, text], at) => {
    if (norun !== undefined || (language !== "sh" && language !== "ts")) return [];
    const next = blocks[at + 1];
    return [
      {
        name: text!.split("\n")[0]!.slice(0, 60),
        language,
        text: text!,
        ...(next?.[1] === "output" && { output: next[3]! }),
      },
    ];
  });
}

/** What differs from run to run: ids, keys, times and the width of columns. */
export const steady = (text: string) =>
  text
    .replace(/(chatcmpl-|key_)[0-9a-f]{32}/g, "$1…")
    .replace(/trp_\w{8,}…?/g, "trp_…")
    .replace(/"created":\d+/g, '"created":…')
    .replace(/\d{4}-\d\d-\d\d/g, "<day>")
    .replace(/<day>, \d+ days? old.*/g, "<day>, … old")
    .replace(/schema \d+|\d+\.\d MB|\d+ ms\b/g, "…")
    .replace(/[ \t]+/g, " ")
    .trim();

/**
 * Runs the steps with `troupe` on the PATH.
 * @param options.here what the page's addresses and paths are in this run
 * @returns what each printed, stderr included; a step that failed and those after it are absent
 */
export async function follow(
  steps: readonly Step[],
  options: { cwd: string; env?: Readonly<Record<string, string>>; here?: Readonly<Record<string, string>> },
): Promise<string[]> {
  // Modules are found from here.
  const folder = mkdtempSync(join(resolve(import.meta.dir, "../../node_modules"), ".troupe-page-"));
  try {
    symlinkSync(await testExecutable(), join(folder, "troupe"));
    const lines = steps.map((step, at) => {
      const text = Object.entries(options.here ?? {}).reduce((all, [from, to]) => all.replaceAll(from, to), step.text);
      const end = `printf '\\n--- end of step ${at} ---\\n'\n`;
      if (step.language === "sh") return text + end;
      writeFileSync(join(folder, `step-${at}.ts`), text);
      return `'${process.execPath}' '${join(folder, `step-${at}.ts`)}'\n${end}`;
    });
    const shell = Bun.spawn(
      ["bash", "-c", `set -ea\nexec 2>&1\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n${lines.join("")}`],
      {
        cwd: options.cwd,
        env: { ...process.env, ...options.env, PATH: `${folder}:${process.env["PATH"]}` },
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    const printed = await new Response(shell.stdout).text();
    await shell.exited;
    const parts = printed.split(/\n--- end of step \d+ ---\n/);
    if (parts.length <= steps.length)
      process.stderr.write(`${steps[parts.length - 1]!.name} failed: ${parts.at(-1)}\n`);
    return parts.slice(0, -1);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
