/** Checks the text of one persona's file, or of its tests, as `troupe personas check` does the files of a folder. */
import { basename } from "node:path";
import type { Finding } from "../../api/findings.ts";
import type { Services } from "../../call/services.ts";
import { type Diagnostic, formatDiagnostic, YamlSource } from "../../lib/yaml/yaml.ts";
import { PartialReader, resolveDraft } from "../../personas/file/partial-reader.ts";
import { maxFileBytes } from "../../personas/file/read-file.ts";
import { personaFileWith } from "../../personas/file/schema.ts";
import { draftPersona, type Persona } from "../../personas/persona.ts";
import { parseTestFile } from "../../personas/suites/test-file.ts";
import { noReferences, resolveReferences, splitReference } from "../../personas/versions/references.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { optionSchemas } from "../../providers/options.ts";
import { providers } from "../../providers/registry.ts";
import { missingKnowledge } from "../checks/knowledge-files.ts";
import { retiringInPersonas } from "../checks/retiring.ts";
import { idleInSkills } from "../checks/skills.ts";
import { unknownInPersonas } from "../checks/unknown-names.ts";
import { planTest } from "../suites/run-tests.ts";

export function findingOf(
  { file, line, column, path, message }: Diagnostic,
  severity: Finding["severity"] = "error",
): Finding {
  return { severity, file, line: line || null, column: column || null, path, message };
}

/** `acme/x.yaml:3:7: limits: must be an object` */
export const wordsOf = ({ file, line, column, path, message }: Finding): string =>
  formatDiagnostic({ file: basename(file), line: line ?? 0, column: column ?? 0, path, message });

/** @property persona absent: the text has errors that keep it from being one */
type Checked = { readonly persona?: Persona; readonly findings: readonly Finding[] };

let schema: ReturnType<typeof personaFileWith> | undefined;

/** What is wrong with the whole of a file. */
const whole = (file: string, message: string, severity?: Finding["severity"]) =>
  findingOf({ file, line: 0, column: 0, path: "", message }, severity);

const tooLarge = (text: string, file: string): Finding[] =>
  Buffer.byteLength(text) > maxFileBytes ? [whole(file, `This is larger than ${maxFileBytes / 1024} KiB`)] : [];

/** @param file of the text: it need not be there yet */
export async function checkSource(services: Services, id: string, text: string, file: string): Promise<Checked> {
  const large = tooLarge(text, file);
  if (large.length > 0) return { findings: large };
  const { live, originsOf, clock } = services;
  const { config } = live;
  schema ??= personaFileWith(optionSchemas(providers));
  const draft = draftPersona(text, file, id, schema);
  const made = "errors" in draft ? draft : await resolveDraft(draft, new PartialReader(config.personas.folder));
  if ("errors" in made) return { findings: made.errors.map((one) => findingOf(one)) };
  const { persona } = made;
  const reading = { io: { readFile: (path: string) => (path === file ? text : undefined) } };
  const files = { personas: [persona], paths: new Map([[id, file]]) };
  const unknown = unknownInPersonas(reading, files, { config, origins: originsOf(config) });
  const retiring = retiringInPersonas(reading, files, { config }, clock.now());
  const warned = (message: string) => whole(file, message, "warning");
  const findings = [
    ...(await referenceErrors(services, persona, new YamlSource(text, file))),
    ...unknown.map((one) => findingOf(one)),
    ...retiring.map((one) => findingOf(one, "warning")),
    ...[...missingKnowledge([persona], config.personas.folder), ...idleInSkills([persona])].map(warned),
    ...(isReachable(services, persona) ? [] : [warned("none of its models has a provider that is set up")]),
  ];
  return { persona, findings };
}

/** Prompts of applications that another persona answers already, and labels that there are not. */
async function referenceErrors(services: Services, persona: Persona, source: YamlSource): Promise<Finding[]> {
  if (persona.promptIds === undefined) return [];
  const { personas } = services;
  const others = personas.list().filter(({ id }) => id !== persona.id);
  const own = new Map([...others, persona].map((one) => [one.id, one]));
  const labels = [...(personas.labels ?? [])].flatMap(([name, version]) => {
    const { id, reference: label } = splitReference(name)!;
    const diagnostic = (message: string) => source.diagnosticAt([], message);
    return [{ persona: id, label, version, diagnostic }];
  });
  const placed = (of: Persona, path: readonly string[], message: string): Diagnostic =>
    of === persona ? source.diagnosticAt(path, message) : { file: "", line: 0, column: 0, path: "", message };
  const { errors } = await resolveReferences(own, labels, noReferences, undefined, placed);
  return errors.filter(({ file }) => file === source.file).map((one) => findingOf(one));
}

/** Whether each of those who would answer has a model whose provider is set up. */
function isReachable({ live }: Services, { variants, ...persona }: Persona): boolean {
  const answering = variants?.filter(({ weight }) => weight > 0).map((one) => one.persona) ?? [persona];
  return answering.every(({ targets }) =>
    targets.some((target) => live.accounts.find(parseModelId(target)?.namespace ?? "") !== undefined),
  );
}

/** What is wrong with the text of a test file, and its tests. Those that the persona would refuse have a warning. */
export function checkTests(services: Services, id: string, text: string, file: string) {
  const large = tooLarge(text, file);
  if (large.length > 0) return { tests: [], findings: large };
  const { variants: _, ...persona } = services.personas.find(id) ?? {};
  const declared = "variables" in persona ? new Set(persona.variables.keys()) : undefined;
  const parsed = parseTestFile(text, file, { persona: id, declared });
  if ("errors" in parsed) return { tests: [], findings: parsed.errors.map((one) => findingOf(one)) };
  const { tests } = parsed.suite;
  const planned = "id" in persona ? tests.map((test) => planTest(test, persona, file)) : [];
  return {
    tests: tests.map(({ name, line }) => ({ name, line })),
    findings: planned.flatMap(({ test: { line }, problem }) =>
      problem === undefined ? [] : findingOf({ file, line, column: 1, path: "", message: problem }, "warning"),
    ),
  };
}
