/** Checks the text of one persona's file, as `troupe personas check` does the files of a folder. */
import { basename } from "node:path";
import type { Finding } from "../api/findings.ts";
import type { Services } from "../call/services.ts";
import { type Diagnostic, formatDiagnostic, YamlSource } from "../lib/yaml/yaml.ts";
import { missingKnowledge } from "../operate/checks/knowledge-files.ts";
import { retiringInPersonas } from "../operate/checks/retiring.ts";
import { idleInSkills } from "../operate/checks/skills.ts";
import { unknownInPersonas } from "../operate/checks/unknown-names.ts";
import { PartialReader, resolveDraft } from "../personas/file/partial-reader.ts";
import { maxFileBytes } from "../personas/file/read-file.ts";
import { personaFileWith } from "../personas/file/schema.ts";
import { draftPersona, type Persona } from "../personas/persona.ts";
import { noReferences, resolveReferences, splitReference } from "../personas/versions/references.ts";
import { parseModelId } from "../protocols/model-id.ts";
import { optionSchemas } from "../providers/options.ts";
import { providers } from "../providers/registry.ts";

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
export type Checked = { readonly persona?: Persona; readonly findings: readonly Finding[] };

let schema: ReturnType<typeof personaFileWith> | undefined;

/** @param file of the text: it need not be there yet */
export async function checkSource(services: Services, id: string, text: string, file: string): Promise<Checked> {
  if (Buffer.byteLength(text) > maxFileBytes) {
    const message = `This is larger than ${maxFileBytes / 1024} KiB`;
    return { findings: [findingOf({ file, line: 0, column: 0, path: "", message })] };
  }
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
  const whole = (message: string) => findingOf({ file, line: 0, column: 0, path: "", message }, "warning");
  const findings = [
    ...(await referenceErrors(services, persona, new YamlSource(text, file))),
    ...unknown.map((one) => findingOf(one)),
    ...retiring.map((one) => findingOf(one, "warning")),
    ...[...missingKnowledge([persona], config.personas.folder), ...idleInSkills([persona])].map(whole),
    ...(isReachable(services, persona) ? [] : [whole("none of its models has a provider that is set up")]),
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
