/** Acts on files of the folder of personas: saved whole, where they are the ones that were edited and have no errors, and served. */

import type { Finding } from "../../api/findings.ts";
import type { Services } from "../../call/services.ts";
import { sha256Of } from "../../lib/text/sha256.ts";
import { personaTextOf } from "../../personas/file/source.ts";
import {
  changedMeanwhile,
  idProblem,
  isUnused,
  placeBuiltins,
  readSource,
  replaceAt,
  type SourceFile,
  sourcePathOf,
} from "../../personas/file/source-file.ts";
import { ApiError } from "../../protocols/errors.ts";
import { type Done, done, type Operator } from "../act.ts";
import { checkSource, checkTests } from "./check.ts";

/** @property if_hash of the text that was edited; null: there was none */
type Edit = { readonly text: string; readonly if_hash: string | null };

/** The text has errors. */
export class NotSaved {
  readonly errors: readonly Finding[];
  constructor(findings: readonly Finding[]) {
    this.errors = findings.filter(({ severity }) => severity === "error");
  }
}

/** What the audit tells of a file: its hash, and the version of the persona that it makes. */
type Told = { readonly version?: string | null; readonly hash: string | null };
type Saved = NotSaved | Done<Told>;

/** Whether the personas in service are those of the folder. */
export const isFolderServed = ({ personas }: Services): boolean => personas.labels !== undefined;

export const noSuchPersona = (): ApiError => ApiError.notFound("There is no such persona.", "name");

/** The persona's own file, as it is now. @throws ApiError not_found where no persona can have that id */
export async function ownFile(services: Services, id: string): Promise<SourceFile | undefined> {
  if (idProblem(id) !== undefined) throw noSuchPersona();
  return readSource(services.live.config.personas.folder, id);
}

/** The text of a persona in service that has no file. */
export async function compiledText({ personas, live }: Services, id: string) {
  const served = personas.find(id);
  const found = served && (await personaTextOf(served, live.config.personas.folder));
  return found && { path: found.file, text: found.text, hash: sha256Of(found.text) };
}

const testsOf = (id: string) => `${id}.test`;

/** @throws ApiError not_found where there is no persona that the tests would be of */
export async function readTests(services: Services, id: string) {
  const own = await ownFile(services, id);
  const { folder } = services.live.config.personas;
  if (own === undefined && services.personas.find(id) === undefined) throw noSuchPersona();
  const found = await readSource(folder, testsOf(id));
  const path = found?.path ?? (await sourcePathOf(folder, testsOf(id)));
  return { path, text: found?.text ?? "", hash: found?.hash ?? null, isPersonaThere: own !== undefined };
}

/** Saves a persona's file. @throws ApiError */
export async function savePersona(operator: Operator, services: Services, id: string, edit: Edit): Promise<Saved> {
  assertWritable(services);
  const problem = idProblem(id);
  if (problem !== undefined) throw ApiError.invalidValue("name", `'${id}' can't name a persona: each part ${problem}.`);
  const version = () => services.personas.find(id)?.version ?? null;
  const before = { version: version(), hash: edit.if_hash };
  const path = await sourcePathOf(services.live.config.personas.folder, id);
  const refused = await save(services, edit, {
    ...{ id, path, compiled: async () => (await compiledText(services, id))?.hash ?? null },
    check: async () => (await checkSource(services, id, edit.text, path)).findings,
  });
  return refused ?? done(operator, "persona.save", id, before, { version: version(), hash: sha256Of(edit.text) });
}

/** Saves the file of a persona's tests. @throws ApiError */
export async function savePersonaTests(operator: Operator, services: Services, id: string, edit: Edit): Promise<Saved> {
  assertWritable(services);
  const { path } = await readTests(services, id);
  const refused = await save(services, edit, {
    ...{ id, path, compiled: async () => null },
    check: async () => checkTests(services, id, edit.text, path).findings,
  });
  return refused ?? done(operator, "persona.save_tests", id, { hash: edit.if_hash }, { hash: sha256Of(edit.text) });
}

function assertWritable({ live }: Services): void {
  if (!live.config.console.write)
    throw ApiError.personaNotWritable("Personas are read-only here: set console.write to true in the configuration.");
}

type Edited = {
  /** The persona's. */
  readonly id: string;
  readonly path: string;
  /** The hash of what stands in its place while the personas are those in the executable; null: nothing does. */
  readonly compiled: () => Promise<string | null>;
  readonly check: () => Promise<readonly Finding[]>;
};

/** @returns what keeps it from being saved @throws ApiError */
async function save(
  services: Services,
  { text, if_hash: ifHash }: Edit,
  { id, path, compiled, check }: Edited,
): Promise<NotSaved | undefined> {
  const { live, personas } = services;
  const { folder } = live.config.personas;
  const isFirst = !isFolderServed(services) && (await isUnused(folder));
  // Others may have filled it a moment ago.
  if (!isFirst && !isFolderServed(services)) await services.rereadPersonas();
  if (!isFirst && !isFolderServed(services) && personas.find(id) !== undefined)
    throw ApiError.personaNotWritable(
      `${id} is in the executable, and ${folder} has files with errors: mend those, which then take the place of the personas inside.`,
    );
  const refused = new NotSaved(await check());
  if (refused.errors.length > 0) return refused;
  if (isFirst) {
    if ((await compiled()) !== ifHash) throw changedMeanwhile(path);
    await placeBuiltins(folder);
  }
  await replaceAt(folder, path, text, ifHash);
  await services.rereadPersonas();
  return undefined;
}
