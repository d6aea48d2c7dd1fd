/** The two sides of a review: the folder of personas as a commit has it, and as it is now; and which persona of one is which of the other. */

import { knowledgeCollection } from "../../../call/plan/knowledge.ts";
import { readIfThere } from "../../../lib/files/file-watch.ts";
import { type Diagnostic, formatDiagnostic } from "../../../lib/yaml/yaml.ts";
import { loadFolder } from "../../../personas/file/folder.ts";
import { personaFileWith } from "../../../personas/file/schema.ts";
import type { Persona } from "../../../personas/persona.ts";
import { type FileReview, patchOf } from "../../../personas/review/report.ts";
import { findTests, recordingPath } from "../../../personas/suites/find.ts";
import { labelsFile, parseLabels } from "../../../personas/versions/labels.ts";
import { optionSchemas } from "../../../providers/options.ts";
import { providers } from "../../../providers/registry.ts";
import { filesOf } from "../../../store/sqlite/knowledge/files.ts";

export type Side = Awaited<ReturnType<typeof readSide>>;

/**
 * @param folder absolute
 * @param shownAs how its files are named in errors
 * @param wants which personas are reviewed: faults of others' files are left out
 */
export async function readSide(folder: string, shownAs: string, wants: (id: string) => boolean) {
  const loaded = await loadFolder(folder, personaFileWith(optionSchemas(providers)));
  const tests = new Map((await findTests(folder)).map(({ path, persona }) => [persona, path]));
  const places = (text: string) => text.replaceAll(`${folder}/`, shownAs);
  const ids = new Map([...loaded.paths].map(([id, path]) => [path, id]));
  /** A file of nobody's, such as that of labels, is everybody's. */
  const concerns = ({ file }: Diagnostic): boolean => {
    const own = ids.get(file);
    const users = [...loaded.uses].flatMap(([id, files]) =>
      files.some((one) => `${folder}/${one}` === file) ? [id] : [],
    );
    return own === undefined ? users.length === 0 || users.some(wants) : wants(own);
  };
  const faults = loaded.errors.filter(concerns).map((error) => places(formatDiagnostic(error)));
  for (const [id, path] of tests)
    if (!loaded.paths.has(id) && wants(id))
      faults.push(places(`${path}: There is no persona ${id} beside these tests`));
  return {
    folder,
    ...loaded,
    personas: new Map(loaded.personas.map((one) => [one.id, one])),
    tests,
    faults,
    places,
    labels: labelsIn(folder),
    texts: new Map<string, string | undefined>(),
  };
}

function labelsIn(folder: string): ReadonlyMap<string, string> {
  const parsed = parseLabels(readIfThere(`${folder}/${labelsFile}`) ?? "", labelsFile);
  if ("errors" in parsed) return new Map();
  return new Map(parsed.labels.map(({ persona, label, version }) => [`${persona}@${label}`, version]));
}

export type Pair = { readonly id: string; readonly from?: string; readonly before?: Persona; readonly after?: Persona };

/** Pairs personas by their ids; one that has another id now and the same content is renamed. */
export function pairsOf(before: Side, after: Side): Pair[] {
  const renamed = new Map<string, string>();
  const gone = [...before.personas.values()].filter(({ id }) => !after.paths.has(id));
  for (const { id, version } of after.personas.values()) {
    if (before.paths.has(id)) continue;
    const at = gone.findIndex((one) => one.version === version);
    if (at >= 0) renamed.set(id, gone.splice(at, 1)[0]!.id);
  }
  const kept = [...after.personas.values()].map((persona): Pair => {
    const from = renamed.get(persona.id);
    const other = before.personas.get(from ?? persona.id);
    return {
      id: persona.id,
      after: persona,
      ...(from !== undefined && { from }),
      ...(other !== undefined && { before: other }),
    };
  });
  const lost = gone.map((persona): Pair => ({ id: persona.id, before: persona }));
  return [...kept, ...lost].sort((one, other) => (one.id < other.id ? -1 : 1));
}

/** True where the tests or their recordings may differ. */
export function testsDiffer({ id, from = id }: Pair, before: Side, after: Side): boolean {
  const [old, now] = [before.tests.get(from), after.tests.get(id)];
  if (old === undefined || now === undefined) return old !== now;
  return readIfThere(old) !== readIfThere(now) || readIfThere(recordingPath(old)) !== readIfThere(recordingPath(now));
}

/** What a persona knows, by the name of the file. */
function knownFiles({ folder, texts }: Side, persona: Persona | undefined): Map<string, string> {
  const found = new Map<string, string>();
  if (persona?.knowledge === undefined) return found;
  for (const { name, path } of filesOf(knowledgeCollection(folder, persona), [])) {
    if (!texts.has(path)) texts.set(path, readIfThere(path));
    const text = texts.get(path);
    if (text !== undefined) found.set(name, text);
  }
  return found;
}

/** @returns the files of its knowledge that are others now */
export function knowledgeChanges({ before: one, after: other }: Pair, before: Side, after: Side): FileReview[] {
  const [old, now] = [knownFiles(before, one), knownFiles(after, other)];
  const gone = new Map([...old].filter(([file]) => !now.has(file)));
  const changes: FileReview[] = [];
  for (const [file, text] of now) {
    const earlier = old.get(file);
    if (earlier === text) continue;
    if (earlier !== undefined) {
      changes.push({ file, change: "changed", patch: patchOf(earlier, text) });
      continue;
    }
    const from = [...gone].find(([, content]) => content === text)?.[0];
    if (from !== undefined) gone.delete(from);
    changes.push(
      from === undefined ? { file, change: "new", patch: patchOf("", text) } : { file, change: "moved", from },
    );
  }
  return [...changes, ...[...gone.keys()].map((file): FileReview => ({ file, change: "gone" }))];
}

/** Partials that are others now, and those of the wanted personas that include them on either side. */
export function sharedChanges(
  before: Side,
  after: Side,
  wants: (id: string) => boolean,
): { file: string; personas: string[] }[] {
  const users = new Map<string, Set<string>>();
  for (const { uses } of [before, after])
    for (const [id, files] of uses)
      if (wants(id)) for (const file of files) users.set(file, (users.get(file) ?? new Set()).add(id));
  return [...users].flatMap(([file, ids]) => {
    const [old, now] = [readIfThere(`${before.folder}/${file}`), readIfThere(`${after.folder}/${file}`)];
    const isChange = old !== undefined && now !== undefined && old.trimEnd() !== now.trimEnd();
    return isChange && ids.size > 1 ? [{ file, personas: [...ids].sort() }] : [];
  });
}
