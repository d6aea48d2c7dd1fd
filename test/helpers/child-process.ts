import { resolve } from "node:path";

const source = resolve(import.meta.dir, "../../src");

/** The JSON that another process printed, one value a line. */
export type ChildResult = { readonly exitCode: number; readonly lines: unknown[]; readonly errors: string };

/**
 * Runs a script in a process of its own. It finds `src` by the global `import.meta`-free constant `SRC`.
 * @param prelude statements before any import, e.g. to drop privileges
 */
export async function runScript(script: string, prelude = ""): Promise<ChildResult> {
  const child = Bun.spawn([process.execPath, "-e", `const SRC = ${JSON.stringify(source)};\n${prelude}\n${script}`], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const [output, errors, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  const lines = output.split("\n").flatMap((line) => (line.trim() === "" ? [] : [JSON.parse(line) as unknown]));
  return { exitCode, lines, errors };
}
