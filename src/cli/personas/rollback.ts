/** `troupe personas rollback`: puts a version back into the folder, or a label on it. */
import { join } from "node:path";
import { Document, isMap, isScalar, parseDocument, Scalar } from "yaml";
import { systemClock } from "../../lib/time/clock.ts";
import { PartialReader, resolveDraft } from "../../personas/file/partial-reader.ts";
import { personaYaml } from "../../personas/file/persona-yaml.ts";
import { personaFileWith } from "../../personas/file/schema.ts";
import { draftPersona, type Persona } from "../../personas/persona.ts";
import { labelsFile, parseLabels } from "../../personas/versions/labels.ts";
import { nameOf } from "../../personas/versions/references.ts";
import { optionSchemas } from "../../providers/options.ts";
import { providers } from "../../providers/registry.ts";
import { auditRow } from "../../store/audit.ts";
import type { PersonaVersionRepository } from "../../store/persona-versions.ts";
import { actorOf, operatorOf } from "../commands/operator.ts";
import { withStore } from "../commands/storage.ts";
import { CommandError, type Context, type ExitCode } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { placeFiles, schemaAddress } from "./place-files.ts";
import { type FoundVersion, versionFinder } from "./versions.ts";

/** @property path absent: there was nothing to write */
type Done = {
  readonly name: string;
  readonly before: string | undefined;
  readonly after: string;
  readonly path?: string;
  readonly how?: string;
};

export function rollBackPersona(
  context: Context,
  id: string,
  version: string,
  { label, json }: { readonly label?: string; readonly json?: boolean },
): Promise<ExitCode> {
  return withStore(context, async (store, config) => {
    const { find, loaded } = await versionFinder(context, config, store);
    const { folder } = loaded;
    if (folder === undefined)
      throw new CommandError(`${id} is in the executable; only a persona that has a file is rolled back.`);
    const found = await find(`${id}@${version}`);
    const report = ({ name, before, after, path, how }: Done) => {
      if (json) printJson(context.io, { name, before: before ?? null, after, file: path ?? null });
      else if (path === undefined) context.io.stdout.write(`${name} is ${after} already; nothing was written.\n`);
      else context.io.stdout.write(`${name}: ${before ?? "nothing"} → ${after}. Written: ${path}${how ?? ""}\n`);
    };
    if (label !== undefined) {
      report(await moveLabel(context, store.personaVersions, join(folder, labelsFile), label, found));
      return;
    }
    const served = loaded.personas.find((one) => one.id === id);
    const before = served?.version;
    const done = { name: id, before, after: found.version };
    if (before === found.version) return report(done);
    const path = loaded.paths.get(id) ?? join(folder, `${id}.yaml`);
    const { text, how } = await textOf(found, path, folder, served);
    placeFiles([{ path, content: text }], true);
    report({ ...done, path, how });
    await operatorOf(context, store, config).record({
      act: "persona.rollback",
      subject: id,
      before,
      after: found.version,
    });
  });
}

/** The version's file: as it was written, where that comes to it still; prompts stay those that the persona has now. */
async function textOf(found: FoundVersion, path: string, folder: string, served: Persona | undefined) {
  const { id, version, content, source } = found;
  const prompts = served?.promptIds;
  const schema = personaFileWith(optionSchemas(providers));
  const comesTo = async (text: string) => {
    const draft = draftPersona(text, path, id, schema);
    const made = "errors" in draft ? draft : await resolveDraft(draft, new PartialReader(folder));
    return "persona" in made && made.persona.version === version;
  };
  const written = source === null ? undefined : withPrompts(source, prompts);
  if (written !== undefined && (await comesTo(written))) return { text: written, how: "" };
  const whole = withPrompts(personaYaml(content, schemaAddress), prompts);
  if (!(await comesTo(whole)))
    throw new CommandError(`${nameOf(found)} is no longer a valid persona file; nothing was written.`);
  const how =
    source === null ? ", without comments" : ", with its includes written out, as what it included has changed since";
  return { text: whole, how };
}

/** The same file with these `prompt_ids`. */
function withPrompts(text: string, prompts: Persona["promptIds"]): string {
  const document = parseDocument(text);
  if (prompts === undefined && !document.has("prompt_ids")) return text;
  if (Bun.deepEquals((document.toJS() as { prompt_ids?: unknown }).prompt_ids, prompts)) return text;
  if (prompts === undefined) document.delete("prompt_ids");
  else document.set("prompt_ids", document.createNode(prompts));
  return document.toString({ lineWidth: 0 });
}

async function moveLabel(
  context: Context,
  versions: PersonaVersionRepository,
  path: string,
  label: string,
  found: FoundVersion,
): Promise<Done> {
  const { id, version } = found;
  const name = `${id}@${label}`;
  const text = context.io.readFile(path) ?? "";
  const before = (await versions.labels()).find((one) => one.persona === id && one.label === label)?.version ?? null;
  const content = labelled(text, id, label, version);
  const parsed = parseLabels(content, path);
  if ("errors" in parsed) throw new CommandError(`${path} would not be valid: ${parsed.errors[0]!.message}.`);
  const done = { name, before: before ?? undefined, after: version };
  if (content === text) return done;
  placeFiles([{ path, content }], true);
  const moved = { persona: id, label, version, movedAt: systemClock.now() };
  const act = { act: "persona.label" as const, subject: name, before: before ?? undefined, after: version };
  // A server that saw the file first has recorded the move.
  if (before !== version) await versions.moveLabel(moved, before, auditRow(systemClock, actorOf(context), act));
  return { ...done, path };
}

/** Keeps the file's comments, and quotes the version: one of digits alone would be a number. */
function labelled(text: string, id: string, label: string, version: string): string {
  const document = text.trim() === "" ? new Document({}) : parseDocument(text);
  const present = document.getIn([id, label], true);
  if (isScalar(present) && present.value === version) return text;
  const value = isScalar(present) ? present : new Scalar(version);
  value.value = version;
  value.type = Scalar.QUOTE_DOUBLE;
  if (isMap(document.contents)) document.contents.flow = false;
  if (!document.has(id)) document.set(id, document.createNode({}));
  const labels = document.get(id);
  if (isMap(labels) && labels.items.length === 0) labels.flow = false;
  document.setIn([id, label], value);
  return document.toString({ lineWidth: 0 });
}
