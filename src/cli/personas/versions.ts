/** Versions of personas for commands: those that the store keeps, and what the folder holds now. */
import type { Config } from "../../config/config.ts";
import type { KeptVersion } from "../../operate/personas/rollback.ts";
import type { PersonaContent } from "../../personas/file/schema.ts";
import { contentOf, type Persona, sourceOf } from "../../personas/persona.ts";
import { current, isVersion, nameOf, splitReference } from "../../personas/versions/references.ts";
import type { PersonaVersionRepository } from "../../store/contract/persona-versions.ts";
import { CommandError, type Context } from "../context.ts";
import { type LoadedPersonas, loadPersonas } from "../personas.ts";

type Kept = { readonly personaVersions: PersonaVersionRepository };

type VersionFinder = {
  readonly loaded: LoadedPersonas;
  /** @param name an id, with a version, the beginning of one, or a label behind an `@` @throws CommandError */
  find(name: string): Promise<KeptVersion>;
};

export async function versionFinder(
  context: Context,
  config: Config,
  { personaVersions }: Kept,
): Promise<VersionFinder> {
  const loaded = await loadPersonas(context, config.personas);
  const foundIn = (persona: Persona): KeptVersion => ({
    id: persona.id,
    version: persona.version,
    content: JSON.parse(contentOf(persona)) as PersonaContent,
    source: sourceOf(persona) ?? null,
  });
  return {
    loaded,
    async find(name) {
      const { id, reference } = splitReference(name) ?? { id: name, reference: current };
      const served = loaded.personas.find((one) => one.id === id);
      if (reference === current) {
        if (served === undefined) throw new CommandError(`There is no persona '${id}' in ${loaded.from}.`);
        return foundIn(served);
      }
      const version = await versionNamed(personaVersions, id, reference, served?.version);
      if (served?.version === version) return foundIn(served);
      const row = await personaVersions.get(nameOf({ id, version }));
      if (row === undefined) throw unknown(id, reference);
      return { id, version, content: JSON.parse(row.content) as PersonaContent, source: row.source };
    },
  };
}

async function versionNamed(
  versions: PersonaVersionRepository,
  id: string,
  reference: string,
  served: string | undefined,
): Promise<string> {
  if (isVersion(reference)) return reference;
  const label = (await versions.labels()).find((one) => one.persona === id && one.label === reference);
  if (label !== undefined) return label.version;
  const all = new Set((await versions.list(id)).map(({ version }) => version));
  if (served !== undefined) all.add(served);
  const fitting = /^[0-9a-f]{4,11}$/.test(reference) ? [...all].filter((one) => one.startsWith(reference)) : [];
  if (fitting.length > 1) throw new CommandError(`'${reference}' begins ${fitting.length} versions of ${id}.`);
  if (fitting.length === 0) throw unknown(id, reference);
  return fitting[0]!;
}

const unknown = (id: string, reference: string) =>
  new CommandError(
    `${id} has no version or label '${reference}' that is kept; 'troupe personas log ${id}' lists them.`,
  );
