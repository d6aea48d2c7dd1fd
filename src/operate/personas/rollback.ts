/** Acts on versions of personas that are kept: put back into the folder, or under a label. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Document, isMap, isScalar, parseDocument, Scalar } from "yaml";
import { sha256Of } from "../../lib/text/sha256.ts";
import { PartialReader, resolveDraft } from "../../personas/file/partial-reader.ts";
import { personaYaml } from "../../personas/file/persona-yaml.ts";
import { type PersonaContent, personaFileWith } from "../../personas/file/schema.ts";
import { readSource, replaceAt, sourcePathOf } from "../../personas/file/source-file.ts";
import { draftPersona, type Persona } from "../../personas/persona.ts";
import { labelsFile, parseLabels } from "../../personas/versions/labels.ts";
import { nameOf } from "../../personas/versions/references.ts";
import { ApiError } from "../../protocols/errors.ts";
import { optionSchemas } from "../../providers/options.ts";
import { providers } from "../../providers/registry.ts";
import { auditRow } from "../../store/contract/audit.ts";
import { type Done, done, type Operator } from "../act.ts";

export type KeptVersion = {
  /** The persona's id. */
  readonly id: string;
  readonly version: string;
  readonly content: PersonaContent;
  /** Its file as it was written; null where that is not known. */
  readonly source: string | null;
};

/** What is there now. @property served absent: no file of the folder makes that persona */
type Folder = { readonly folder: string; readonly served: Persona | undefined };

/** @property path absent: there was nothing to write @property how the file differs from the one that there was, in words */
type PutBack = Done<string | undefined, string> & { readonly path?: string; readonly how?: string };

/** Writes a version's file in the place of the persona's own. @throws ApiError persona_invalid, persona_changed or persona_not_writable */
export async function rollBackPersona(
  operator: Operator,
  { folder, served }: Folder,
  found: KeptVersion,
): Promise<PutBack> {
  const { id, version: after } = found;
  const before = served?.version;
  if (before === after) return { before, after };
  const present = await readSource(folder, id);
  const path = present?.path ?? (await sourcePathOf(folder, id));
  const { text, how } = await textOf(found, path, folder, served);
  await replaceAt(folder, path, text, present?.hash ?? null);
  return { ...(await done(operator, "persona.rollback", id, before, after)), path, how };
}

/** The version's file: as it was written, where that comes to it still; prompts stay those that the persona has now. */
async function textOf(found: KeptVersion, path: string, folder: string, served: Persona | undefined) {
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
  const whole = withPrompts(personaYaml(content), prompts);
  if (!(await comesTo(whole)))
    throw ApiError.personaInvalid(`${nameOf(found)} is no longer a valid persona file; nothing was written.`);
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

/** Puts a label of the folder on a version. @throws ApiError persona_invalid, persona_changed or persona_not_writable */
export async function moveLabel(
  { actor, clock, store: { personaVersions: versions } }: Operator,
  folder: string,
  label: string,
  { id, version: after }: KeptVersion,
): Promise<PutBack> {
  const path = join(folder, labelsFile);
  const text = await readFile(path, "utf8").catch(() => undefined);
  const before = (await versions.labels()).find((one) => one.persona === id && one.label === label)?.version;
  const content = labelled(text ?? "", id, label, after);
  const parsed = parseLabels(content, path);
  if ("errors" in parsed) throw ApiError.personaInvalid(`${path} would not be valid: ${parsed.errors[0]!.message}.`);
  if (content === text) return { before, after };
  await replaceAt(folder, path, content, text === undefined ? null : sha256Of(text));
  const moved = { persona: id, label, version: after, movedAt: clock.now() };
  const line = auditRow(clock, actor, { act: "persona.label", subject: `${id}@${label}`, before, after });
  // A server that saw the file first has recorded the move.
  if (before !== after) await versions.moveLabel(moved, before ?? null, line);
  return { before, after, path };
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
