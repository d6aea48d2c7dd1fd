/** Loads the test files of a folder of personas, each with its persona. */
import { readFileSync } from "node:fs";
import type { Diagnostic } from "../../lib/yaml/yaml.ts";
import type { Persona } from "../../personas/persona.ts";
import { findTests } from "../../personas/suites/find.ts";
import type { TestSuite } from "../../personas/suites/suite.ts";
import { parseTestFile } from "../../personas/suites/test-file.ts";

/** A folder of personas as it was read. */
type ReadFolder = {
  readonly folder?: string;
  readonly personas: readonly Persona[];
  readonly errors: readonly Diagnostic[];
  readonly paths: ReadonlyMap<string, string>;
};

export type LoadedSuite = { readonly suite: TestSuite; readonly persona: Persona };

type LoadedSuites = {
  readonly suites: readonly LoadedSuite[];
  readonly errors: readonly Diagnostic[];
  /** The personas whose test files have faults. */
  readonly faulty: readonly string[];
};

type SuiteOptions = {
  /** Which personas' tests; absent: all. */
  readonly wants?: (id: string) => boolean;
  /** The model that grades in place of those that files name. */
  readonly grader?: string | undefined;
};

/** A test file whose persona has a fault itself is left out, as the fault is reported there. */
export async function loadSuites(
  { folder, personas, errors: faults, paths }: ReadFolder,
  { wants = () => true, grader }: SuiteOptions = {},
): Promise<LoadedSuites> {
  if (folder === undefined) return { suites: [], errors: [], faulty: [] };
  const suites: LoadedSuite[] = [];
  const errors: Diagnostic[] = [];
  const faulty: string[] = [];
  const report = (id: string, found: readonly Diagnostic[]) => {
    errors.push(...found);
    faulty.push(id);
  };
  for (const { path, persona: id } of await findTests(folder)) {
    if (!wants(id)) continue;
    const persona = personas.find((one) => one.id === id);
    if (persona === undefined) {
      if (!faults.some(({ file }) => file === paths.get(id))) report(id, [orphan(path, id)]);
      continue;
    }
    const declared = new Set(persona.variables.keys());
    const parsed = parseTestFile(readFileSync(path, "utf8"), path, { persona: id, declared, grader });
    if ("errors" in parsed) report(id, parsed.errors);
    else suites.push({ suite: parsed.suite, persona });
  }
  return { suites, errors, faulty };
}

const orphan = (file: string, id: string): Diagnostic => ({
  file,
  line: 0,
  column: 0,
  path: "",
  message: `There is no persona ${id} beside these tests`,
});
