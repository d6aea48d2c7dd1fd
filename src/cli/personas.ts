/** `troupe personas`: who can be asked, and what is wrong with their files. */
import { resolve } from "node:path";
import type { Config } from "../config/config.ts";
import { suggest } from "../lib/text/suggest.ts";
import { systemClock } from "../lib/time/clock.ts";
import { type Diagnostic, formatDiagnostic } from "../lib/yaml/yaml.ts";
import { missingKnowledge } from "../operate/checks/knowledge-files.ts";
import { modelInUse, noProvider, unreachable } from "../operate/checks/reachable.ts";
import { retiringInPersonas } from "../operate/checks/retiring.ts";
import { idleInSkills } from "../operate/checks/skills.ts";
import { unknownInPersonas } from "../operate/checks/unknown-names.ts";
import { loadSuites } from "../operate/suites/suites.ts";
import { builtinFiles, builtinPersonas } from "../personas/builtin.ts";
import { loadFolder } from "../personas/file/folder.ts";
import { personaFileWith, personaJsonSchema } from "../personas/file/schema.ts";
import type { Persona } from "../personas/persona.ts";
import { testJsonSchema } from "../personas/suites/schema.ts";
import { labelsJsonSchema } from "../personas/versions/labels.ts";
import { optionSchemas } from "../providers/options.ts";
import { providers } from "../providers/registry.ts";
import { CommandError, type Context, type ExitCode, keyless, printDiagnostics, withConfig } from "./context.ts";
import { printJson } from "./print/print-json.ts";
import { formatTable } from "./print/table.ts";

type Json = { readonly json?: boolean };

export type LoadedPersonas = {
  readonly personas: readonly Persona[];
  readonly errors: readonly Diagnostic[];
  /** Absent: they are those in the executable. */
  readonly folder?: string;
  /** Paths of their files, by their ids. */
  readonly paths: ReadonlyMap<string, string>;
  readonly from: string;
};

/** Loads the personas that a server would serve: those of the folder, or the ones in the executable where nobody named one and it holds none. */
export async function loadPersonas({ io }: Context, { folder, isNamed }: Config["personas"]): Promise<LoadedPersonas> {
  const isThere = isNamed || io.isFolder(folder);
  const found = isThere ? await loadFolder(folder, personaFileWith(optionSchemas(providers))) : noPersonas;
  if (isNamed || found.personas.length > 0) return { ...found, folder, from: folder };
  return { personas: builtinPersonas(), errors: found.errors, paths: noPersonas.paths, from: "the executable" };
}

const noPersonas = { personas: [], errors: [], paths: new Map<string, string>() } as const;

/** Ids of those in the executable that are not served. */
const hiddenBy = ({ personas }: LoadedPersonas) =>
  Object.keys(builtinFiles).filter((id) => !personas.some((one) => one.id === id));

export function listPersonas(context: Context, { json }: Json): Promise<ExitCode> {
  return withConfig(
    context,
    async (config) => {
      const loaded = await loadPersonas(context, config.personas);
      const { personas, errors, folder } = loaded;
      const rows = personas.map((persona) => summaryOf(persona, config)).toSorted((a, b) => (a.id < b.id ? -1 : 1));
      if (json) printJson(context.io, rows);
      else {
        const columns = ["id", "tier", "model", "description"];
        context.io.stdout.write(
          formatTable(
            columns,
            rows.map(({ id, tier, model, description }) => [id, tier, model ?? undefined, description]),
          ),
        );
      }
      const hidden = hiddenBy(loaded);
      if (!json && folder !== undefined && hidden.length > 0)
        context.io.stderr.write(
          `These are of ${folder}, in place of those in the executable (${hidden.join(", ")}): 'troupe personas show <id>' prints one to copy.\n`,
        );
      printDiagnostics(context.io, errors);
      return errors.length === 0 ? 0 : 1;
    },
    keyless,
  );
}

/** @throws CommandError where no such persona is served */
export async function findServed(context: Context, config: Config, id: string): Promise<Persona> {
  const loaded = await loadPersonas(context, config.personas);
  const persona = loaded.personas.find((one) => one.id === id);
  if (persona === undefined) {
    printDiagnostics(context.io, loaded.errors);
    throw unknownPersona(id, loaded);
  }
  return persona;
}

/** @returns the error for an id that no persona has, with the one that was most likely meant */
export function unknownPersona(
  id: string,
  { personas, from }: Pick<LoadedPersonas, "personas" | "from">,
): CommandError {
  const guess = suggest(
    id,
    personas.map((one) => one.id),
  );
  const advice = guess === undefined ? "" : ` Did you mean '${guess}'?`;
  return new CommandError(`There is no persona '${id}' in ${from}.${advice}`);
}

export function checkPersonas(context: Context, folder: string | undefined, { json }: Json): Promise<ExitCode> {
  return withConfig(
    context,
    async (config, configured) => {
      const loaded = await loadPersonas(
        context,
        folder === undefined ? config.personas : { folder: resolve(context.io.cwd, folder), isNamed: true },
      );
      const { personas, from } = loaded;
      const tests = await loadSuites(loaded);
      const errors = [...loaded.errors, ...unknownInPersonas(context, loaded, configured), ...tests.errors];
      const missing = missingKnowledge(personas, loaded.folder);
      const idle = idleInSkills(personas);
      const retiring = retiringInPersonas(context, loaded, configured, systemClock.now()).map(formatDiagnostic);
      const testCount = tests.suites.reduce((sum, { suite }) => sum + suite.tests.length, 0);
      if (json)
        printJson(context.io, {
          personas: personas.length,
          tests: testCount,
          errors: errors.map(formatDiagnostic),
          unreachable: unreachable(personas, config),
          missing_knowledge: missing,
          idle_in_skills: idle,
          retiring,
        });
      else {
        printDiagnostics(context.io, errors);
        for (const id of unreachable(personas, config)) context.io.stderr.write(`warning: ${id}: ${noProvider}\n`);
        for (const problem of [...missing, ...idle, ...retiring]) context.io.stderr.write(`warning: ${problem}\n`);
        if (errors.length === 0)
          context.io.stdout.write(
            `${counted(personas.length, "persona")}${testCount === 0 ? "" : ` and ${counted(testCount, "test")}`} in ${from}: no errors\n`,
          );
      }
      return errors.length === 0 ? 0 : 1;
    },
    keyless,
  );
}

type SchemaOptions = { readonly tests?: boolean; readonly labels?: boolean };

export function printPersonaSchema({ io }: Context, { tests, labels }: SchemaOptions): ExitCode {
  const ofPersona = () => personaJsonSchema(optionSchemas(providers));
  printJson(io, tests ? testJsonSchema() : labels ? labelsJsonSchema() : ofPersona());
  return 0;
}

const counted = (number: number, word: string) => `${number} ${word}${number === 1 ? "" : "s"}`;

export function summaryOf(persona: Persona, config: Config) {
  const { id, tier, description } = persona;
  return { id, tier, model: modelInUse(persona, config) ?? null, description };
}
