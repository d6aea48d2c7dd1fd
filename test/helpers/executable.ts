/** The executable, built once for all test files of a run, since a build takes seconds. */
import { resolve } from "node:path";
import { buildExecutable } from "../../build.ts";

export const executableBuild = { builtAt: "2026-01-02T03:04:05.000Z", commit: "abcdef123456" };
const outfile = resolve(import.meta.dir, "../../node_modules/.cache/troupe-test/troupe");
let built: Promise<void> | undefined;

/** @returns its path; it belongs to all tests, so copy it where it is changed or must be readable for others */
export async function testExecutable(): Promise<string> {
  built ??= buildExecutable({ outfile, ...executableBuild });
  await built;
  return outfile;
}
