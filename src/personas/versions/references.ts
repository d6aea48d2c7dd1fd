/** Names of versions: `<namespace>/<name>@<version>`, and the same with a label in the version's place. */
import { truncate } from "../../lib/text/truncate.ts";
import type { Diagnostic } from "../../lib/yaml/yaml.ts";
import type { Persona } from "../persona.ts";
import type { Label } from "./labels.ts";

const versionForm = /^[0-9a-f]{12}$/;
export const isVersion = (reference: string): boolean => versionForm.test(reference);

/** @returns the persona's id, and what stands behind the `@`; undefined where there is none */
export function splitReference(name: string): { readonly id: string; readonly reference: string } | undefined {
  const at = name.indexOf("@");
  return at < 0 ? undefined : { id: name.slice(0, at), reference: name.slice(at + 1) };
}

export const nameOf = ({ id, version }: Pick<Persona, "id" | "version">): string => `${id}@${version}`;

/** In a persona's `prompt_ids`: what is in service, whatever its version. */
export const current = "current";
/** In `prompt_ids`: the version of calls that name none. */
export const unnamed = "default";

/** A prompt of an application: the persona that answers it, and the names of its versions. */
export type PromptEntry = {
  readonly persona: string;
  /** Model names by the prompt's versions; `default` for calls that name none. */
  readonly versions: ReadonlyMap<string, string>;
};

/** All that names a version. */
export type References = {
  /** Personas that labels and prompts name, by `<id>@<label>` and `<id>@<version>`. */
  readonly personas: ReadonlyMap<string, Persona>;
  /** Versions by `<id>@<label>`. */
  readonly labels: ReadonlyMap<string, string>;
  /** By the prompt's id. */
  readonly prompts: ReadonlyMap<string, PromptEntry>;
};

export const noReferences: References = { personas: new Map(), labels: new Map(), prompts: new Map() };

/** Loads versions that are no longer in service. @param names `<id>@<version>` @returns those that are kept @throws where nobody can tell */
export type LoadVersions = (names: readonly string[]) => Promise<ReadonlyMap<string, Persona>>;

type Wanted = {
  readonly name: string;
  readonly diagnostic: (message: string) => Diagnostic;
};

/**
 * Finds the personas that labels and prompts name. What can't be found stays as it was before.
 * @param load absent: nobody knows the versions that are kept, and none is an error for that
 * @param placed an error at a version of a persona's prompt
 */
export async function resolveReferences(
  own: ReadonlyMap<string, Persona>,
  labels: readonly Label[],
  before: References,
  load: LoadVersions | undefined,
  placed: (persona: Persona, path: readonly string[], message: string) => Diagnostic,
): Promise<{ readonly references: References; readonly errors: readonly Diagnostic[] }> {
  const errors: Diagnostic[] = [];
  const byLabel = new Map(labels.map((label) => [`${label.persona}@${label.label}`, label]));
  const prompts = promptsOf(own, byLabel, placed, errors);
  const wanted: Wanted[] = [
    ...labels.map(({ persona, version, diagnostic }) => ({ name: `${persona}@${version}`, diagnostic })),
    ...prompts.wanted,
  ];
  const found = new Map<string, Persona>();
  for (const { name } of wanted) {
    const inService = own.get(splitReference(name)!.id);
    const known = inService !== undefined && nameOf(inService) === name ? inService : before.personas.get(name);
    if (known !== undefined) found.set(name, known);
  }
  const missing = [...new Set(wanted.map(({ name }) => name))].filter((name) => !found.has(name));
  let unknown = "names a version that is neither in service nor kept";
  if (missing.length > 0 && load !== undefined) {
    try {
      for (const [name, persona] of await load(missing)) found.set(name, persona);
    } catch {
      unknown = "names a version that can't be looked up at the moment";
    }
  }
  if (load !== undefined)
    for (const { name, diagnostic } of wanted) if (!found.has(name)) errors.push(diagnostic(unknown));
  const versions = new Map<string, string>();
  for (const [name, { persona, version }] of byLabel) {
    const named = found.get(`${persona}@${version}`) ?? before.personas.get(name);
    if (named === undefined) continue;
    found.set(name, named);
    versions.set(name, named.version);
  }
  return { references: { personas: found, labels: versions, prompts: prompts.entries }, errors };
}

function promptsOf(
  own: ReadonlyMap<string, Persona>,
  labels: ReadonlyMap<string, Label>,
  placed: (persona: Persona, path: readonly string[], message: string) => Diagnostic,
  errors: Diagnostic[],
) {
  const entries = new Map<string, PromptEntry>();
  const wanted: Wanted[] = [];
  for (const persona of own.values()) {
    for (const [id, versions] of Object.entries(persona.promptIds ?? {})) {
      const other = entries.get(id);
      if (other !== undefined) {
        errors.push(placed(persona, ["prompt_ids", id], `is a prompt of ${other.persona} already`));
        continue;
      }
      const named = new Map<string, string>();
      for (const [version, reference] of Object.entries(versions)) {
        const fail = (message: string) => placed(persona, ["prompt_ids", id, version], message);
        const name = `${persona.id}@${reference}`;
        if (reference === current) named.set(version, persona.id);
        else if (isVersion(reference)) wanted.push({ name, diagnostic: fail });
        else if (!labels.has(name)) {
          errors.push(fail(`names '${truncate(reference)}', which is no label of ${persona.id} in labels.yaml`));
          continue;
        }
        if (reference !== current) named.set(version, name);
      }
      if (!named.has(unnamed)) named.set(unnamed, persona.id);
      entries.set(id, { persona: persona.id, versions: named });
    }
  }
  return { entries, wanted };
}
