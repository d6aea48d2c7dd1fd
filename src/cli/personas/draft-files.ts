/** The files that a draft of a persona comes to, checked as a server would check them. */

import { join } from "node:path";
import { exampleNames } from "../../facts/examples.ts";
import { formatDiagnostic } from "../../lib/yaml/yaml.ts";
import { acceptable } from "../../personas/exchange/importers/acceptable.ts";
import type { Imported, Variables } from "../../personas/exchange/importers/draft.ts";
import { personaYaml, writeYaml } from "../../personas/file/persona-yaml.ts";
import { maxFileBytes } from "../../personas/file/read-file.ts";
import { type PersonaContent, personaFileWith } from "../../personas/file/schema.ts";
import { nameProblem, parsePersona } from "../../personas/persona.ts";
import { optionSchemas } from "../../providers/options.ts";
import { providers } from "../../providers/registry.ts";
import { CommandError, UsageError } from "../context.ts";
import type { NewFile } from "./place-files.ts";

/** One of each large maker: the first whose provider is set up is used, and the last one needs none. */
export const usualModels = [
  ...[exampleNames.openaiSmall, exampleNames.anthropicSmall, exampleNames.googleSmall],
  ...["mistral/mistral-small-latest", "builtin/eliza"],
];

/** The most that a persona's variable may have. */
const maxVariableLength = 100_000;

/** @param name as people write it @returns the name as a file has it; "" where nothing of it can stay */
export function fileName(name: string): string {
  const plain = name.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  return plain
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, "")
    .slice(0, 64)
    .replace(/[^a-z0-9]+$/, "");
}

/** @throws UsageError for a name that no namespace or persona can have */
export function checkName(what: string, name: string): void {
  const problem = nameProblem(name);
  if (problem !== undefined) throw new UsageError(`${what} ${problem}.`);
}

/**
 * @param folder of the personas
 * @returns the persona's file last, so that a server that reads it finds the others
 * @throws CommandError where the persona would be refused
 */
export function draftFilesOf(imported: Imported, id: string, folder: string, models: readonly string[]): NewFile[] {
  const [namespace = "", name = ""] = id.split("/");
  const { draft, avatar, tests } = imported;
  const picture = avatar && `${name}.${avatar.extension}`;
  const value = {
    ...draft,
    description: draft.description ?? (imported.name.trim() || name),
    model: models.length === 1 ? models[0]! : [...models],
    ...(picture !== undefined && { avatar: picture }),
    ...(draft.variables !== undefined && draft.card === undefined && { variables: uncapped(draft.variables) }),
  } as PersonaContent;
  const whole = personaYaml(value);
  // A card holds the persona's texts again: one that has no room beside them stands in a file of its own.
  const isApart = draft.card !== undefined && Buffer.byteLength(whole) > maxFileBytes;
  const cardFile = `${name}.card.json`;
  const text = isApart ? personaYaml({ ...value, card: cardFile }) : whole;
  const path = join(folder, namespace, `${name}.yaml`);
  checkPersona(text, path, id);
  return [
    ...(isApart
      ? [{ path: join(folder, namespace, cardFile), content: `${JSON.stringify(draft.card, null, 2)}\n` }]
      : []),
    ...(avatar === undefined ? [] : [{ path: join(folder, namespace, picture!), content: avatar.bytes }]),
    ...(tests === undefined ? [] : [{ path: join(folder, namespace, `${name}.test.yaml`), content: writeYaml(tests) }]),
    { path, content: text },
  ];
}

/** @returns what an importer made, without what the checker refuses, which is listed */
export const acceptableDraft = (imported: Imported): Imported =>
  acceptable(imported, personaFileWith(optionSchemas(providers)));

/** Other programs' variables have no longest value. */
const uncapped = (variables: Variables): Variables =>
  Object.fromEntries(
    Object.entries(variables).map(([name, variable]) => [
      name,
      variable.enum === undefined ? { ...variable, max_length: maxVariableLength } : variable,
    ]),
  );

function checkPersona(text: string, path: string, id: string): void {
  const size = Buffer.byteLength(text);
  if (size > maxFileBytes) {
    throw new CommandError(
      `${id} would have ${Math.ceil(size / 1024)} KiB, and a persona has at most ${maxFileBytes / 1024}.`,
    );
  }
  const parsed = parsePersona(text, path, id, personaFileWith(optionSchemas(providers)));
  if ("persona" in parsed) return;
  const errors = parsed.errors.map((error) => `  ${formatDiagnostic({ ...error, line: 0 })}`);
  throw new CommandError(`${id} would be no valid persona:\n${errors.join("\n")}`);
}
