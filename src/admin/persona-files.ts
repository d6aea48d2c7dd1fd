/** Files in the folder of personas as the admin API edits them: why one can't be saved, and saving one where the configuration lets it be. */
import { type Static, Type } from "@sinclair/typebox";
import { Finding } from "../api/findings.ts";
import type { ReadOnly } from "../api/persona-sources.ts";
import { OrNull } from "../api/shape.ts";
import type { RequestContext } from "../call/context.ts";
import { jsonAnswer } from "../call/relay/relay.ts";
import type { Services } from "../call/services.ts";
import { errorSchema, writing } from "../http/openapi/describe.ts";
import { Closed } from "../lib/json/schemas.ts";
import { maxFileBytes } from "../personas/file/read-file.ts";
import {
  hashOf,
  idProblem,
  isUnused,
  NotWritten,
  pathOf,
  placeBuiltins,
  readSource,
  replaceSource,
} from "../personas/file/source-file.ts";
import { chat } from "../protocols/chat/chat.ts";
import { ApiError } from "../protocols/errors.ts";

import { wordsOf } from "./persona-check.ts";

export const Named = Type.Object({ namespace: Type.String(), name: Type.String() });
export const idOf = ({ namespace, name }: Static<typeof Named>): string => `${namespace}/${name}`;

export const Text = Type.String({ maxLength: maxFileBytes, description: "Of the whole file." });
const Save = Closed({
  text: Text,
  if_hash: OrNull(Type.String(), {
    description: "The hash of the text that was edited; null: there was no such file.",
  }),
});
const errorWith = (description: string, schema: unknown) => ({
  description,
  content: { "application/json": { schema } },
});

/** What refuses to save, beside the usual errors. */
export const saveRefusals = {
  409: errorWith("The file is no longer the one that was edited.", errorSchema),
  422: errorWith("The text has errors.", {
    allOf: [errorSchema, Type.Object({ findings: Type.Array(Finding) })],
  }),
};

/** Describes a route that saves such a file. */
export const saving = {
  description:
    "Only where console.write is on. The file is replaced whole, where it is the one that was edited (else 409) and the text has no errors (else 422, with findings beside error).",
  params: Named,
  body: Save,
  errors: [404, ...writing],
  others: saveRefusals,
};

/** Whether the personas in service are those of the folder. */
export const isFolderServed = ({ personas }: Services): boolean => personas.labels !== undefined;

/** @param isThere whether the folder has the persona's own file */
export async function readOnlyBecause({ live }: Services, isThere: boolean): Promise<ReadOnly> {
  if (!live.config.console.write) return "write_off";
  return isThere || (await isUnused(live.config.personas.folder)) ? null : "in_executable";
}

const refusals: Readonly<Record<NotWritten["reason"], (path: string, error: NotWritten) => ApiError>> = {
  outside: (path) => ApiError.personaNotWritable(`${path} is a link that leads out of the folder of personas.`),
  changed: (path) => ApiError.personaChanged(`${path} has changed since it was read; nothing was saved.`),
  busy: (path) => ApiError.personaChanged(`${path} is being saved by somebody else; nothing was saved.`),
  failed: (path, { cause }) =>
    ApiError.personaNotWritable(`${path} can't be written: ${(cause as Error).message}.`, cause),
};

/** @property id of the persona */
type EditedFile = {
  readonly id: string;
  /** `<namespace>/<name>` of the file, without its ending. */
  readonly name: string;
  readonly check: (text: string, path: string) => Promise<readonly Finding[]>;
  /** The hash of what stands in its place while the personas are those in the executable; null: nothing does. */
  readonly compiledHash: () => Promise<string | null>;
};

export const errorsOf = (findings: readonly Finding[]): Finding[] =>
  findings.filter(({ severity }) => severity === "error");

/** The text has errors. */
export class NotSaved {
  readonly findings: readonly Finding[];
  constructor(errors: readonly Finding[]) {
    this.findings = errors;
  }

  answer(context: RequestContext) {
    const [first, ...more] = this.findings;
    const rest = more.length === 0 ? "" : ` (and ${more.length} more)`;
    const error = ApiError.personaInvalid(`${wordsOf(first!)}${rest}; nothing was saved.`);
    return jsonAnswer({ ...(chat.error(error, context.id) as object), findings: this.findings }, error.status);
  }
}

/**
 * Replaces a file whole, where it is the one that was edited and has no errors, and serves it.
 * @returns the hashes before and after @throws ApiError
 */
export async function saveFile(
  services: Services,
  { id, name, check, compiledHash }: EditedFile,
  { text, if_hash: ifHash }: Static<typeof Save>,
): Promise<NotSaved | { readonly before: string | null; readonly after: string }> {
  const { live, personas } = services;
  const { folder } = live.config.personas;
  if (!live.config.console.write)
    throw ApiError.personaNotWritable("Personas are read-only here: set console.write to true in the configuration.");
  const problem = idProblem(id);
  if (problem !== undefined) throw ApiError.invalidValue("name", `'${id}' can't name a persona: each part ${problem}.`);
  const isFirst = !isFolderServed(services) && (await isUnused(folder));
  // Others may have filled it a moment ago.
  if (!isFirst && !isFolderServed(services)) await services.rereadPersonas();
  if (!isFirst && !isFolderServed(services) && personas.find(id) !== undefined)
    throw ApiError.personaNotWritable(
      `${id} is in the executable, and ${folder} has files with errors: mend those, which then take the place of the personas inside.`,
    );
  const path = await pathOf(folder, name);
  const errors = errorsOf(await check(text, path));
  if (errors.length > 0) return new NotSaved(errors);
  try {
    if (isFirst) {
      if ((await compiledHash()) !== ifHash) throw new NotWritten("changed");
      await placeBuiltins(folder);
    }
    await replaceSource(folder, name, text, ifHash);
  } catch (error) {
    if (!(error instanceof NotWritten)) throw error;
    throw refusals[error.reason](path, error);
  }
  await services.rereadPersonas();
  return { before: ifHash, after: hashOf(text) };
}

/** The persona's own file, as it is now. @throws ApiError not_found where no persona can have that id */
export async function ownFile(services: Services, id: string) {
  if (idProblem(id) !== undefined) throw noSuchPersona();
  return readSource(services.live.config.personas.folder, id);
}

export const noSuchPersona = (): ApiError => ApiError.notFound("There is no such persona.", "name");
