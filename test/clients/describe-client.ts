/** Tests of a client; where it is not installed, skipped by name. */
import { describe } from "bun:test";
import { lacksProgram, lacksPython, type Program, type PythonPackage } from "./installed.ts";

export const describeProgram = (name: Program, tests: () => void) => describeUnless(lacksProgram(name), name, tests);

export const describePython = (name: PythonPackage, tests: () => void) =>
  describeUnless(lacksPython(name), `Python's ${name}`, tests);

function describeUnless(lack: string | undefined, name: string, tests: () => void): void {
  if (lack === undefined) describe(name, tests);
  else describe.skip(lack, tests);
}
